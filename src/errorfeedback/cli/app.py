"""The command `errorfeedback`. A verb is a file of `verbs/` that defines a function of the same name: how it is called.

What a verb does is in the file of that name in this folder, which is imported when the verb is called and not before: the
libraries that do the work take seconds to import, and `--help` and a mistyped option need none of them.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import Annotated

import typer

from errorfeedback import __version__
from errorfeedback.cli import verbs


def app() -> typer.Typer:
    """All verbs, found by discovery."""
    made = typer.Typer(name="errorfeedback", no_args_is_help=True, pretty_exceptions_enable=False)
    made.callback()(_group)
    for info in sorted(iter_modules(verbs.__path__), key=lambda info: info.name):
        if not info.name.startswith("_"):
            made.command(info.name.replace("_", "-"))(getattr(import_module(f"{verbs.__name__}.{info.name}"), info.name))
    return made


def _tell_version(asked: bool) -> None:
    if asked:
        print(f"errorfeedback {__version__}")
        raise typer.Exit


def _group(
    version: Annotated[
        bool, typer.Option("--version", callback=_tell_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Error feedback for sparse models across many clients."""


def main() -> None:
    """The entry point."""
    app()()
