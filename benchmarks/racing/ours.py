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
from errorfeedback.problems.scaling import Scaled
from errorfeedback.runtime.solve import Result
from errorfeedback.runtime.stopping import Progress, Stop
from racing.books import Curve, Link
from racing.objective import Objective, Vector


@dataclass(frozen=True)
class There(Stop):
    """Ends a run where f with the penalty is at or below the target."""

    problem: Scaled
    prox: ef.ElasticNet
    target: float

    def next(self, state: None, seen: Progress) -> tuple[str, None]:
        f = self.problem.value(seen.x) + self.prox.on(self.problem).value(seen.x)
        return "there" if f <= self.target else "", None


def ours(objective: Objective, goal: Link | str, target: float, most: int) -> Curve:
    """What `train` is to do by itself, told the link where there is one; for now one composition of the library's parts, the
    same for every goal."""
    return few_bits(objective, target, most)


@cache
def few_bits(objective: Objective, target: float, most: int) -> Curve:
    """Differences of 4 bits up, a quasi-Newton server, rounded steps of 8 bits down, in half the metric."""
    problem, prox = as_problem(objective, power=0.5, l2=objective.l2)
    run = ef.solve(
        problem,
        ef.EF21(ef.PowersOfTwo(4)),
        ef.Armijo(),
        direction=ef.LBFGS(),
        downlink=ef.RoundedStep(ef.Uniform(8)),
        rounds=most,
        prox=prox,
        stop=[There(problem, prox, target)],
    )
    return curve_of(run, objective.sizes.astype(np.float64), objective.sizes.astype(np.float64))


def top1(objective: Objective, target: float, most: int) -> dict[str, Curve]:
    """EF21 with Top1 and the automatic step: the default of `train` until now."""
    problem, prox = as_problem(objective, power=1.0)
    stop = [There(problem, prox, target)]
    run = ef.solve(problem, ef.EF21(ef.TopK(1)), ef.Automatic(), rounds=most, prox=prox, stop=stop)
    return {"K = 1": curve_of(run, np.ones(objective.n), objective.sizes.astype(np.float64))}


def as_problem(objective: Objective, *, power: float, l2: float = 0.0) -> tuple[Scaled, ef.ElasticNet]:
    """The same objective as the library has it, in the variable z = x / S: the column of ones is in A, and penalised like
    the others. `l2` is what the scale knows of the penalty."""
    rows = ef.logistic(objective.A, objective.y, objective.clients, sample_weight=np.ones(objective.m))
    problem = ef.scaled(rows, power=power, l2=l2)
    return problem, ef.ElasticNet(l2=objective.l2 * problem.scale**2)


def curve_of(run: Result, up_parts: Vector, down_parts: Vector) -> Curve:
    """Exchanges are round 0, those after it, and the one before it in which features and scales are agreed on. All clients'
    bits are shared out in proportion to the parts."""
    history, n = run.history, run.theory.n
    up, down = (np.asarray(history[name], dtype=np.float64) / 8 for name in ("uplink_bits", "downlink_bits"))
    up_share, down_share = (float(parts.max() / parts.sum()) for parts in (up_parts, down_parts))
    rounds = np.asarray(history["round"], dtype=np.float64)
    return Curve(np.asarray(history["f"]), rounds + 2, up / n, down / n, up * up_share, down * down_share)
