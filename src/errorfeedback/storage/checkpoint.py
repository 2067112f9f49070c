"""A folder from which a run goes on as if it had never stopped.

`problem.ef` has the data as it was given to solve(); `run.ef` has the method, the rule, the seed and all other options, and
says who the run is (its identity); `round-T.ef` has everything that changes, before round T: the model, the memory of
server, clients and rule, bits and history. The last two of these are kept. Whoever writes holds `lock`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from errorfeedback.storage.files import TEMPORARY, WRONG, DamagedError, read, write
from errorfeedback.storage.lock import locked
from errorfeedback.storage.packing import is_storable

LOG = logging.getLogger("errorfeedback")
ROUNDS = "round-"
END = ".ef"
LOCK = "lock"
KEPT = 2
EVERY = 1000


@dataclass(frozen=True)
class Checkpoint:
    """Write a checkpoint every so many rounds, or every so many seconds (by default every 1,000 rounds)."""

    folder: str | Path
    """Where they go; `ef.resume` is given the same."""
    every: int | None = None
    """Rounds between two."""
    seconds: float | None = None
    """Seconds between two, in place of rounds."""

    def __post_init__(self) -> None:
        if self.every is not None and self.seconds is not None:
            raise ValueError(f"every = {self.every} and seconds = {self.seconds}; give one of them")
        if self.every is None and self.seconds is None:
            object.__setattr__(self, "every", EVERY)
        if self.every is not None and (not isinstance(self.every, (int, np.integer)) or self.every < 1):
            raise ValueError(f"every = {self.every}; it must be a whole number of rounds of at least 1")
        if self.seconds is not None and not self.seconds > 0:
            raise ValueError(f"seconds = {self.seconds}; it must be above 0")


@dataclass(frozen=True)
class Folder:
    """What is on the disk."""

    path: Path

    @property
    def problem(self) -> Path:
        return self.path / f"problem{END}"

    @property
    def run(self) -> Path:
        return self.path / f"run{END}"

    def rounds(self) -> list[Path]:
        """The checkpoints, the newest first."""
        return sorted(self.path.glob(f"{ROUNDS}*{END}"), reverse=True)

    @contextmanager
    def held(self) -> Iterator[None]:
        """The folder is there and can be written, and no other process writes into it."""
        with ExitStack() as stack:
            with self._writing():
                self.path.mkdir(parents=True, exist_ok=True)
                stack.enter_context(locked(self.path / LOCK))
                self.sweep()
            yield

    def begin(self, problem: Any, run: dict[str, Any]) -> None:
        """Describe a new run; a folder with checkpoints is never written over."""
        if self.rounds():
            holds = f"{self.path} already holds a run ({self.rounds()[0].name})"
            if not self.run.exists():
                raise ValueError(f"{holds} that cannot go on, for there is no {self.run.name}; choose another folder")
            raise ValueError(f'{holds}; continue it with ef.resume("{self.path}"), or choose another folder')
        with self._writing():
            if is_storable(problem):
                write(self.problem, problem)
            write(self.run, run)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise OSError(
                f"no checkpoint can be written to {self.path} ({error}); choose another folder, or leave out the checkpoint"
            ) from error

    def sweep(self) -> None:
        """Remove what a process left that was killed while it wrote."""
        for leftover in self.path.glob(f"*{TEMPORARY}"):
            leftover.unlink(missing_ok=True)

    def save(self, t: int, snapshot: dict[str, Any]) -> None:
        """Write the checkpoint before round t, and drop all but the last two."""
        write(self.path / f"{ROUNDS}{t:012d}{END}", snapshot)
        for old in self.rounds()[KEPT:]:
            old.unlink(missing_ok=True)

    def newest(self, identity: dict[str, str], check: Callable[[Any], None]) -> dict[str, Any] | None:
        """The newest checkpoint that is whole and passes the check (which raises), None where there is none yet; one of
        another run is refused."""
        for path in self.rounds():
            try:
                snapshot: dict[str, Any] = trusted(path, check)
                theirs = snapshot["identity"]
            except (DamagedError, OSError, LookupError, TypeError) as error:
                LOG.warning("%s; going back to the checkpoint before it", error)
                continue
            refuse_others(identity, theirs, path)
            return snapshot
        LOG.warning("%s holds no checkpoint that can be read; starting from round 0", self.path)
        return None


def trusted(path: Path, check: Callable[[Any], None]) -> Any:
    """What a file holds, where it passes the check (which raises)."""
    value = read(path)
    try:
        check(value)
    except WRONG as error:
        raise DamagedError(f"{path} is not what this version writes: {error}") from error
    return value


def refuse_others(here: dict[str, str], there: Any, path: Path) -> None:
    """Raise where a checkpoint belongs to other data, another method, version or option, and say what differs."""
    there = there if isinstance(there, dict) else {}
    differs = [
        f"{name} is {there.get(name)} there and {here.get(name)} here" for name in here if here[name] != there.get(name)
    ]
    if differs:
        raise ValueError(f"{path} belongs to another run: {'; '.join(differs)}")
