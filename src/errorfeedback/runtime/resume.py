"""Go on with a run from its checkpoints, bit for bit as if it had never stopped."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from errorfeedback.problems.base import Problem
from errorfeedback.records.checkpoint import Folder, refuse_others
from errorfeedback.records.files import read
from errorfeedback.runtime.agreement import agree, of_run
from errorfeedback.runtime.keeper import Keeper, identity, keeping
from errorfeedback.runtime.local import Engine, Local
from errorfeedback.runtime.solve import Result, carry_out


def resume(
    folder: str | Path,
    *,
    problem: Problem | None = None,
    engine: Engine | None = None,
    watch: Callable[[dict[str, float]], None] | None = None,
) -> Result:
    """Finish the run that `solve(..., checkpoint=ef.Checkpoint(folder))` began, on any engine.

    `problem` saves reading the data from the folder; other data are refused. A run that was finished is returned as it is.
    """
    place = Folder(Path(folder))
    if not place.run.exists():
        raise ValueError(
            f"{place.path} holds no run to go on with: there is no {place.run.name} in it. It is written by a run with a "
            "checkpoint: errorfeedback train --checkpoint FOLDER, or solve(..., checkpoint=ef.Checkpoint(FOLDER))"
        )
    run: dict[str, Any] = read(place.run)
    problem = read(place.problem) if problem is None else problem
    who = identity(problem, run["options"])
    refuse_others(who, run["identity"], place.run)
    engine = Local() if engine is None else engine
    agree(engine.together, lambda: of_run(problem, engine, run["options"]))
    checkpoint = replace(run["checkpoint"], folder=folder)
    with keeping(place, engine, lambda: Keeper(checkpoint, who, place.newest(who))) as keeper:
        return carry_out(problem, **run["options"], engine=engine, watch=watch, keeper=keeper)
