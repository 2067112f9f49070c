"""Few-bit differences up, a quasi-Newton server with Armijo's rule, rounded steps down: the library equals the literal
reference, point by point, until the gap is in the last digits.
"""

from __future__ import annotations

import numpy as np
import pytest
import reference
from descending import watched
from problem_pairs import pair

import errorfeedback as ef
from errorfeedback.directions import coordinate_descent
from errorfeedback.directions.base import Asking
from errorfeedback.stepsizes.base import Verdict

ROUNDS = 60
BELIEVED = 2.0**-20
"""With less, rounding errors grow above the last digit of a step before the end is near."""
PROBLEMS = {
    "logistic": {"loss": "logistic", "n": 6, "d": 10, "m": 6, "fill": 0.5},
    "sparse logistic": {"loss": "logistic", "n": 7, "d": 15, "m": 4, "fill": 0.2, "seed": 3},
    "squares": {"loss": "squared", "n": 5, "d": 12, "m": 4, "seed": 1},
    "n > d": {"loss": "squared", "n": 9, "d": 4, "m": 3, "fill": 1.0, "seed": 2},
}
UP = {
    "4 bits": (ef.PowersOfTwo(4), lambda p: reference.few_bits(p, reference.powers_of_two(4), None)),
    "Top2": (ef.TopK(2), lambda p: reference.top_k(p, 2)),
}
DOWN = {
    "whole": (ef.Whole(), reference.whole_step),
    "fitted": (ef.FittedStep(), reference.FittedSteps(0.1)),
    "8 bits": (ef.RoundedStep(ef.Uniform(8)), reference.one_unit(reference.equally_spaced(8))),
}


@pytest.fixture
def visited(monkeypatch):
    """Where the server was when it made a direction, in the order of rounds."""
    points = []
    for cls in (ef.Steepest, ef.LBFGS, ef.Curvature):
        for name in ("__call__", "refused"):
            make = getattr(cls, name)
            monkeypatch.setattr(
                cls, name, lambda self, state, x, g, make=make: (points.append(x.copy()), make(self, state, x, g))[1]
            )
    return points


@pytest.fixture
def asked(monkeypatch):
    """The rounds in which Hessians were asked for."""
    rounds, asks = [], ef.Curvature.asks
    monkeypatch.setattr(
        ef.Curvature, "asks", lambda self, state, gained: rounds.append(asks(self, state, gained)) or rounds[-1]
    )
    return rounds


def compared(literal, account, visited, gap=1e-9):
    """How many rounds were compared before the gap was in the last digits; how often a step was refused, and all stood."""
    values = np.array([value for _, value, _ in literal])
    low = values.min()
    rounds = 0
    for (x, value, accepted), (ours, loss, _), here in zip(literal, account, visited, strict=True):
        if min(values[: rounds + 1]) - low <= gap * (values[0] - low):
            break
        assert accepted == ours, f"round {rounds}"
        assert loss == pytest.approx(value, rel=1e-7), f"round {rounds}"
        assert np.abs(here - x).max() <= 1e-5 * max(np.abs(x).max(), 1.0), f"round {rounds}"
        rounds += 1
    verdicts = [verdict for _, _, verdict in account[:rounds]]
    return rounds, verdicts.count(Verdict.RETRY), verdicts.count(Verdict.RESTORE)


def start(problem, far=3.0):
    return far * np.random.default_rng(5).standard_normal(problem.d)


def both(name, up, down, visited, *, l2=0.0, memory=20, far=3.0):
    ours, literal = pair(**PROBLEMS[name])
    (compressor, C), (downlink, rounding) = UP[up], DOWN[down]
    visited.clear()
    _, account = watched(
        ours,
        ef.EF21(compressor, "compressed"),
        rounds=ROUNDS,
        direction=ef.LBFGS(memory) if memory else ef.Steepest(),
        downlink=downlink,
        prox=ef.ElasticNet(l2=l2) if l2 else None,
        x0=start(ours, far),
    )
    with np.errstate(over="ignore"):  # at points that are refused
        xs = list(reference.armijo(literal, start(ours, far), ROUNDS, C(literal), memory, rounding, l2, ours.lower_bound))
    return xs, account


@pytest.mark.parametrize("l2", [0.0, 0.02])
@pytest.mark.parametrize("down", DOWN)
@pytest.mark.parametrize("up", UP)
def test_lbfgs_with_armijo_equals_the_reference(up, down, l2, visited):
    totals = np.zeros(3, dtype=int)
    for name in PROBLEMS:
        for memory, far in ((20, 3.0), (3, 10.0)):
            literal, account = both(name, up, down, visited, l2=l2, memory=memory, far=far)
            counts = compared(literal, account, visited)
            assert counts[0] >= 8
            totals += counts
    assert totals[0] > 120
    assert totals[1] >= 5  # steps were refused and tried again
    assert totals[2] >= (1 if up == "Top2" and not l2 else 0)  # and all stood


@pytest.mark.parametrize("down", DOWN)
@pytest.mark.parametrize("up", UP)
def test_steps_along_the_estimate_with_armijo_equal_the_reference(up, down, visited):
    """After a refusal the direction is that of the last accepted point, and not of where the step led."""
    totals = np.zeros(3, dtype=int)
    for name in PROBLEMS:
        literal, account = both(name, up, down, visited, memory=0)
        totals += compared(literal, account, visited)
    assert totals[0] > 120
    assert totals[1] >= 5


DOWN_TO_ZERO = {
    "whole": (ef.Whole(), lambda s, B, x, g, l1: s),
    "fitted": (ef.FittedStep(zeros=True), reference.FittedZeros(0.1)),
    "from 8 bits": (ef.FittedStep(share=1e-3, zeros=True), reference.FittedZeros(1e-3)),
}


@pytest.mark.parametrize("l2", [0.0, 0.02])
@pytest.mark.parametrize("down", DOWN_TO_ZERO)
@pytest.mark.parametrize("up", UP)
def test_steps_around_kinks_equal_the_reference(up, down, l2, visited, monkeypatch):
    """With the model's minimum to the last digit, which the library usually does without."""
    monkeypatch.setattr(coordinate_descent, "LEFT", 0.0)
    totals, zeros, l1 = np.zeros(3, dtype=int), 0, 0.05
    for shape in PROBLEMS.values():
        ours, literal = pair(**shape)
        (compressor, C), (downlink, rounding) = UP[up], DOWN_TO_ZERO[down]
        visited.clear()
        result, account = watched(
            ours,
            ef.EF21(compressor, "compressed"),
            rounds=ROUNDS,
            direction=ef.LBFGS(),
            downlink=downlink,
            prox=ef.ElasticNet(l1, l2),
            x0=start(ours),
        )
        with np.errstate(over="ignore"):
            xs = reference.armijo(literal, start(ours), ROUNDS, C(literal), 20, rounding, l2, ours.lower_bound, l1=l1)
            counts = compared(list(xs), account, visited, gap=1e-5)
        assert counts[0] >= 4
        totals += counts
        zeros += int((result.x == 0).sum())
    assert totals[0] > 30
    assert totals[1] >= 1
    assert zeros >= 12


@pytest.mark.parametrize(("share", "answers"), [(3e-3, {4, 8}), (1e-4, {16})])
@pytest.mark.parametrize("name", ["logistic", "squares"])
def test_answers_as_fine_as_the_step_equal_the_reference(name, share, answers, visited):
    """A small share makes steps fine, so that answers of all widths are among the compared ones."""
    rounds, far = 11, 3.0
    ours, literal = pair(**PROBLEMS[name])
    _, account = watched(
        ours,
        ef.EF21(ef.FittedAnswer(block=4), "compressed"),
        rounds=rounds,
        direction=ef.LBFGS(),
        downlink=ef.FittedStep(share=share),
        prox=ef.ElasticNet(l2=0.02),
        x0=start(ours, far),
    )
    steps, widths, seen = reference.FittedSteps(share), [], []
    C = reference.fitted_answer(literal, steps, block=4)
    for each in reference.armijo(literal, start(ours, far), rounds, C, 20, steps, 0.02, ours.lower_bound):
        seen.append(each)
        widths.append(steps.bits)
    compared_rounds = compared(seen, account, visited)[0]
    assert compared_rounds >= 8
    assert {4 if bits <= 6 else 8 if bits <= 8 else 16 for bits in widths[1:compared_rounds]} >= answers


@pytest.mark.parametrize("wrong", ["share", "memory", "patience", "level", "wider"])
def test_the_comparison_notices_another_rule(wrong, visited, monkeypatch):
    """Negative controls."""
    change = {"share": ("SHARE", 0.3), "patience": ("PATIENCE", 4), "level": ("POLYAK", 0.26)}
    change |= {"wider": ("WIDER", 3.9)}
    if wrong in change:
        monkeypatch.setattr(f"errorfeedback.stepsizes.armijo.{change[wrong][0]}", change[wrong][1])
    failed = 0
    for name in PROBLEMS:
        literal, account = both(name, "Top2", "whole", visited, memory=3, far=10.0)
        if wrong == "memory":
            account = both(name, "Top2", "whole", visited, memory=4, far=10.0)[1]
        try:
            compared(literal, account, visited)
        except AssertionError:
            failed += 1
    assert failed


@pytest.mark.parametrize("clients", [None, 2])
@pytest.mark.parametrize("price", [0.0, 2.0, 7.0])
@pytest.mark.parametrize(
    ("name", "l2"),
    [(name, l2) for name in PROBLEMS for l2 in (0.0, 0.02) if l2 or name != "sparse logistic"],  # which is separable
)
def test_few_bit_hessians_equal_the_reference(name, price, l2, clients, visited, asked):
    ours, literal = pair(**PROBLEMS[name])
    C, levels = UP["4 bits"][1](literal), reference.powers_of_two(4)
    _, account = watched(
        ours,
        ef.EF21(ef.PowersOfTwo(4), "compressed"),
        rounds=ROUNDS,
        direction=ef.Curvature(ef.PowersOfTwo(4), price=price, clients=clients, believed=BELIEVED),
        downlink=ef.FittedStep(),
        prox=ef.ElasticNet(l2=l2) if l2 else None,
        x0=start(ours, 1.0),
    )
    tellers = Asking(ef.PowersOfTwo(4), clients).among(ours.n, 0)
    silent = {(t, i) for t in range(ROUNDS + 1) for i in range(ours.n) if i not in tellers}
    when = set(np.flatnonzero(asked[: ROUNDS + 1]).tolist())
    assert (0 in when, 1 in when) == (price <= 2.0, price <= 0.5)
    curvature = reference.HessianEstimates(literal, levels, l2, when, silent, BELIEVED)
    rounding, kept = reference.FittedSteps(0.1), 2 if price > 0.5 else 0
    first, floor = start(ours, 1.0), ours.lower_bound
    xs = reference.armijo(literal, first, ROUNDS, C, 20, rounding, l2, floor, curvature, kept_pairs=kept)
    assert compared(list(xs), account, visited)[0] >= 5
