"""Runs of Armijo's rule on random hostile problems: what must hold on every one of them, and how much few bits cost.

`python tests/descending.py --count 1000 --direction LBFGS` judges that many problems: none may end in a number that is not
finite or above its start, no accepted point above the one before it, and none may take more than three times the rounds
that full precision takes to the same gap. `--direction train` is what `train` chooses for the problem, for fewest bytes, and
`--direction link` what it chooses for a link of 1M/10M/50ms: with its scaling and from where it begins, against full
precision with the same scaling from there. Gaps are shares of what there is to gain from zero. `--direction itself` says how
much of that is luck: it is full precision once more, from a start that is moved by a thousandth of the way.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from dataclasses import dataclass

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


def judged(seed, name, prox=None, rounds=ROUNDS, up=FEW, below=BELOW):
    """What is wrong with a run, and how many times the rounds of full precision it took to every gap."""
    problem, _, x0, _ = hostile(seed, below)
    longer, since = 3 * rounds + 10, None
    if name in TRAINED:
        problem, begin, prox = prepared(problem, 0.0 if prox is None else float(prox.l2))
        since, x0 = problem.value(np.zeros(problem.width)), np.zeros(problem.width) if begin is None else begin.x
    options = {"x0": x0, "prox": prox}
    found, exact = full_precision(problem, rounds, **options)
    if name == "itself":
        options["x0"] = x0 + 1e-3 * (found.x - x0) * np.random.default_rng(seed).standard_normal(len(x0))
        result, account = full_precision(problem, longer, **options)
    elif name in TRAINED:
        chosen = recipe.few_bits(problem, [LINK] * problem.n if name == "link" else None, GAPS[-1], begin)
        options |= {"direction": chosen.direction, "downlink": chosen.downlink}
        result, account = watched(
            problem, chosen.method, rounds=longer, rule=Watched(since=chosen.stepsize.since), **options
        )
    else:
        result, account = few_bits(problem, DIRECTIONS[name], longer, up, **options)
    wrong = []
    if not np.isfinite(result.x).all():
        wrong.append("not finite")
    penalty = ef.ElasticNet() if prox is None else prox
    last, first = (problem.value(x) + penalty.on(problem).value(problem.restrict(x)) for x in (result.x, options["x0"]))
    if not last <= first * (1 + LEVEL):
        wrong.append("above its start")
    wrong += [] if descends(account) and descends(exact) else ["rises"]
    least = min(loss for accepted, loss, _ in exact if accepted)
    ratios = []
    for gap in GAPS:
        target = least + max(gap * ((exact[0][1] if since is None else since) - least), LEVEL * abs(least))
        ratios.append(rounds_to(account, target) / max(rounds_to(exact, target), 1))
    wrong += [f"crawls to {gap:g}" for gap, ratio in zip(GAPS, ratios, strict=True) if ratio > CRAWLS]
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
    given = parser.parse_args()
    begin, counts, ratios = time.time(), Counter(), []
    prox = ef.ElasticNet(l2=given.l2) if given.l2 else None
    for seed in range(given.first, given.first + given.count):
        wrong, each = judged(seed, given.direction, prox, below=tuple(given.below))
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
