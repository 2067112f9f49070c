"""What `train` leaves in a folder beside the model: the history, and who the clients are and what they send."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any, Self

import numpy as np

from errorfeedback.core import Floats, PerClient
from errorfeedback.storage.history import COLUMNS, History

HISTORY, CLIENTS = "history.json", "clients.json"


WAYS = ("up", "down", "after")


@dataclass(frozen=True, eq=False)
class ClientTraffic:
    """The clients by name; bits of the message up of each, and of its part of the model down in full, in a round; and of
    what it says after the last one."""

    names: Sequence[Any]
    up: PerClient
    down: PerClient
    after: PerClient

    def write(self, path: Path) -> Path:
        ways = {way: getattr(self, way).tolist() for way in WAYS}
        path.write_text(json.dumps({"names": self.names, **ways}), "utf-8")
        return path

    @classmethod
    def read(cls, path: Path) -> Self:
        given = _content(path)
        given.setdefault("after", [0.0] * len(given["names"]))  # earlier versions had nothing to say then
        made = cls(given["names"], *(PerClient(np.asarray(given[way], dtype=np.float64)) for way in WAYS))
        if not len(made.names) == len(made.up) == len(made.down) == len(made.after) > 0:
            raise ValueError(f"{path}: {len(made.names)} clients with {len(made.up)} and {len(made.down)} messages")
        return made


def history_columns(history: Mapping[str, Floats]) -> dict[str, list[float | None]]:
    """A history for machines: what is not a finite number, which JSON has no word for, is null."""
    return {name: [value if isfinite(value) else None for value in column.tolist()] for name, column in history.items()}


def history_of(run: Path) -> History:
    """The history that `train` wrote into this folder; null, and the NaN of earlier versions, is NaN."""
    columns = _content(run / HISTORY)
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return History([{name: value for name, value in row.items() if name in COLUMNS and value is not None} for row in rows])


def _content(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file; a folder that `errorfeedback train` of this version wrote has it")
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path}: damaged ({error}); train again") from error
    return content
