"""The command `errorfeedback`. A verb is a file of `verbs/` that defines a function of the same name: how it is called.

What a verb does is in the file of that name in this folder, which is imported when the verb is called and not before: the
libraries that do the work take seconds to import, and `--help` and a mistyped option need none of them.
"""

from __future__ import annotations

from importlib import import_module
from inspect import cleandoc
from pkgutil import iter_modules
from types import ModuleType
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from errorfeedback import __version__
from errorfeedback.cli import interrupted, verbs
from errorfeedback.extras import MissingExtraError


class Sentence(typer.BadParameter):
    """What is wrong, with nothing before it, and exit code 2."""

    def format_message(self) -> str:
        return self.message


class Verbs(TyperGroup):
    """Every verb ends in the same way: what is wrong with the input, the disk or the installation is a sentence."""

    def make_context(self, *words: Any, **extra: Any) -> Any:
        try:
            return super().make_context(*words, **extra)
        except KeyboardInterrupt:  # reading the words imports libraries too
            interrupted()

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            interrupted()
        except BrokenPipeError:  # whoever read the output has had enough
            raise
        except (ValueError, OSError, MissingExtraError) as error:
            raise Sentence(str(error)) from error


def app() -> typer.Typer:
    """All verbs, found by discovery. Plain text: boxes around the help cost as much time as all the rest of it."""
    made = typer.Typer(
        name="errorfeedback", cls=Verbs, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None
    )
    made.callback()(_group)
    _add(made, verbs)
    return made


def _add(group: typer.Typer, package: ModuleType) -> None:
    """The verbs of a package; a package in it is a group of its own, with its docstring for help."""
    for info in sorted(iter_modules(package.__path__), key=lambda info: info.name):
        if info.name.startswith("_"):
            continue
        module, name = import_module(f"{package.__name__}.{info.name}"), info.name.strip("_").replace("_", "-")
        if info.ispkg:
            inner = typer.Typer(help=module.__doc__, no_args_is_help=True, rich_markup_mode=None)
            _add(inner, module)
            group.add_typer(inner, name=name)
        else:
            verb = getattr(module, info.name)
            group.command(name, short_help=cleandoc(verb.__doc__).splitlines()[0])(verb)


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
