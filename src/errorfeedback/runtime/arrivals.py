"""Who comes late. The run ends after the round it is in; all who are there gather again, and the next run goes on from x.

    while True:
        transport = listener.transport()                    # ef.Listener(..., quorum=2, wait=60.0)
        problem, _ = ef.gathered(transport, len(transport.members))
        result = ef.solve(problem, ..., x0=x0, stop=[ef.Arrivals(listener.latecomers)], engine=ef.Elsewhere(transport))
        x0, history = result.x, result.history if history is None else history.followed_by(result.history)
        if not listener.latecomers():
            break

Every part is a run of its own, of all clients that are in it: n, J_i, L_i and scales are theirs, round 0 is exact, and what
is proved of a run from x0 holds for it. What is given up for that is g_i and the pairs of a direction: a round, and a few.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from errorfeedback.runtime.stopping import Progress, Stop


@dataclass(frozen=True)
class Arrivals(Stop):
    """Somebody is there who is not in the run: `waiting()` says who.

    >>> Arrivals(lambda: ["c"]).next(None, Progress(7, 0.0, 0.1, None, None, None))[0]
    'c came in round 7'
    """

    waiting: Callable[[], Sequence[str]]

    def next(self, state: None, seen: Progress) -> tuple[str, None]:
        names = self.waiting()
        return f"{', '.join(names)} came in round {seen.t}" if names else "", None
