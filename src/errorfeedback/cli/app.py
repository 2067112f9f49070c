"""The command `errorfeedback`. A verb is a file of this folder that defines a function of the same name."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

import typer

from errorfeedback import cli

VERBS = "errorfeedback.cli."


def app() -> typer.Typer:
    """All verbs, found by discovery."""
    made = typer.Typer(
        name="errorfeedback",
        help="Error feedback for sparse models across many clients.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
    )
    made.callback()(_group)
    for info in sorted(iter_modules(cli.__path__), key=lambda info: info.name):
        if info.name != "app" and not info.name.startswith("_"):
            made.command(info.name.replace("_", "-"))(getattr(import_module(VERBS + info.name), info.name))
    return made


def _group() -> None:
    """Error feedback for sparse models across many clients."""


def main() -> None:
    """The entry point."""
    app()()
