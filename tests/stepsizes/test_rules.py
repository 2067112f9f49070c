"""Each rule is its formula; a rule without a theorem for a method refuses it."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest
from discovery import COMPRESSORS, METHODS, RULES, covering
from problem_pairs import pair

import errorfeedback as ef


@pytest.fixture(scope="module")
def problem():
    return pair(n=6, d=14, fill=0.3)[0]


def xi(alpha):
    theta = 1 - sqrt(1 - alpha)
    return sqrt((1 - alpha) / theta / theta)


def test_the_papers_rules_are_their_formulas(problem):
    t = ef.analyse(problem, ef.TopK(2))
    alpha = min(min(2, s) / s for s in problem.support.sizes)
    n, d, c = 6, 14, problem.support.c
    assert ef.InverseL().gamma(t) == 1 / t.L
    assert ef.EF21Standard().gamma(t) == pytest.approx(1 / (t.L + t.L_tilde * xi(2 / d)), rel=1e-12)
    assert ef.EF21Standard("K/|J_i|").gamma(t) == pytest.approx(1 / (t.L + t.L_tilde * xi(alpha)), rel=1e-12)
    assert ef.RareFeatures().gamma(t) == pytest.approx(1 / (t.L + t.L_plus * sqrt(c / n) * xi(alpha)), rel=1e-12)
    assert ef.RareFeatures("K/d").gamma(t) == pytest.approx(1 / (t.L + t.L_plus * sqrt(c / n) * xi(2 / d)), rel=1e-12)


def test_theorem_1_is_never_below_the_published_step(problem):
    for k in (1, 2, 5):
        t = ef.analyse(problem, ef.TopK(k))
        assert ef.RareFeatures().gamma(t) >= ef.EF21Standard("K/|J_i|").gamma(t) >= ef.EF21Standard().gamma(t)


def test_identity_gives_gradient_descents_step(problem):
    t = ef.analyse(problem, ef.Identity())
    assert ef.RareFeatures().gamma(t) == ef.EF21Standard().gamma(t) == ef.InverseL().gamma(t)


def test_marinas_rules_are_their_formulas(problem):
    p = 0.2
    t = ef.analyse(problem, ef.RandK(2))
    method = ef.MARINA(ef.RandK(2), p=p)
    omega = max(s / min(2, s) - 1 for s in problem.support.sizes)
    expected = 1 / (t.L + t.L_tilde * sqrt((1 - p) * omega / (p * 6)))
    assert ef.MarinaIndependent().gamma(t, method) == pytest.approx(expected, rel=1e-12)
    dense = pair(n=4, d=7, fill=1.0)[0]
    t = ef.analyse(dense, ef.PermK())
    bound = ef.MARINA(ef.PermK()).bind(dense.support)
    assert bound.p == 1 / 4  # the usual p = K/d with K = d/n
    assert ef.MarinaAB().gamma(t, bound) == pytest.approx(1 / (t.L + sqrt(3) * t.L_pm), rel=1e-12)


def test_marina_ab_counts_b_as_a_when_a_is_smaller():
    problem = ef.synthetic(n=10, d=30, m=3, c=2)
    t = ef.analyse(problem, ef.PermK())
    A, B = t.ab
    assert A < B == 1.0
    p = 0.5
    assert ef.MarinaAB().gamma(t, ef.MARINA(ef.PermK(), p=p)) == pytest.approx(1 / (t.L + sqrt(A) * t.L_pm), rel=1e-12)


@pytest.mark.parametrize("compressor", [c for c in COMPRESSORS if isinstance(c, (ef.RandK, ef.PermK))], ids=str)
def test_marina_descends_with_its_theoretical_step(problem, compressor):
    result = ef.solve(problem, ef.MARINA(compressor), ef.MarinaAB(), rounds=3000, every=500, x0=np.ones(14))
    assert result.history["grad_norm2"][-1] < 1e-3 * result.history["grad_norm2"][0]


def test_adaptive_uses_last_rounds_c_and_n_in_round_0(problem):
    rule = ef.Adaptive()
    result = ef.solve(problem, ef.EF21(ef.TopK(1)), rule, rounds=30, x0=np.ones(14))
    h, t = result.history, result.theory
    assert h["gamma"][0] == rule.at(6.0, t)
    for k in range(30):
        assert h["gamma"][k + 1] == pytest.approx(rule.at(h["c_t"][k], t), rel=1e-12)
    c_t = h["c_t"][5]
    L_plus = min(sqrt(c_t / 6) * t.L_max, t.L_tilde)
    assert rule.at(c_t, t) == pytest.approx(1 / (t.L + L_plus * sqrt(c_t / 6) * xi(t.alpha)), rel=1e-12)
    assert "full gradient" in h.notes[0]
    assert ef.solve(problem, ef.EF21(ef.TopK(1)), ef.RareFeatures(), rounds=1).history.notes == ()


def example(rule):
    return rule(0.01) if rule is ef.Constant else rule()


@pytest.mark.parametrize(("method", "rule"), covering(METHODS, RULES.values()), ids=lambda v: getattr(v, "__name__", str(v)))
def test_a_rule_runs_with_its_own_methods_and_refuses_the_others(problem, method, rule):
    made = example(rule)
    fits = isinstance(method, rule.methods)
    dependent = rule is ef.MarinaIndependent and fits and not method.compressor.independent
    dependent |= rule is ef.Adaptive and not method.compressor.always
    dependent |= fits and rule in (ef.DianaStep, ef.DianaConvex, ef.EControlStep) and method.batch is not None
    dependent |= fits and rule is ef.DianaConvex and not method.compressor.independent
    if fits and not dependent:
        assert ef.solve(problem, method, made, rounds=2).history["gamma"][0] > 0
    else:
        with pytest.raises(ValueError, match=r"has no theorem for|draw independently|from every client"):
            ef.solve(problem, method, made, rounds=2)


@pytest.mark.parametrize("gamma", [0.0, -1.0, np.nan, np.inf])
def test_constant_must_be_finite_and_positive(gamma):
    with pytest.raises(ValueError, match="a step size must be finite and positive"):
        ef.Constant(gamma)


@pytest.mark.parametrize("rule", [ef.EF21Standard, ef.RareFeatures, ef.Adaptive])
def test_unknown_alpha(rule):
    with pytest.raises(ValueError, match="alpha = 'r'; it must be one of"):
        rule("r")


def test_analyse_says_what_it_knows(problem):
    text = str(ef.analyse(problem, ef.TopK(1)))
    for word in ("c/n", "L_plus", "exact", "L_tilde", "alpha", "condition (ii)"):
        assert word in text
    logistic = ef.analyse(pair("logistic")[0], ef.TopK(1))
    assert not logistic.L_plus_exact
    assert logistic.how["L_plus"] == "bound (Lemma 2)"
    with pytest.raises(ValueError, match="is not contractive and has no alpha"):
        _ = ef.analyse(problem, ef.RandK(1)).alpha
    with pytest.raises(ValueError, match="is not unbiased and has no omega"):
        _ = ef.analyse(problem, ef.TopK(1)).omega
