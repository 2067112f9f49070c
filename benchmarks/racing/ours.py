"""Us: what `train` does by itself, and what it did until now (EF21, Top1, the automatic step). The only file of the race
that knows how the library is called.

    ours(objective, goal, target, most) -> Curve

`goal` is "bytes" or the link that the run is made for. Bits are those of the run's own books, which count everything: who
owns which feature, the scaling, heads, losses, commands.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

import errorfeedback as ef
from errorfeedback.estimators.local_models import averaged
from errorfeedback.estimators.own_features import own_features_left
from errorfeedback.planner.contestants import TOLERANCE
from errorfeedback.planner.recipe import few_bits
from errorfeedback.problems.base import setup_bits
from errorfeedback.problems.conversation import alone
from errorfeedback.problems.glm import GLM
from errorfeedback.problems.scaling import Scaled
from errorfeedback.runtime.ledger import ownership_bits
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
    """What `train` does by itself, told the link where there is one: its recipe and its scaling, with nothing chosen here.
    The intercept is penalised, as everybody's is, and the run ends where the race does and not by its own tolerance."""
    whole, _ = as_problem(objective, power=None, l2=objective.l2)
    networks = None if isinstance(goal, str) else [ef.Network(goal.up, goal.down, goal.latency)] * objective.n
    assert isinstance(whole.inner, GLM), "it is made of rows"
    begin = averaged(whole.inner, objective.l2).begin(whole)
    problem, own = alone(lambda seat: own_features_left(whole, np.full(objective.d, objective.l2), TOLERANCE))
    prox = ef.ElasticNet(l2=objective.l2 * problem.unscaled(np.ones(objective.d)) ** 2)
    recipe = few_bits(problem, networks, TOLERANCE, begin)
    run = ef.solve(
        problem,
        recipe.method,
        recipe.stepsize,
        direction=recipe.direction,
        downlink=recipe.downlink,
        rounds=most,
        x0=recipe.begin,
        prox=prox,
        stop=[There(problem, prox, target)],
    )
    sizes, shared = (support.sizes.astype(np.float64) for support in (whole.support, problem.support))
    curve = curve_of(run, shared, shared, sizes)
    if own is not None:  # which clients say at the end, in an exchange of its own
        curve = replace(curve, exchanges=curve.exchanges + 1)
    return curve if not begin.x.any() else begun(curve, run, begin, sizes)


def begun(curve: Curve, run: Result, begin: ef.Begin, sizes: Vector) -> Curve:
    """With the first x where the server has it: after one message of every client, which says what it owns, how that curves
    and what model its own rows make, and before anybody else has anything. So have FedAvg and CoCoA+ after one exchange;
    round 0 counts as the first one too, as it does for who begins at zero."""
    said = (_before(run)[0] + begin.bits) / 8
    first = (curve.f[0], curve.exchanges[0], said / run.theory.n, 0.0, said * float(sizes.max() / sizes.sum()), 0.0)
    columns = (curve.f, curve.exchanges, curve.up, curve.down, curve.slowest_up, curve.slowest_down)
    return Curve(*(np.concatenate([[one], column]) for one, column in zip(first, columns, strict=True)))


def top1(objective: Objective, target: float, most: int) -> dict[str, Curve]:
    """EF21 with Top1 and the automatic step: the default of `train` until now."""
    problem, prox = as_problem(objective, power=1.0)
    stop = [There(problem, prox, target)]
    run = ef.solve(problem, ef.EF21(ef.TopK(1)), ef.Automatic(), rounds=most, prox=prox, stop=stop)
    sizes = objective.sizes.astype(np.float64)
    return {"K = 1": curve_of(run, np.ones(objective.n), sizes, sizes)}


def as_problem(objective: Objective, *, power: float | None, l2: float = 0.0) -> tuple[Scaled, ef.ElasticNet]:
    """The same objective as the library has it, in the variable z = x / S: the column of ones is in A, and penalised like
    the others. `l2` is what the scale knows of the penalty."""
    rows = ef.logistic(objective.A, objective.y, objective.clients, sample_weight=np.ones(objective.m))
    problem = ef.scaled(rows, power=power, l2=l2)
    return problem, ef.ElasticNet(l2=objective.l2 * problem.scale**2)


def curve_of(run: Result, up_parts: Vector, down_parts: Vector, before_parts: Vector) -> Curve:
    """Exchanges are round 0 and those after it: what a client says of its features' curvature comes with the list of its
    features, which everybody's server needs, and the scale goes down with round 0. All clients' bits are shared out in
    proportion to the parts (those of the start, and what is said of own features at the end, to `before_parts`), Hessians
    in that of the numbers of pairs; where some clients tell theirs for all, these are taken to have as many as others."""
    history, n = run.history, run.theory.n
    up, down = (np.asarray(history[name], dtype=np.float64) / 8 for name in ("uplink_bits", "downlink_bits"))
    bent = np.asarray(history["curvature_bits"], dtype=np.float64) / 8
    pairs = down_parts * (down_parts + 1)
    every = (up_parts, down_parts, pairs, before_parts)
    up_share, down_share, bent_share, first_share = (float(parts.max() / parts.sum()) for parts in every)
    before_up, before_down = (bits / 8 for bits in _before(run))
    slowest = (up - bent - before_up) * up_share + before_up * first_share
    slowest += bent * bent_share * n / np.maximum(history["tellers"], 1)
    slowest_down = (down - before_down) * down_share + before_down * first_share
    rounds = np.asarray(history["round"], dtype=np.float64)
    return Curve(np.asarray(history["f"]), rounds + 1, up / n, down / n, slowest, slowest_down)


def _before(run: Result) -> tuple[int, int]:
    """Bits before round 0, of what a client has and how that curves."""
    problem = run.theory.problem
    up, down = setup_bits(problem)
    return up + ownership_bits(problem), down
