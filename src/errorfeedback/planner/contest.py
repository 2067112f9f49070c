"""Methods measured against each other: the same objective, the same start, and what each has paid when it gets there.

    level = best + GOAL (start - best),    best: the lowest loss that anybody reached

A method is there when what it would return is at or below the level from then on: a rule that hears the loss returns its
best point, any other its last one. The price is time on the network where one is given, else bytes up and down together;
what is sent before round 0 (scaling, first uploads) is part of it. Who is cheaper stands first; who never gets there stands
behind, the lowest loss first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from errorfeedback.core import Floats
from errorfeedback.directions.base import Direction
from errorfeedback.downlinks.base import Downlink
from errorfeedback.downlinks.whole import Whole
from errorfeedback.methods.base import Method
from errorfeedback.planner.limits import Limit
from errorfeedback.planner.network import Network, Pace, Wire, elapsed, traffic
from errorfeedback.planner.units import human_bytes, human_seconds
from errorfeedback.problems.base import Problem
from errorfeedback.problems.proximal import ElasticNet
from errorfeedback.runtime.begin import Begin
from errorfeedback.runtime.extending import Extendable
from errorfeedback.runtime.solve import Result, solve
from errorfeedback.stepsizes.base import StepSize
from errorfeedback.storage.history import History
from errorfeedback.theory.analysis import analyse

GOAL = 0.01
"""The winner is the first that leaves no more than this share of the way from the start to the best loss."""
THEOREM, AUTOMATIC, HINDSIGHT = "theorem", "automatic", "in hindsight"
"""Who chose a step size."""


@dataclass(frozen=True)
class Contestant:
    """A method with a step size, as tables call it."""

    label: str
    method: Method
    rule: StepSize
    direction: Direction | None = None
    downlink: Downlink | None = None
    entrant: str = ""
    """What it is without its step size; its own label where nobody says."""
    choice: str = ""
    """THEOREM, AUTOMATIC (a rule on the way) or HINDSIGHT; empty where nobody says."""
    begin: Begin | None = None
    """Where it begins, where that is not zero."""

    def knows(self, prox: ElasticNet) -> bool:
        """Whether the server may add that penalty by itself."""
        try:
            self.method.check_penalty(prox)
            (self.downlink or Whole()).check(self.method, prox)
        except ValueError:
            return False
        return True

    def run(
        self,
        problem: Problem,
        *,
        rounds: int,
        seed: int = 0,
        every: int = 1,
        densely: int = 0,
        prox: ElasticNet | None = None,
        networks: Sequence[Network] | None = None,
        max_bytes: float = inf,
        max_seconds: float = inf,
        watch: Callable[[dict[str, float]], None] | None = None,
        state: Path | None = None,
    ) -> Result:
        """One run of it within the limits. `networks`: the link of every client; `state`: the file of what more rounds go on
        from."""
        wire = None if networks is None else Wire(*traffic(analyse(problem, self.method.compressor)), Pace.of(networks))
        return solve(
            problem,
            self.method,
            self.rule,
            direction=self.direction,
            downlink=self.downlink,
            rounds=rounds,
            x0=self.begin,
            seed=seed,
            every=every,
            densely=densely,
            stop=[Limit(max_bytes, max_seconds, wire)],
            prox=prox,
            watch=watch,
            checkpoint=None if state is None else Extendable(state),
        )

    def entry(
        self, problem: Problem, histories: Sequence[History], stopped: str, networks: Sequence[Network] | None = None
    ) -> Entry:
        """What its runs were, one history for every seed; `stopped`: why they ended."""
        shown = typical(histories)
        parts = traffic(analyse(problem, self.method.compressor))
        seconds = None if networks is None else elapsed(shown, *parts, networks)
        who = self.entrant or self.label
        return Entry(
            self.label, shown, problem.n, self.rule.tells_loss, stopped, seconds, who, self.choice, tuple(histories)
        )


def typical(histories: Sequence[History]) -> History:
    """The run whose loss at the end is the median (of two, the lower one); a run that left the numbers is the worst."""
    order = sorted(histories, key=lambda history: (not np.isfinite(history["f"][-1]), history["f"][-1]))
    return order[(len(order) - 1) // 2]


@dataclass(frozen=True, eq=False)
class Entry:
    """One contestant's run; of several seeds the typical one."""

    label: str
    history: History
    n: int
    hears_loss: bool
    stopped: str
    seconds: Floats | None
    """On the network, until every recorded round."""
    entrant: str = ""
    """The method without its step size."""
    choice: str = ""
    """Who chose the step size."""
    seeds: tuple[History, ...] = ()
    """The runs of all seeds."""

    @cached_property
    def up(self) -> Floats:
        """Bytes per client sent until every recorded round."""
        return self.history["uplink_bits"] / 8 / self.n

    @cached_property
    def down(self) -> Floats:
        """Bytes per client received until every recorded round."""
        return self.history["downlink_bits"] / 8 / self.n

    @property
    def total(self) -> Floats:
        return self.up + self.down

    @property
    def price(self) -> Floats:
        """What the ranking counts: seconds on the network, or bytes up and down."""
        return self.total if self.seconds is None else self.seconds

    @property
    def final(self) -> float:
        """The loss at the end."""
        return float(self.history["f"][-1])

    @property
    def lowest(self) -> float:
        """The lowest loss on the way."""
        return float(self._finite.min())

    @property
    def gamma(self) -> float:
        """The step size; of a rule that moves, the median over the recorded rounds."""
        return float(np.median(self.history["gamma"]))

    def band(self, column: str) -> tuple[Floats, Floats] | None:
        """The least and the largest over the seeds, as far as all of them went; None where they agree."""
        rows = min(len(history["round"]) for history in (self.history, *self.seeds))
        every = np.array([history[column][:rows] for history in self.seeds])
        if len(every) < 2 or np.array_equal(every.min(axis=0), every.max(axis=0), equal_nan=True):
            return None
        return every.min(axis=0), every.max(axis=0)

    @cached_property
    def _finite(self) -> Floats:
        return np.where(np.isfinite(self.history["f"]), self.history["f"], inf)

    def there(self, level: float) -> int | None:
        """The recorded round from which on the method would return a point with at most this loss."""
        returned = np.minimum.accumulate(self._finite) if self.hears_loss else self._finite
        above = np.flatnonzero(returned > level)
        first = int(above[-1]) + 1 if len(above) else 0
        return first if first < len(returned) else None

    def cost(self, level: float) -> float:
        """The price of getting there; infinite for who does not."""
        row = self.there(level)
        return inf if row is None else float(self.price[row])

    def cell(self, level: float) -> str:
        """What it took to get there: bytes up and down, rounds, and time where there is a network."""
        row = self.there(level)
        if row is None:
            return "-"
        time = [] if self.seconds is None else [human_seconds(float(self.seconds[row]))]
        return " / ".join([human_bytes(float(self.total[row])), f"{self.history['round'][row]:,}", *time])


@dataclass(frozen=True, eq=False)
class Contest:
    """All runs, the winner first."""

    entries: list[Entry]
    network: str
    """What times are counted on; empty without a network."""

    @classmethod
    def ranked(cls, entries: Iterable[Entry], network: str = "") -> Contest:
        unsorted = cls(list(entries), network)
        return cls(sorted(unsorted.entries, key=lambda e: (e.cost(unsorted.level()), e.lowest)), network)

    @property
    def start(self) -> float:
        return float(self.entries[0].history["f"][0])

    @property
    def lowest(self) -> float:
        """The lowest loss that anybody reached."""
        return min(entry.lowest for entry in self.entries)

    def level(self, share: float = GOAL) -> float:
        """The loss at which that share of the way from the start to the best is left."""
        return self.lowest + share * (self.start - self.lowest)

    @property
    def winner(self) -> Entry:
        return self.entries[0]

    @property
    def asked(self) -> str:
        """What the ranking counts."""
        return "time on the network" if self.network else "bytes up and down"

    @property
    def badge(self) -> str:
        """The winner in a word or two."""
        return "fastest" if self.network else "fewest bytes"

    def cost_text(self, entry: Entry) -> str:
        """The price of the goal with its parts."""
        row = entry.there(self.level())
        if row is None:
            return f"does not get there (lowest loss {entry.lowest:.6g})"
        up, down = float(entry.up[row]), float(entry.down[row])
        sent = f"{human_bytes(up + down)} per client ({human_bytes(up)} up, {human_bytes(down)} down)"
        return sent if entry.seconds is None else f"{human_seconds(float(entry.seconds[row]))} and {sent}"

    def verdict(self) -> str:
        """The winner in a sentence."""
        first, *others = self.entries
        level = self.level()
        way = f"{100 * (1 - GOAL):g}% of the way from {self.start:.6g} to the lowest, {self.lowest:.6g}"
        said = f"Winner by {self.asked}: {first.label} needs {self.cost_text(first)} until the loss is {level:.6g}, {way}."
        if not others or first.there(level) is None:
            return said
        second = others[0]
        if second.there(level) is None:
            return f"{said} Nobody else gets there."
        times = second.cost(level) / first.cost(level) if first.cost(level) else 1.0
        return f"{said} The next, {second.label}, needs {times:.3g} times as much."


def hold(
    problem: Problem,
    contestants: Iterable[Contestant],
    *,
    rounds: int,
    every: int = 1,
    prox: ElasticNet | None = None,
    networks: Sequence[Network] | None = None,
) -> Iterator[Entry]:
    """Run the contestants one after the other."""
    for each in contestants:
        run = each.run(problem, rounds=rounds, every=every, prox=prox)
        yield each.entry(problem, [run.history], run.stopped, networks)


def summary(contest: Contest) -> dict[str, Any]:
    """The ranking for machines."""
    level = contest.level()

    def about(entry: Entry) -> dict[str, Any]:
        row = entry.there(level)
        until = None if row is None else _books(entry, row)
        final, lowest = _number(entry.final), _number(entry.lowest)
        return {
            "method": entry.label,
            "step": {"chosen": entry.choice or None, "gamma": _number(entry.gamma)},
            "seeds": max(1, len(entry.seeds)),
            "final_loss": final,
            "lowest_loss": lowest,
            "stopped": entry.stopped,
            "spent": _books(entry, -1),
            "until_goal": until,
        }

    return {
        "winner": contest.winner.label,
        "by": contest.asked,
        "network": contest.network or None,
        "goal": {"loss": level, "share_left": GOAL, "start": contest.start, "lowest": contest.lowest},
        "verdict": contest.verdict(),
        "methods": [about(entry) for entry in contest.entries],
    }


def _books(entry: Entry, row: int) -> dict[str, Any]:
    """What was spent until a recorded round."""
    return {
        "round": int(entry.history["round"][row]),
        "bytes_up_per_client": float(entry.up[row]),
        "bytes_down_per_client": float(entry.down[row]),
        "bytes_per_client": float(entry.total[row]),
        "network_seconds": None if entry.seconds is None else float(entry.seconds[row]),
    }


def _number(value: float) -> float | None:
    return value if np.isfinite(value) else None
