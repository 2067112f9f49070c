"""The point that a rule kept: remembered, gone back to, and compared with the last one at the end.

At the end the run returns the point that a stopping rule chose; else the better one of x and the point that was kept, by
the exact loss, which takes one exchange more where the rule has not just seen it. A rule that searches returns the last
point that it accepted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from errorfeedback.clients.memory import copied
from errorfeedback.clients.order import Kept
from errorfeedback.core import Model
from errorfeedback.engines.base import Session
from errorfeedback.runtime.observer import Observer
from errorfeedback.runtime.state import State
from errorfeedback.runtime.stopping import Stops
from errorfeedback.stepsizes.base import Telemetry, Verdict

LAST, BEST = "the last point", "the point with the lowest loss among those that the clients told it at"
ACCEPTED = "the last point that was accepted"


@dataclass(frozen=True, eq=False)
class Guard:
    """What is done with the point that was kept."""

    stops: Stops
    observer: Observer
    keeps_best: bool
    """The rule searches: what it kept is better than what it went back from."""

    def keep(self, s: State, telemetry: Telemetry | None) -> None:
        s.kept = copied((s.x, s.method, s.downlink), s.kept)
        if telemetry is not None and telemetry.losses is not None:  # who stands at a point that was kept need not tell again
            s.losses = telemetry.losses

    def kept(self, s: State) -> Kept | None:
        """The point that was kept, as engines know it."""
        return None if s.kept is None else Kept((s.kept[0], s.kept[2]), s.losses)

    def restore(self, s: State) -> None:
        assert s.kept is not None, "a rule keeps a point before it goes back"
        x, method, downlink = s.kept
        s.x[:], s.method, s.downlink = x, copied(method, s.method), copied(downlink, s.downlink)
        s.move = s.broadcast = None

    def must_choose(self, s: State) -> bool:
        """Whether the end has to choose between x and the point that was kept."""
        chosen = s.verdict is Verdict.KEEP or self.stops.choice is not None or self.keeps_best
        return s.kept is not None and not chosen and not np.array_equal(s.x, s.kept[0])

    def choice(self, session: Session, s: State) -> tuple[Model, str]:
        """The point that the run returns, and which it is."""
        if self.stops.choice is not None:
            return self.stops.choice
        if s.kept is not None and self.keeps_best and s.verdict.goes_back:
            return s.kept[0], ACCEPTED
        if s.kept is not None and self.must_choose(s):
            best, objective = s.kept[0], self.observer.objective
            if not objective(session.values(s.x), s.x) <= objective(session.values(best, kept=True), best):
                return best, BEST
        return s.x, LAST
