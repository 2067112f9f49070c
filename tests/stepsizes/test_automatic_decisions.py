"""The automatic step, one decision at a time: what is lost, what is kept, and by how much gamma changes."""

from __future__ import annotations

from dataclasses import replace
from math import exp, inf, nan

import numpy as np
import pytest

import errorfeedback as ef
from errorfeedback.probes.errors import Errors
from errorfeedback.probes.full_gradient import FullGradient
from errorfeedback.probes.losses import Losses
from errorfeedback.probes.slopes import Slopes
from errorfeedback.stepsizes.automatic import Guarded, bound_of_clients
from errorfeedback.stepsizes.base import Move, Telemetry, Verdict

METHOD = ef.EF21(ef.TopK(1))
THEORY = ef.analyse(ef.synthetic(n=6, d=12, m=3, c=2), ef.TopK(1))
FALLEN = Guarded(1.0, 64, 0.0, t=200, first=2.0, best=1.0, moved=True)
"""In round 200, with gamma = 1, the loss has fallen from 2 to 1; all of its 64 bits are told."""


def judged(loss: float | None, state: Guarded = FALLEN) -> Guarded:
    return ef.Automatic().next(state, THEORY, METHOD, Telemetry({} if loss is None else {Losses: loss}))[1]


def slope(beta: float) -> Telemetry:
    """A unit step along g with gamma = 1, after which the share beta of the slope is left."""
    return Telemetry({Slopes: -beta}, move=Move(norm2=1.0, predicted=-1.0, gamma=1.0, known=0.0))


def adapted(beta: float, t: int) -> float:
    """What becomes of gamma = 1."""
    gamma, after = ef.Automatic().next(replace(FALLEN, t=t), THEORY, METHOD, slope(beta))
    assert after.gamma == gamma
    assert after.t == t + 1
    return gamma


@pytest.mark.parametrize("loss", [1.101, 1.5, 100.0, inf, nan])
def test_lost_is_more_than_a_tenth_of_all_progress_above_the_best_or_not_a_number(loss: float) -> None:
    after = judged(loss)
    assert after.verdict is Verdict.RESTORE
    assert after.gamma == 1.0 / 4
    assert (after.best, after.first) == (1.0, 2.0)


@pytest.mark.parametrize("loss", [1.0, 1.05, 1.099])
def test_a_tenth_of_all_progress_may_be_lost_again(loss: float) -> None:
    assert judged(loss).verdict is Verdict.GO
    assert judged(loss).best == 1.0


def test_before_any_progress_nothing_may_be_lost() -> None:
    start = replace(FALLEN, best=2.0)
    assert judged(2.0 + 1e-9, start).verdict is Verdict.RESTORE
    assert judged(float(np.nextafter(2.0, 3.0)), start).verdict is Verdict.GO, "rounding"


def test_a_better_loss_is_kept_and_rounding_is_not_better() -> None:
    assert judged(0.999).verdict is Verdict.KEEP
    assert judged(0.999).best == 0.999
    assert judged(None).verdict is Verdict.GO
    early = replace(FALLEN, t=3, slack=2.0**-20)  # 32 bits are told up to round 6, and 12 of them may be wrong
    assert judged(1 - 2.0**-21, early).verdict is Verdict.GO
    assert judged(1 - 2.0**-19, early).verdict is Verdict.KEEP
    coarse = replace(FALLEN, slack=2.0**-20)  # the best loss was told in few bits, this one in all
    assert judged(1 - 2.0**-21, coarse).verdict is Verdict.GO
    assert judged(1 + 0.1 + 2.0**-21, coarse).verdict is Verdict.GO
    assert judged(1 + 0.1 + 2.0**-19, coarse).verdict is Verdict.RESTORE


def test_after_a_way_back_one_round_stands_and_is_kept() -> None:
    lost = judged(nan)
    standing = judged(1.0, lost)
    assert standing.verdict is Verdict.KEEP
    assert standing.gamma == lost.gamma


@pytest.mark.parametrize("t", [1, 10, 60, 600])
@pytest.mark.parametrize("beta", [-1.0, 0.0, 0.3, 0.9])
def test_gamma_follows_the_slope_that_is_left_and_the_set_point_rises_within_60_rounds(t: int, beta: float) -> None:
    target = 0.45 - 0.35 * exp(-t / 60)
    assert adapted(beta, t) == pytest.approx(exp(0.4 * (beta - target)), rel=1e-12)


def test_the_set_point_in_numbers() -> None:
    for t, target in ((1, 0.1058), (60, 0.3212), (180, 0.4326), (600, 0.45)):
        assert adapted(target, t) == pytest.approx(1.0, abs=1e-4)


def test_no_step_changes_gamma_by_more_than_its_limits() -> None:
    assert adapted(50.0, 600) == pytest.approx(exp(0.4), rel=1e-12)
    assert adapted(-50.0, 600) == pytest.approx(exp(-1.2), rel=1e-12)


def test_the_first_step_is_a_quarter_of_polyaks_and_at_most_64_over_the_bound_on_L() -> None:
    start = ef.Automatic().start(THEORY, METHOD)
    assert start.gamma == 64 / bound_of_clients(THEORY)
    assert start.floor == 0.0
    for g2 in (0.0, 1e-9, 1e3):
        gamma, _ = ef.Automatic().next(start, THEORY, METHOD, Telemetry({Losses: 3.0}, direction2=g2))
        assert gamma == pytest.approx(min(start.gamma, 3.0 / (4 * g2)) if g2 else start.gamma)


@pytest.mark.parametrize(("share", "kept"), [(0.5, 0.5), (1.0, 1.0), (1.01, 1.0), (30.0, 1.0)])
def test_adaptive_cuts_what_it_sees_at_c(share: float, kept: float) -> None:
    """Lemma 5: c^t <= c; what a sketch or rounding says above it is false."""
    G_i = np.full(THEORY.n, 2.0)
    seen = Telemetry({Errors: G_i, FullGradient: share * THEORY.c * G_i.mean() / THEORY.n})
    _, c_t = ef.Adaptive().next(float(THEORY.n), THEORY, METHOD, seen)
    assert c_t == pytest.approx(kept * THEORY.c, rel=1e-12)


def test_adaptive_with_a_short_sketch_never_goes_below_the_step_of_c() -> None:
    """A sketch of one number is twice too large in every third round or so."""
    rule = ef.Adaptive(sketch=1)
    result = ef.solve(THEORY.problem, METHOD, rule, rounds=200, x0=np.ones(12))
    assert result.history["gamma"][1:].min() == rule.at(float(THEORY.c), result.theory)
