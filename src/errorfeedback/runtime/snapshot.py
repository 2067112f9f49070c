"""A run between two rounds as a dict that a checkpoint can hold, and back; random draws depend on (seed, t) only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from errorfeedback.engines.base import Session
from errorfeedback.runtime.clock import Clock
from errorfeedback.runtime.ledger import Ledger
from errorfeedback.runtime.state import State
from errorfeedback.runtime.stopping import Stops


@dataclass(frozen=True, eq=False)
class Snapshots:
    """Of one run: its books, its stopping rules and its recorded rows are part of them."""

    ledger: Ledger
    stops: Stops
    rows: list[dict[str, float]]

    def take(self, t: int, stopped: str, s: State, clock: Clock, session: Session) -> dict[str, Any]:
        """The run before round t, or where it stopped."""
        return {
            "round": t,
            "stopped": stopped,
            "state": vars(s),
            "stop": self.stops.states,
            "clients": session.memory(),
            "bits": self.ledger.totals,
            "rows": {name: np.array([row[name] for row in self.rows]) for name in self.rows[0]},
            "seconds": clock.seconds,
        }

    def recall(self, snapshot: dict[str, Any], session: Session) -> tuple[int, State, Clock]:
        """Go back there: the round, the state, and the time that the run has taken."""
        s = State(**snapshot["state"])
        self.ledger.totals = snapshot["bits"]
        self.stops.states = snapshot["stop"]
        columns = {name: column.tolist() for name, column in snapshot["rows"].items()}
        self.rows[:] = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        session.recall(snapshot["clients"], (s.x, s.downlink), None if s.kept is None else (s.kept[0], s.kept[2]))
        return snapshot["round"], s, Clock(snapshot["seconds"])
