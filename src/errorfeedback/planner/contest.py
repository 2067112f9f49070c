"""Methods measured against each other: the same objective, the same start, and what each has paid when it gets there.

    level = best + GOAL (start - best),    best: the lowest loss that anybody reached

A method is there when what it would return is at or below the level from then on: a rule that hears the loss returns its
best point, any other its last one. The price is time on the network where one is given, else bytes up and down together;
what is sent before round 0 (scaling, first uploads) is part of it. Who is cheaper stands first; who never gets there stands
behind, the lowest loss first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import Any

import numpy as np

from errorfeedback.core import Floats
from errorfeedback.directions.base import Direction
from errorfeedback.downlinks.base import Downlink
from errorfeedback.methods.base import Method
from errorfeedback.planner.network import Network, Pace, Wire, elapsed, traffic
from errorfeedback.planner.units import human_bytes, human_seconds
from errorfeedback.problems.base import Problem
from errorfeedback.problems.proximal import ElasticNet
from errorfeedback.runtime.solve import solve
from errorfeedback.runtime.stopping import Progress, Stop
from errorfeedback.stepsizes.base import StepSize
from errorfeedback.storage.history import History
from errorfeedback.theory.analysis import analyse

GOAL = 0.01
"""The winner is the first that leaves no more than this share of the way from the start to the best loss."""


@dataclass(frozen=True, eq=False)
class Contestant:
    """A method with a step size, as tables call it."""

    label: str
    method: Method
    rule: StepSize
    direction: Direction | None = None
    downlink: Downlink | None = None


@dataclass(frozen=True, eq=False)
class Limit(Stop):
    """At most that many bytes per client, up and down, or seconds on the network. Both count from the end of round 0 on: no
    method stops before its set-up is paid."""

    bytes: float = inf
    seconds: float = inf
    wire: Wire | None = None

    def __post_init__(self) -> None:
        for name in ("bytes", "seconds"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} = {getattr(self, name)}; a limit must be above 0")
        if self.wire is None and self.seconds < inf:
            raise ValueError(f"a limit of {self.seconds:g} seconds on the network needs a network")

    def start(self) -> tuple[float, float]:
        return 0.0, 0.0

    def next(self, state: tuple[float, float], seen: Progress) -> tuple[str, tuple[float, float]]:
        """state: bits up and down at the end of round 0."""
        if seen.t == 0:
            return "", (seen.bits, seen.down_bits)
        up, down = seen.bits - state[0], seen.down_bits - state[1]
        if up + down >= 8 * self.bytes:
            return f"{human_bytes(self.bytes)} per client, up and down, spent at round {seen.t}", state
        if self.wire is not None and self.wire.seconds(seen.t, up * self.wire.n, down * self.wire.n) >= self.seconds:
            return f"{human_seconds(self.seconds)} on the network spent at round {seen.t}", state
        return "", state


@dataclass(frozen=True, eq=False)
class Entry:
    """One contestant's run."""

    label: str
    history: History
    n: int
    hears_loss: bool
    stopped: str
    seconds: Floats | None
    """On the network, until every recorded round."""

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
    seed: int = 0,
    every: int = 1,
    prox: ElasticNet | None = None,
    networks: Sequence[Network] | None = None,
    max_bytes: float = inf,
    max_seconds: float = inf,
) -> Iterator[Entry]:
    """Run the contestants one after the other, each within the same limits. `networks`: the link of every client."""
    for each in contestants:
        parts = traffic(analyse(problem, each.method.compressor))
        wire = None if networks is None else Wire(*parts, Pace.of(networks))
        stop = [Limit(max_bytes, max_seconds, wire)]
        run = solve(
            problem,
            each.method,
            each.rule,
            direction=each.direction,
            downlink=each.downlink,
            rounds=rounds,
            seed=seed,
            every=every,
            stop=stop,
            prox=prox,
        )
        seconds = None if networks is None else elapsed(run.history, *parts, networks)
        yield Entry(each.label, run.history, problem.n, each.rule.tells_loss, run.stopped, seconds)


def summary(contest: Contest) -> dict[str, Any]:
    """The ranking for machines."""
    level = contest.level()

    def about(entry: Entry) -> dict[str, Any]:
        row = entry.there(level)
        until = None if row is None else _books(entry, row)
        final, lowest = _number(entry.final), _number(entry.lowest)
        return {
            "method": entry.label,
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
