"""All experiments, found by discovery: one file each."""

from __future__ import annotations

from collections.abc import Sequence

from errorfeedback import experiments
from errorfeedback.experiments.base import PAPER, Experiment
from errorfeedback.registry import members


def catalogue() -> dict[str, Experiment]:
    """By name: those of the paper, tables first, and then those of others."""
    every = [kind() for kind in members(experiments, Experiment).values()]  # type: ignore[type-abstract]
    return {e.name: e for e in sorted(every, key=lambda e: (e.source != PAPER, not e.name.startswith("table"), e.name))}


def chosen(names: Sequence[str]) -> list[Experiment]:
    """The named ones, or all."""
    known = catalogue()
    for name in names:
        if name not in known:
            raise ValueError(f"{name!r} is no experiment; there are {', '.join(known)}")
    return [known[name] for name in known if not names or name in names]
