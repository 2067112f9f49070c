"""All processes of an engine must do the same: what each was given is compared before any work, and what differs is named.

They exchange hashes and a few words, never the data. Functions cannot be compared; of them only the kind counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

import errorfeedback
from errorfeedback.engines.base import Engine
from errorfeedback.problems.base import Problem
from errorfeedback.problems.conversation import Conversation, Seat
from errorfeedback.storage.packing import fingerprint

LONG = 100
"""Letters of a value that are shown; of longer ones it is the hash, unless they are text."""
Described = tuple[str, str]
"""The hash of a value, and what to call it."""


def agree(given: Callable[[], dict[str, Any]], seat: Seat) -> Conversation[None]:
    """Raise on every process where they were not all given the same."""
    if seat.of == 1:
        return
    everyone = yield {name: _described(value) for name, value in given().items()}
    names = dict.fromkeys(name for each in everyone for name in each)
    differing = [words for name in names if (words := _difference(name, [each.get(name) for each in everyone]))]
    if differing:
        raise ValueError(f"the ranks must be given the same, but {'; '.join(differing)}")


def of_run(problem: Problem, engine: Engine, options: dict[str, Any]) -> dict[str, Any]:
    """What a run depends on: every part of the problem, the engine, and all options of `solve`."""
    parts = {f"problem.{each.name}": getattr(problem, each.name) for each in fields(problem) if each.init}
    return {"version": errorfeedback.__version__, "problem": type(problem), **parts, "engine": engine, **options}


def _difference(name: str, everyone: list[Described | None]) -> str:
    """What rank 0 has, and the first rank that has something else; nothing where all agree."""
    digests = [each and each[0] for each in everyone]
    rank = next((k for k, digest in enumerate(digests) if digest != digests[0]), 0)
    here, there = (each[1] if each else "missing" for each in (everyone[0], everyone[rank]))
    return f"{name} is {here} on rank 0 and {there} on rank {rank}" if rank else ""


def _described(value: Any) -> Described:
    digest, text = _digest(value), repr(value)
    shown = isinstance(value, str) or (len(text) <= LONG and "\n" not in text and not isinstance(value, np.ndarray))
    return digest, text if shown else digest[:16]


def _digest(value: Any) -> str:
    """A hash of everything in a value that can be compared between processes."""
    try:
        return fingerprint(value)
    except TypeError:  # a function somewhere, or a class of the user
        kind = f"{type(value).__module__}.{type(value).__qualname__}"
        if is_dataclass(value) and not isinstance(value, type):
            return fingerprint([kind, *(_digest(getattr(value, each.name)) for each in fields(value))])
        if isinstance(value, (tuple, list)):
            return fingerprint([kind, *map(_digest, value)])
        return fingerprint(kind)
