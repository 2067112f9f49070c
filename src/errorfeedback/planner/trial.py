"""What to run: a short contest on the data at hand, in simulation, between what `train` can do and gradient descent.

Theorems promise for the worst case, and EF21 does far better than they say (docs/theory.md, section 12). So the advice comes
from a trial: what `train` chooses by itself, and EF21 with the automatic step for a few K between 1 and r (where it sends
everything and is gradient descent).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from errorfeedback.compressors.top_k import TopK
from errorfeedback.planner.contest import GOAL, Contest, Entry, hold
from errorfeedback.planner.contestants import BY_DEFAULT, Compress, by_default, in_practice, trainable
from errorfeedback.planner.network import Network
from errorfeedback.problems.base import Problem
from errorfeedback.problems.proximal import ElasticNet
from errorfeedback.runtime.begin import Begin

ROUNDS, EVERY = 500, 2
"""Of every run, and how many of them are looked at."""
GRADIENT_DESCENT = "GD, InverseL"


@dataclass(frozen=True, eq=False)
class Trial:
    """The contest and what it advises."""

    contest: Contest
    rounds: int
    levels: dict[str, int | None]
    """K of everything that `train` can run, by label."""

    @property
    def best(self) -> Entry:
        """The best of what `train` can run."""
        return next(entry for entry in self.contest.entries if entry.label in self.levels)

    @property
    def k(self) -> int | None:
        """The K to run `train` with; None: its default, without."""
        return self.levels[self.best.label]

    def advice(self) -> str:
        """What to run and why."""
        best, level = self.best, self.contest.level()
        what = "the least time on the network" if self.contest.network else "the fewest bytes"
        named = {GRADIENT_DESCENT, BY_DEFAULT, *(label for label, k in self.levels.items() if k == 1)}
        others = [e for e in self.contest.entries if e.label in named]
        against = "; ".join(self._against(each, level) for each in others if each is not best)
        run = "as it is: its own choice" if self.k is None else f"with --k {self.k}: EF21 with Top{self.k}, automatic steps,"
        return (
            f"Run `errorfeedback train` {run} took {what}, "
            f"{self.contest.cost_text(best)}, for {100 * (1 - GOAL):g}% of the way to the lowest loss, in {self.rounds} "
            f"simulated rounds on these data" + (f"; {against}." if against else ".")
        )

    def _against(self, other: Entry, level: float) -> str:
        names = {GRADIENT_DESCENT: "gradient descent with 1/L", BY_DEFAULT: "the default, without --k,"}
        name = names.get(other.label, "--k 1")
        if other.there(level) is None:
            return f"{name} did not get there"
        return f"{name} took {other.cost(level) / self.best.cost(level):.3g} times as much"


def trial(
    problem: Problem,
    levels: Sequence[int],
    *,
    rounds: int = ROUNDS,
    prox: ElasticNet | None = None,
    networks: Sequence[Network] | None = None,
    network: str = "",
    compress: Compress = TopK,
    begin: Begin | None = None,
) -> Trial:
    """Run them; `network` says in words what `networks` are; `begin`: where `train` begins by default."""
    default = by_default(problem, prox, networks, begin)
    entries = hold(problem, in_practice(default, levels, compress), rounds=rounds, every=EVERY, prox=prox, networks=networks)
    labels: dict[str, int | None] = {default.label: None, **{trainable(k, compress).label: k for k in levels}}
    return Trial(Contest.ranked(entries, network), rounds, labels)
