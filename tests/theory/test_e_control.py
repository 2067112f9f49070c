"""EControl's step size (`stepsizes/e_control_step.py`): its chi is the gain from the gradients' moves to the estimates'
errors, over all compressors of a contraction and all moves; it is reached, and nothing goes beyond it.
"""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest
from discovery import COMPRESSORS
from problem_pairs import pair

import errorfeedback as ef
from errorfeedback.compressors.base import Contractive
from errorfeedback.stepsizes.proved import largest_root

ROUNDS = 3000


def chi(alpha, eta):
    """What the rule says of one client with TopK(1)."""
    problem = pair(n=1, d=round(1 / alpha), fill=1.0)[0]
    method = ef.EControl(ef.TopK(1), eta=eta)
    return ef.EControlStep().chi(ef.analyse(problem, method.compressor), method)


def gain(eta, compress, moves):
    """||h+ - gradient|| / ||moves|| over all rounds of the method as its file states it, the gradients' moves given."""
    gradient = h = e = 0.0
    errors = []
    for t, move in enumerate(moves):
        gradient = gradient + move
        u = eta * e + gradient - h
        h = h + compress(u, t)
        e = e + gradient - h
        errors.append(h - gradient)
    return np.linalg.norm(errors) / np.linalg.norm(moves)


@pytest.mark.parametrize(("alpha", "eta"), [(0.25, 0.05), (0.25, 0.1), (0.5, 0.2), (0.5, 0.0)])
def test_chi_is_reached_and_never_exceeded(alpha, eta):
    s, rng = sqrt(1 - alpha), np.random.default_rng(0)
    turning = np.array([(-1.0) ** t for t in range(ROUNDS)])
    assert 0.99 * chi(alpha, eta) < gain(eta, lambda u, t: (1 + s) * u, turning) < chi(alpha, eta)
    for _ in range(10):
        phases, tilt = np.exp(2j * np.pi * rng.random(ROUNDS)), np.exp(2j * np.pi * rng.random())
        moves = np.cumprod(np.full(ROUNDS, tilt)) * rng.random(ROUNDS) ** rng.integers(3)
        assert gain(eta, lambda u, t, lost=s * phases: u - lost[t] * u, moves) < chi(
            alpha, eta
        )  # two features as one number


def test_an_eta_beyond_the_theorem_diverges_and_is_refused():
    """The limit 2 (1 - s)/(1 + s) is where a compressor makes the error grow without any move of the gradients."""
    s = sqrt(0.5)
    most = 2 * (1 - s) / (1 + s)
    once = np.eye(1, 600)[0]
    below, above = (gain(factor * most, lambda u, t: (1 + s) * u, once) for factor in (0.95, 1.05))
    assert below < 10
    assert above > 1e3
    problem = pair(n=2, d=2, fill=1.0)[0]
    with pytest.raises(ValueError, match=r"theorem needs less than 2 \(1 - s\)/\(1 \+ s\)"):
        ef.solve(problem, ef.EControl(ef.TopK(1), eta=1.01 * most), ef.EControlStep(), rounds=1)
    ef.solve(problem, ef.EControl(ef.TopK(1), eta=0.99 * most), ef.EControlStep(), rounds=1)


def test_the_step_is_its_formula_and_that_of_ef21_without_feedback():
    theory = ef.analyse(pair(n=6, d=14, fill=0.3)[0], ef.TopK(2))
    rule, scale = ef.EControlStep(), theory.L_plus * sqrt(theory.c / theory.n)
    s = sqrt(1 - theory.alpha)
    for eta, expected in ((0.0, theory.xi), (0.03, s / (1 - s - 0.015 * (1 + s))), (None, 2 * theory.xi)):
        method = ef.EControl(ef.TopK(2), eta=eta)
        assert rule.chi(theory, method) == pytest.approx(expected, rel=1e-12)
        assert rule.gamma(theory, method) == pytest.approx(largest_root(theory.L, scale * expected), rel=1e-12)


@pytest.mark.parametrize("compressor", [c for c in COMPRESSORS if isinstance(c, Contractive)][:4], ids=str)
def test_the_bound_holds_along_a_run(compressor):
    problem = pair("logistic", n=6, d=14, fill=0.3)[0]
    method, rule, rounds = ef.EControl(compressor), ef.EControlStep(), 400
    history = ef.solve(problem, method, rule, rounds=rounds, x0=np.ones(problem.width)).history
    theory = ef.analyse(problem, compressor)
    G = np.sum(problem.gradients_at(np.ones(problem.width)) ** 2) / problem.n
    mean = history["grad_norm2"][:rounds].mean()
    assert mean <= rule.bound(theory, method, rounds, history["f"][0] - problem.lower_bound, G)


def test_minibatches_are_refused():
    problem = pair(n=3, d=6, fill=0.5)[0]
    with pytest.raises(ValueError, match="no theorem for minibatches"):
        ef.solve(problem, ef.EControl(ef.TopK(1), batch=1), ef.EControlStep(), rounds=1)
