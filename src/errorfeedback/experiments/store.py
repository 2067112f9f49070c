"""Finished jobs on disk: DIR/curves/NAME-FINGERPRINT.csv with the numbers and .json with the facts.

The CSV is complete before it gets its name, so an interrupted program leaves no half of a curve behind.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
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

    def has(self, job: Job) -> bool:
        return self.path(job).is_file()

    def save(self, job: Job, record: Record, seconds: float) -> None:
        """The facts first: a CSV that is there is complete."""
        path = self.path(job)
        path.parent.mkdir(parents=True, exist_ok=True)
        facts = {"fingerprint": job.fingerprint, "job": repr(job), "label": job.label, "seconds": seconds, **record.facts}
        _replace(path.with_suffix(".json"), json.dumps(facts, indent=1))
        names = list(record.columns)
        rows = zip(*(record.columns[name].tolist() for name in names), strict=True)
        lines = [",".join(names), *(",".join(map(repr, row)) for row in rows)]
        _replace(path, "\n".join(lines) + "\n")

    def load(self, job: Job) -> Record | None:
        """The stored result of exactly this job, if there is one."""
        if not self.has(job):
            return None
        path = self.path(job)
        facts: dict[str, Any] = json.loads(path.with_suffix(".json").read_text())
        with path.open() as file:
            names = file.readline().strip().split(",")
            table = np.loadtxt(file, delimiter=",", ndmin=2)
        return Record({name: table[:, k] for k, name in enumerate(names)}, facts)


def _replace(path: Path, text: str) -> None:
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)
