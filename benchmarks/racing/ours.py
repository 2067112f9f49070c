"""Us: what `train` does by itself, and what it did until now (EF21, Top1, the automatic step). The only file of the race
that knows how the library is called.

    ours(objective, goal, target, most) -> Curve

`goal` is "bytes" or the link that the run is made for. Bits are those of the run's own books, which count everything: who
owns which feature, the scaling, heads, losses, commands.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

import errorfeedback as ef
from errorfeedback.estimators.objective import Objective as Penalised
from errorfeedback.estimators.objective import penalised
from errorfeedback.estimators.training import Trained, TrainingSettings, train
from errorfeedback.problems.process_group import SINGLE
from errorfeedback.runtime.stopping import Progress, Stop
from racing.books import Curve, Link
from racing.objective import Objective, Vector


@dataclass(frozen=True)
class There(Stop):
    """Ends a run where f with the penalty is at or below the target."""

    problem: Penalised
    target: float

    def next(self, state: None, seen: Progress) -> tuple[str, None]:
        return "there" if self.problem.value(seen.x) <= self.target else "", None


def ours(objective: Objective, goal: Link | str, target: float, most: int) -> Curve:
    """The default of `train`, told the link where there is one."""
    return top1(objective, target, most)["K = 1"]


@cache
def top1(objective: Objective, target: float, most: int) -> dict[str, Curve]:
    """EF21 with Top1 and the automatic step: the default of `train` until now."""
    settings = TrainingSettings(k=1, rounds=most)
    problem = as_problem(objective)
    return {"K = 1": curve_of(train(problem, settings, stop=[There(problem, target)]))}


def as_problem(objective: Objective) -> Penalised:
    """The same objective as the library has it: the column of ones is in A, and penalised like the others."""
    rows = ef.logistic(objective.A, objective.y, objective.clients, sample_weight=np.ones(objective.m))
    return penalised(rows, intercept=False, l1=0.0, l2=objective.l2, scale=True, processes=SINGLE)


def curve_of(trained: Trained) -> Curve:
    """Exchanges are rounds, and one before them in which features and scales are agreed on."""
    history, n = trained.run.history, trained.run.theory.n
    up, down = (np.asarray(history[name], dtype=np.float64) / 8 for name in ("uplink_bits", "downlink_bits"))
    up_share, down_share = (_largest(bits) for bits in trained.traffic)
    rounds = np.asarray(history["round"], dtype=np.float64)
    return Curve(np.asarray(history["f"]), rounds + 2, up / n, down / n, up * up_share, down * down_share)


def _largest(bits: Vector) -> float:
    """The share of the client that has the most of them."""
    return float(bits.max() / bits.sum())
