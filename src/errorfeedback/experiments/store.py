"""Finished jobs on disk: DIR/curves/NAME-FINGERPRINT.csv with the numbers and .json with the facts; DIR/states/ has
what a longer run goes on from.

The CSV is complete before it gets its name, so an interrupted program leaves no half of a curve behind; a checksum over
both tells whether they are still what was computed.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from hashlib import sha256
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np

from errorfeedback.experiments.jobs import Job, Record


@dataclass(frozen=True)
class Store:
    """The finished jobs of a folder."""

    folder: Path

    def path(self, job: Job) -> Path:
        return self.folder / "curves" / f"{job.file}.csv"

    def state(self, job: Job) -> Path:
        """Where a job keeps what a longer one goes on from."""
        return self.folder / "states" / f"{job.file}.ef"

    def has(self, job: Job) -> bool:
        """Whether there is a result that serves the job."""
        return self.load(job) is not None

    def save(self, job: Job, record: Record, seconds: float) -> None:
        """The facts first: a CSV that is there is complete."""
        path = self.path(job)
        path.parent.mkdir(parents=True, exist_ok=True)
        facts = {"fingerprint": job.fingerprint, "job": repr(job), "label": job.label, "seconds": seconds, **record.facts}
        names = list(record.columns)
        rows = zip(*(record.columns[name].tolist() for name in names), strict=True)
        curve = "\n".join([",".join(names), *(",".join(map(repr, row)) for row in rows)]) + "\n"
        _replace(path.with_suffix(".json"), json.dumps({**facts, "sha256": _digest(facts, curve)}, indent=1))
        _replace(path, curve)

    def load(self, job: Job) -> Record | None:
        """The stored result of exactly this job, if there is one."""
        path = self.path(job)
        if not path.is_file():
            return None
        try:
            facts, curve = (
                json.loads(path.with_suffix(".json").read_text(encoding="utf-8")),
                path.read_text(encoding="utf-8"),
            )
            if facts.pop("sha256") != _digest(facts, curve):
                raise ValueError("the checksum is another")
        except (ValueError, KeyError, TypeError, AttributeError, OSError, RecursionError) as error:
            raise ValueError(
                f"{path} or the .json beside it is damaged ({error}); delete both, and the command that wrote into "
                f"{self.folder} computes them again"
            ) from error
        if not job.served_by(facts):
            return None
        head, *_ = curve.splitlines()
        table = np.loadtxt(StringIO(curve), delimiter=",", ndmin=2, skiprows=1)
        return Record({name: table[:, k] for k, name in enumerate(head.split(","))}, facts)


def _digest(facts: dict[str, Any], curve: str) -> str:
    text = json.dumps(json.loads(json.dumps(facts)), sort_keys=True)  # as it comes back from a file
    return sha256(f"{text}\n{curve}".encode()).hexdigest()


def _replace(path: Path, text: str) -> None:
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)
