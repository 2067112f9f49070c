"""Go on with a run from its checkpoints, bit for bit as if it had never stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from traceback import walk_tb
from typing import Any

from errorfeedback.engines.base import Engine
from errorfeedback.engines.local import Local
from errorfeedback.problems.base import Problem
from errorfeedback.runtime.agreement import agree, of_run
from errorfeedback.runtime.checkpointing import CheckpointWriter, checkpointing, identity
from errorfeedback.runtime.solve import Result, carry_out
from errorfeedback.runtime.soundness import check_problem, check_run, check_snapshot
from errorfeedback.storage.checkpoint import Folder, refuse_others, trusted
from errorfeedback.storage.files import LONG, DamagedError

OWN = {"errorfeedback", "numpy", "numba", "scipy", "contextlib"}
"""Who does the work of a run."""


def resume(
    folder: str | Path,
    *,
    problem: Problem | None = None,
    engine: Engine | None = None,
    watch: Callable[[dict[str, float]], None] | None = None,
    expected: dict[str, Any] | None = None,
) -> Result:
    """Finish the run that `solve(..., checkpoint=ef.Checkpoint(folder))` began, on any `engine`; `watch` sees its rows.

    `problem` saves reading the data from the folder; other data are refused, and so is a run whose options of `solve` are
    not the `expected` ones. A run that was finished is returned as it is.
    """
    place = Folder(Path(folder))
    if not place.run.exists():
        raise ValueError(
            f"{place.path} holds no run to go on with: there is no {place.run.name} in it. It is written by a run with a "
            "checkpoint: errorfeedback train --checkpoint FOLDER, or solve(..., checkpoint=ef.Checkpoint(FOLDER))"
        )
    run: dict[str, Any] = trusted(place.run, check_run)
    if problem is None and not place.problem.exists():
        raise ValueError(
            f"{place.path} does not hold the problem, which has functions of your own: give ef.resume(problem=...)"
        )
    given: Problem = trusted(place.problem, check_problem) if problem is None else problem
    who = identity(given, run["options"] | (expected or {}))
    refuse_others(who, run["identity"], place.run)
    engine = Local() if engine is None else engine
    engine.converse(lambda seat: agree(lambda: of_run(given, engine, run["options"]), seat))
    checkpoint = replace(run["checkpoint"], folder=folder)

    def newest() -> dict[str, Any] | None:
        return place.newest(who, lambda snapshot: check_snapshot(snapshot, given, run["options"]["rounds"]))

    with checkpointing(place, engine, lambda: CheckpointWriter(checkpoint, who, newest())) as writer, _explained(place):
        options = run["options"] | (expected or {})  # the same, but they may know more than a file can hold
        return carry_out(given, **options, engine=engine, watch=watch, writer=writer)


@contextmanager
def _explained(place: Folder) -> Iterator[None]:
    """A state that no run of this version can have been in shows where it is used."""
    try:
        yield
    except (ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, TypeError) as error:
        if _is_foreign(error):
            raise
        what = f"{type(error).__name__}: {error}"
        raise DamagedError(
            f"the run in {place.path} cannot go on ({what[:LONG]}): its state is not one that this version wrote; begin it "
            "again in another folder"
        ) from error


def _is_foreign(error: BaseException) -> bool:
    """Whether it came through a function of the user: a watch, a method, a problem."""
    frames = [frame.f_globals.get("__name__", "") for frame, _ in walk_tb(error.__traceback__)]
    return any(name.split(".")[0] not in OWN for name in frames)
