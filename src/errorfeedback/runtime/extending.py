"""A run that a longer one goes on from: one file with the state before the last round.

The last round is recorded in any case and bills what the end costs. What is kept is therefore the state before it: with more
rounds that round is run again, as one among others, and everything is bit for bit as if the run had never ended there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from errorfeedback.engines.base import Engine
from errorfeedback.problems.base import Problem
from errorfeedback.runtime.checkpointing import identity
from errorfeedback.runtime.soundness import check_snapshot
from errorfeedback.storage.checkpoint import LOG, refuse_others, trusted
from errorfeedback.storage.files import DamagedError, write


@dataclass(frozen=True)
class Extendable:
    """`solve(..., rounds=600, checkpoint=Extendable(file))` goes on from where the same call with fewer rounds ended.

    The file has no data and no options, only a hash of them: the call must be the same but for its rounds. Runs that end by
    themselves, or with fewer rounds than are kept, are run from the start.

    >>> import tempfile
    >>> import errorfeedback as ef
    >>> problem, seen = ef.synthetic(n=10, d=20, m=3, c=2), []
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for rounds in (50, 60):
    ...         run = ef.solve(
    ...             problem,
    ...             ef.EF21(ef.TopK(1)),
    ...             ef.RareFeatures(),
    ...             rounds=rounds,
    ...             checkpoint=ef.Extendable(f"{folder}/run.ef"),
    ...             watch=lambda row: seen.append(row["round"]),
    ...         )
    >>> seen[50:53], run.history.rows
    ([50, 50, 51], 61)
    """

    file: str | Path


@dataclass(eq=False)
class LastStateWriter:
    """Keeps the state before the last round of one run."""

    file: Path
    identity: dict[str, str]
    rounds: int
    snapshot: dict[str, Any] | None
    """The state that the run goes on from."""

    def due(self, t: int, last: bool) -> bool:
        """Whether the round after t is the last."""
        return t + 1 == self.rounds and not last

    def save(self, t: int, snapshot: dict[str, Any]) -> None:
        """The state before round t; what goes wrong with the disk is reported, and the run goes on."""
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            write(self.file, {"identity": self.identity, **snapshot})
        except OSError as error:
            LOG.warning("the state of the run was not kept (%s); a longer one will begin at round 0", error)

    def listening(self) -> AbstractContextManager[None]:
        """Signals are somebody else's business."""
        return nullcontext()


@contextmanager
def extending(
    extendable: Extendable, problem: Problem, options: dict[str, Any], engine: Engine
) -> Iterator[LastStateWriter | None]:
    """The writer of a run that can be made longer, on the process that leads."""
    writer = None
    if engine.leads:
        with engine.guard():
            file, rounds = Path(extendable.file), options["rounds"]
            who = {name: text for name, text in identity(problem, options).items() if name != "rounds"}
            writer = LastStateWriter(file, who, rounds, _kept(file, who, problem, rounds))
    yield writer


def _kept(file: Path, who: dict[str, str], problem: Problem, rounds: int) -> dict[str, Any] | None:
    """The state in the file, if there is one from which so many rounds can be reached; that of another run is refused."""
    if not file.is_file():
        return None
    try:
        snapshot: dict[str, Any] = trusted(file, lambda value: check_snapshot(value, problem, value["round"]))
        theirs = snapshot["identity"]
    except (DamagedError, OSError, LookupError, TypeError) as error:
        LOG.warning("%s; the run begins at round 0", error)
        return None
    refuse_others(who, theirs, file)
    return snapshot if snapshot["round"] <= rounds else None
