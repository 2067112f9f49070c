"""Runs of Armijo's rule on random hostile problems: what must hold on every one of them, and how much few bits cost.

`python tests/descending.py --count 1000 --direction LBFGS` judges that many problems: none may end in a number that is not
finite or above its start, no accepted point above the one before it, and none may take more than three times the rounds
that full precision takes to the same gap. `--direction train` is what `train` chooses for the problem, for fewest bytes, and
`--direction link` what it chooses for a link of 1M/10M/50ms: with its scaling and from where it begins, against full
precision with the same scaling from there. Gaps are shares of what there is to gain from zero. `--direction itself` says how
much of that is luck: it is full precision once more, from a start that is moved by a thousandth of the way. With
`--draws 5` it is the median over five problems, in four of which all numbers of the data are other by about a thousandth:
what is left is not luck.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from hostile import hostile

import errorfeedback as ef
from errorfeedback.estimators.objective import from_own_models
from errorfeedback.estimators.own_features import own_features_left
from errorfeedback.planner import recipe
from errorfeedback.problems.conversation import alone
from errorfeedback.problems.scaling import Scaled
from errorfeedback.stepsizes.armijo import LEVEL

FEW = ef.FittedAnswer()
DIRECTIONS = {
    "LBFGS": ef.LBFGS(),
    "every round": ef.Curvature(ef.PowersOfTwo(4), price=0.0),
    "start": ef.Curvature(ef.PowersOfTwo(4), price=2.0),
    "late": ef.Curvature(ef.PowersOfTwo(4), price=10.0),
}
TRAINED, LINK = ("train", "link", "itself"), ef.Network(1e6, 1e7, 0.05)
GAPS = (1e-2, 1e-3, 1e-5)
CRAWLS = 3.0
ROUNDS = 60
BELOW = (12, 30, 6)


@dataclass(frozen=True)
class Watched(ef.Armijo):
    """Armijo's rule, with an account of every round: whether it was accepted, and the loss that was told."""

    def next(self, state, theory, method, telemetry):
        gamma, after = super().next(state, theory, method, telemetry)
        ACCOUNT.append((telemetry.accepted, telemetry.loss, after.verdict))
        return gamma, after


ACCOUNT: list = []


def watched(problem, method, *, rounds, rule=None, **options):
    """A run, and what was told in its rounds."""
    ACCOUNT.clear()
    rule = Watched() if rule is None else rule
    result = ef.solve(problem, method, rule, rounds=rounds, every=rounds, metrics=False, **options)
    return result, list(ACCOUNT)


def few_bits(problem, direction, rounds=ROUNDS, up=FEW, **options):
    options = {"downlink": ef.FittedStep()} | options
    return watched(problem, ef.EF21(up, "compressed"), rounds=rounds, direction=direction, **options)


def full_precision(problem, rounds=ROUNDS, **options):
    """L-BFGS on exact gradients, with exact steps."""
    return watched(problem, ef.DGD(), rounds=rounds, direction=ef.LBFGS(), **options)


def descends(account):
    """No accepted loss is above the one before it (but for the rounding of a mean)."""
    losses = np.array([loss for accepted, loss, _ in account if accepted])
    return bool((losses[1:] <= losses[:-1] + LEVEL * np.abs(losses[:-1])).all())


def rounds_to(account, target):
    """The first round that told a loss at most that."""
    return next((t for t, (_, loss, _) in enumerate(account) if loss <= target), np.inf)


def prepared(problem, l2):
    """As `train` has it: in its variable, with own features left to their clients; where it begins (None: at zero); and the
    penalty in that variable."""
    rows = problem.inner if isinstance(problem, Scaled) else problem
    inside = np.full(rows.width, l2)
    whole, begin = alone(lambda seat: from_own_models(rows, inside))
    made, _ = alone(lambda seat: own_features_left(whole, inside, GAPS[-1]))
    return made, begin, ef.ElasticNet(l2=l2 * made.unscaled(np.ones(rows.width)) ** 2) if l2 else None


@dataclass(frozen=True, eq=False)
class Contest:
    """A problem, and how it is run from a start for so many rounds: as is judged, and in full precision."""

    problem: ef.Problem
    x0: np.ndarray
    prox: ef.ElasticNet | None
    since: float
    """The loss from which gaps count."""
    run: Callable
    exact: Callable

    @classmethod
    def of(cls, seed, name, prox, up, below, draw=0):
        problem, _, x0, _ = hostile(seed, below, draw)
        if name not in TRAINED:
            options = {"prox": prox}
            since = problem.value(x0) + (0.0 if prox is None else prox.on(problem).value(problem.restrict(x0)))
            run = partial(few_bits, problem, DIRECTIONS[name], up=up)
        else:
            problem, begin, prox = prepared(problem, 0.0 if prox is None else float(prox.l2))
            since, x0 = problem.value(np.zeros(problem.width)), np.zeros(problem.width) if begin is None else begin.x
            chosen = recipe.few_bits(problem, [LINK] * problem.n if name == "link" else None, GAPS[-1], begin)
            rule = Watched(since=chosen.stepsize.since)
            options = {"direction": chosen.direction, "downlink": chosen.downlink, "prox": prox}
            run = partial(watched, problem, chosen.method, rule=rule)
        exact = partial(full_precision, problem, prox=prox)
        return cls(problem, x0, prox, since, exact if name == "itself" else partial(run, **options), exact)

    def value(self, x):
        penalty = ef.ElasticNet() if self.prox is None else self.prox
        return self.problem.value(x) + penalty.on(self.problem).value(self.problem.restrict(x))

    def moved(self, end, key):
        """A start that is moved by a thousandth of the way to the end."""
        return self.x0 + 1e-3 * (end - self.x0) * np.random.default_rng(key).standard_normal(len(self.x0))


def judged(seed, name, prox=None, rounds=ROUNDS, up=FEW, below=BELOW, draws=1):
    """What is wrong with a run, and how many times the rounds of full precision it took to every gap."""
    drawn = [_judged(Contest.of(seed, name, prox, up, below, k), rounds, name == "itself", seed) for k in range(draws)]
    ratios = np.median([each for _, each in drawn], axis=0)
    wrong = sorted({fault for faults, _ in drawn for fault in faults})
    wrong += [f"crawls to {gap:g}" for gap, ratio in zip(GAPS, ratios, strict=True) if ratio > CRAWLS]
    return wrong, ratios.tolist()


def _judged(contest, rounds, moves, seed):
    found, exact = contest.exact(rounds, x0=contest.x0)
    x0 = contest.moved(found.x, seed) if moves else contest.x0
    result, account = contest.run(rounds=3 * rounds + 10, x0=x0)
    wrong = [] if np.isfinite(result.x).all() else ["not finite"]
    wrong += [] if contest.value(result.x) <= contest.value(x0) * (1 + LEVEL) else ["above its start"]
    wrong += [] if descends(account) and descends(exact) else ["rises"]
    least = min(loss for accepted, loss, _ in exact if accepted)
    ratios = []
    for gap in GAPS:
        target = least + max(gap * (contest.since - least), LEVEL * abs(least))
        ratios.append(rounds_to(account, target) / max(rounds_to(exact, target), 1))
    return wrong, ratios


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument(
        "--below", type=int, nargs=3, default=BELOW, help="clients, features, rows of a client are below that"
    )
    parser.add_argument("--l2", type=float, default=0.0)
    parser.add_argument("--direction", choices=[*DIRECTIONS, *TRAINED], default="LBFGS")
    parser.add_argument("--draws", type=int, default=1, help="problems of which the median is judged")
    given = parser.parse_args()
    begin, counts, ratios = time.time(), Counter(), []
    prox = ef.ElasticNet(l2=given.l2) if given.l2 else None
    for seed in range(given.first, given.first + given.count):
        wrong, each = judged(seed, given.direction, prox, below=tuple(given.below), draws=given.draws)
        counts.update(wrong)
        ratios.append(each)
        if wrong:
            print(seed, wrong, [round(ratio, 2) for ratio in each], flush=True)
    table = np.array(ratios)
    for k, gap in enumerate(GAPS):
        low, high = np.quantile(table[:, k], [0.5, 0.95], method="higher")
        print(f"to a gap of {gap:g}: {low:.2f} times the rounds of full precision, 95%: {high:.2f}")
    print(f"{given.count} problems, {dict(counts)}, {time.time() - begin:.0f} s")
    sys.exit(bool(counts))


if __name__ == "__main__":
    main()
