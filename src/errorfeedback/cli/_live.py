"""`--live`: a page of this machine that follows the run, opened where there is a screen."""

from __future__ import annotations

import os
import sys
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import typer

from errorfeedback.watchers.live_page import LivePage

SCREENS = ("DISPLAY", "WAYLAND_DISPLAY")


@contextmanager
def live_page(wanted: bool, clients: int, title: str) -> Iterator[Callable[[dict[str, float]], None]]:
    """What to call with every row; nothing happens where no page is wanted."""
    if not wanted:
        yield lambda row: None
        return
    with LivePage(clients=clients, title=title) as page:
        typer.echo(f"Live: {page.url}", err=True)
        if _has_screen():
            webbrowser.open(page.url)
        yield page


def _has_screen() -> bool:
    """Without one, Python would start a browser of the terminal."""
    return sys.platform in ("win32", "darwin") or any(os.environ.get(name) for name in SCREENS)
