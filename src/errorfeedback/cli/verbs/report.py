"""`errorfeedback report DIR`: the figures and the page of a reproduction, from its stored curves, without running."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from errorfeedback.cli.verbs._begin import begin


def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder that `errorfeedback reproduce` wrote.")],
) -> None:
    """Redraw the figures and the page of a reproduction from its stored curves."""
    begin(folders=[folder], pages=True)
    from errorfeedback.cli.report import report as work

    work(folder)
