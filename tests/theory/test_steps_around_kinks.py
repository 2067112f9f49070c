"""Steps to the minimum of a model with an l1 part (docs/theory.md, section 30): Lemma E, what is accepted, and what rounding
costs.
"""

from __future__ import annotations

import numpy as np
import pytest
import reference

import errorfeedback as ef
from errorfeedback.downlinks.base import Step
from errorfeedback.sums import Quadratic

D = 6


def drawn(seed, spread=1.5):
    """x with zeros, g, B and l1."""
    rng = np.random.default_rng(seed)
    V = np.linalg.qr(rng.standard_normal((D, D)))[0]
    B = V @ np.diag(10.0 ** rng.uniform(-spread, spread, D)) @ V.T
    return rng, rng.standard_normal(D) * (rng.random(D) < 0.6), 3 * rng.standard_normal(D), B, rng.random(D)


def change(x, g, l1, s):
    """Delta(s)."""
    return g @ s + l1 @ (np.abs(x + s) - np.abs(x))


@pytest.mark.parametrize("seed", range(40))
def test_lemma_e_the_promise_is_at_least_the_curvature_and_shorter_steps_keep_their_share(seed):
    """(a) Delta(s) <= -s'Bs/2 where q(s) <= 0; (b) Delta <= -s'Bs at the minimum; (c) Delta(gamma s) <= gamma Delta(s)."""
    rng, x, g, B, l1 = drawn(seed)
    best = reference.lowest(x, g, B, l1) - x
    assert change(x, g, l1, best) <= -best @ B @ best * (1 - 1e-9)
    for t in rng.uniform(0, 2, 20):
        s = t * best + 0.1 * np.linalg.norm(best) * rng.standard_normal(D)
        if change(x, g, l1, s) + s @ B @ s / 2 <= 0:
            assert change(x, g, l1, s) <= -s @ B @ s / 2 + 1e-12
    for gamma in (0.9, 0.5, 0.01):
        assert change(x, g, l1, gamma * best) <= gamma * change(x, g, l1, best) + 1e-12


def test_lemma_e_is_tight():
    """Without l1 (b) is an equality, and so is (c); a curvature that is one percent larger breaks (b), and (a) holds with
    equality where the model is back at 0, twice as far."""
    _, x, g, B, _ = drawn(0)
    s = -np.linalg.solve(B, g)
    assert change(x, g, np.zeros(D), s) == pytest.approx(-s @ B @ s, rel=1e-9)
    assert not change(x, g, np.zeros(D), s) <= -1.01 * s @ B @ s
    assert change(x, g, np.zeros(D), 2 * s) == pytest.approx(-(2 * s) @ B @ (2 * s) / 2, rel=1e-9)
    assert change(x, g, np.zeros(D), 0.5 * s) == pytest.approx(0.5 * change(x, g, np.zeros(D), s), rel=1e-9)


def test_lemma_f_short_steps_are_accepted():
    """F falls by half of what is promised where gamma <= m'/(4L) and E <= m' ||s||/8, m' the smallest eigenvalue of B, for
    the worst of all errors."""
    for seed in range(40):
        rng, x, g, B, l1 = drawn(seed, spread=0.5)
        s = reference.lowest(x, g, B, l1) - x
        least, size = np.linalg.eigvalsh(B)[0], np.linalg.norm(s)
        L = 10.0 ** rng.uniform(-1, 2)
        gamma = min(1.0, least / (4 * L))
        error = least * size / 8 * s / size  # uphill along s
        step = gamma * s
        rise = (g + error) @ step + L / 2 * step @ step + l1 @ (np.abs(x + step) - np.abs(x))
        assert rise <= change(x, g, l1, step) / 2 + 1e-12


def test_lemma_f_fails_where_the_step_is_eight_times_as_long():
    """Negative control, on a parabola."""
    L, s = 1.0, np.array([1.0])
    g, gamma = -s, 8 * 1.0 / (4 * L)
    assert not g @ (gamma * s) + L / 2 * gamma**2 <= (g @ (gamma * s)) / 2


@pytest.mark.parametrize("gamma", [1.0, 0.4])
def test_the_rounded_step_keeps_nine_tenths_of_the_promise_and_goes_down(gamma):
    for seed in range(40):
        _, x, g, B, l1 = drawn(seed)
        direction = x - reference.lowest(x, g, B, l1)
        model = Quadratic(lambda vectors, B=B: np.array([v[:] @ B @ v[:] for v in vectors]), g)
        step = Step(direction, gamma, None, np.empty(D), True, lambda model=model: model, ef.ElasticNet(l1))
        ef.FittedStep(zeros=True).send(None, x.copy(), step)
        wanted, taken = -gamma * direction, step.taken
        fall = change(x, g, l1, wanted) + wanted @ B @ wanted / 2
        assert change(x, g, l1, taken) + taken @ B @ taken / 2 <= 0.9 * fall * (1 - 1e-9)
        assert change(x, g, l1, taken) <= 0.9 * fall * (1 - 1e-9) - taken @ B @ taken / 2


def test_an_entry_that_ends_at_0_unasked_is_at_most_twice_as_far_off():
    """Half a gap between levels for the step, and half a gap for -x."""
    rng, coding = np.random.default_rng(0), ef.FittedStep().codings[0]
    worst = 0.0
    for _ in range(200):
        wanted, x = rng.standard_normal((2, 50))
        steps, units = coding.rounded(wanted, np.array([50]))
        landed = coding.landing(steps, x, float(units[0]))
        levels = np.concatenate([coding.levels, [np.inf]]) * float(units[0])
        place = np.searchsorted(levels, np.abs(steps))
        gap = levels[place + 1] - levels[place]
        gap = np.where(np.isfinite(gap), gap, levels[place] / 2)  # beyond the top
        assert (np.abs(landed - wanted) <= gap * (1 + 1e-12)).all()
        worst = max(worst, float((np.abs(landed - wanted) / gap).max()))
    assert worst > 0.7
