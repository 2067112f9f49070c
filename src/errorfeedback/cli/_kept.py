"""What `train` was asked for, kept beside its checkpoints: `resume` asks for the same, and a second `train` into the same
folder must.
"""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from errorfeedback.cli.verbs._training import Training
from errorfeedback.storage.checkpoint import Folder, trusted
from errorfeedback.storage.files import write

FILE = "training.ef"
FREE = ("out", "network", "quiet", "live", "engine", "timeout", "checkpoint")
"""Options that may change while a run goes on: they do not change the model."""


def keep(folder: Path, options: Training, command: str) -> None:
    """Write what was asked for; refuse a folder whose run was asked for something else."""
    with Folder(folder).held():
        asked = _anywhere(options)
        if not Folder(folder).run.exists():
            write(folder / FILE, {"options": asked, "command": command})
            return
    if not (folder / FILE).exists():
        raise ValueError(f"{folder} holds a run that `train` did not begin; choose another folder for --checkpoint")
    there = kept(folder)[0]
    differs = [
        f"{_option(f.name)} was {_shown(getattr(there, f.name))} and is {_shown(getattr(asked, f.name))}"
        for f in fields(Training)
        if f.name not in FREE and getattr(there, f.name) != getattr(asked, f.name)
    ]
    if differs:
        raise ValueError(f"{folder} holds a run with other options: {'; '.join(differs)}; use the same, or another folder")


def kept(folder: Path) -> tuple[Training, str]:
    """What was asked for, and the command."""
    stored = trusted(folder / FILE, _check)
    return stored["options"], stored["command"]


def _check(stored: Any) -> None:
    """Raise where this is not what `keep` writes."""
    if not isinstance(stored["options"], Training) or not isinstance(stored["command"], str):
        raise ValueError("it does not say what `train` was asked for")
    for name, hint in get_type_hints(Training).items():
        if not _fits(getattr(stored["options"], name), hint):
            raise ValueError(f"{_option(name)} cannot be {getattr(stored['options'], name)!r:.50}")


def _fits(value: Any, hint: Any) -> bool:
    inner = get_args(hint)
    if get_origin(hint) is list:
        return isinstance(value, list) and all(_fits(each, inner[0]) for each in value)
    if inner:
        return any(_fits(value, each) for each in inner)
    return isinstance(value, hint) and (hint is bool or not isinstance(value, bool))


def _anywhere(options: Training) -> Training:
    """With paths that hold in any working directory; the name of a known data set is none, nor is a share."""
    return replace(
        options,
        data=_whole(options.data),
        valid=None if options.valid is None else _whole(options.valid),
        out=options.out.absolute(),
        groups=None if options.groups is None else options.groups.absolute(),
    )


def _whole(path: str) -> str:
    return str(Path(path).absolute()) if Path(path).exists() else path


def _option(name: str) -> str:
    return "DATA" if name == "data" else f"--{name.replace('_', '-')}"


def _shown(value: Any) -> str:
    return "not given" if value is None or value == "" else str(value)
