"""The remarks after Theorem 1 and the conditions of Table 1.

1. With K_i = 1: sqrt(beta/theta) = (sqrt(1-alpha) + 1-alpha)/alpha <= 2 sqrt(1-alpha)/alpha = 2 sqrt(r(r-1)) <= 2r.
2. The bound with 1/gamma = L + min{sqrt(c max_i L_i^2/n), L_tilde} sqrt(beta c/(theta n)).
3. "In a pessimistic scenario where c = n, the bound recovers the standard EF21 rate": L + L_tilde sqrt(beta/theta).
4. "In an optimistic scenario where c = 1, [it] recovers the EF21 rate in the separable regime":
   L + (max_i L_i/n) sqrt(beta/theta).
Table 1: L_+ <= L_tilde, L <= L_tilde; (ii) EF21 with Top1 is better than DGD if sqrt(c/n) L_+ <= L.
"""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from theory.instances import KINDS, ROUNDING, THEORY, Dense, dense, denses

import errorfeedback as ef


@THEORY
@given(st.integers(1, 10**6))
def test_remark_1_xi_is_at_most_2_r_for_top_1(r):
    alpha = 1 / r
    middle = 2 * sqrt(1 - alpha) / alpha
    assert ef.xi(alpha) <= middle * (1 + ROUNDING)
    assert np.isclose(middle, 2 * sqrt(r * (r - 1)), rtol=1e-9)
    assert middle <= 2 * r


def test_remark_1_tight_as_r_grows_and_at_r_equal_to_1():
    assert ef.xi(1.0) == 0.0 == 2 * sqrt(1 * 0)
    ratios = [ef.xi(1 / r) / (2 * r) for r in (2, 10, 1000, 10**6)]
    assert np.all(np.diff(ratios) > 0)
    assert ratios[-1] == pytest.approx(1.0, abs=1e-6)
    assert ratios[-1] > 0.9, "negative control: 1.8 r would not do"


@THEORY
@given(denses())
def test_remark_1_the_alpha_of_top_1_is_1_over_r(dense):
    theory = ef.analyse(dense.problem(), ef.TopK(1))
    assert theory.alpha == 1 / theory.r == 1 / dense.sizes.max()
    assert theory.xi <= 2 * theory.r


@THEORY
@given(denses(), st.integers(1, 4))
def test_remark_2_the_step_is_at_least_that_of_the_explicit_bound(dense, k):
    theory = ef.analyse(dense.problem(), ef.TopK(k))
    explicit = (
        theory.L + min(sqrt(theory.c / theory.n) * theory.L_max, theory.L_tilde) * sqrt(theory.c / theory.n) * theory.xi
    )
    assert 1 / ef.RareFeatures().gamma(theory) <= explicit * (1 + ROUNDING)
    assert ef.RareFeatures().gamma(theory) >= ef.EF21Standard().gamma(theory) * (1 - ROUNDING), "never below the old theory"


@THEORY
@given(denses())
def test_table_1_notes_L_and_L_plus_are_at_most_L_tilde(dense):
    theory = ef.analyse(dense.problem())
    assert theory.L_tilde * (1 + ROUNDING) >= theory.L
    assert theory.L_plus <= theory.L_tilde * (1 + ROUNDING)
    assert theory.L_plus * (1 + ROUNDING) >= theory.L, "Jensen: ||mean||^2 <= mean of ||.||^2"


@pytest.mark.parametrize("n", [1, 3, 6])
@pytest.mark.parametrize("k", [1, 2])
def test_remark_3_c_equal_to_n_recovers_the_standard_EF21_step(n, k):
    # Everyone owns everything; logistic loss, so that L_+ is Lemma 2's, which is L_tilde here.
    full = Dense(
        [np.random.default_rng(i).standard_normal((3, 5)) for i in range(n)], [np.array([1.0, -1.0, 1.0])] * n, logistic=True
    )
    theory = ef.analyse(full.problem(), ef.TopK(k))
    assert (theory.c, theory.r) == (n, 5)
    assert np.isclose(theory.L_plus, theory.L_tilde, rtol=1e-12)
    standard = ef.EF21Standard().gamma(theory)
    assert np.isclose(ef.RareFeatures().gamma(theory), standard, rtol=1e-12)
    assert np.isclose(1 / standard, theory.L + theory.L_tilde * ef.xi(k / 5), rtol=1e-12)


@THEORY
@given(denses(c=1), st.integers(1, 4))
def test_remark_4_c_equal_to_1_recovers_the_separable_step(dense, k):
    theory = ef.analyse(dense.problem(), ef.TopK(k))
    separable = theory.L_max / dense.n * (1 + theory.xi)  # L = max_i L_i/n by Lemma 12
    if dense.lam:  # there L_plus is a bound, sharper of two: the separable rate or better
        assert 1 / ef.RareFeatures().gamma(theory) <= separable * (1 + 1e-9)
    else:
        assert np.isclose(1 / ef.RareFeatures().gamma(theory), separable, rtol=1e-9)


def test_negative_control_with_c_between_1_and_n_neither_remark_applies():
    theory = ef.analyse(dense(5, 6, 9, 3, "logistic").problem(), ef.TopK(1))
    gamma = ef.RareFeatures().gamma(theory)
    assert not np.isclose(gamma, ef.EF21Standard().gamma(theory), rtol=1e-3)
    assert not np.isclose(1 / gamma, theory.L_max / 6 * (1 + theory.xi), rtol=1e-3)


def numbers_per_accuracy(theory: ef.Theory) -> tuple[float, float]:
    """Numbers a client sends until 2 (f(x^0) - f*)/(gamma T) is 1: EF21 with Top1 one per round, DGD up to r per round."""
    return 1 / ef.RareFeatures().gamma(theory), theory.r / ef.InverseL().gamma(theory)


@THEORY
@given(denses())
def test_condition_ii_makes_EF21_with_top_1_at_most_thrice_as_costly_as_DGD(dense):
    # (L + 2 sqrt(r(r-1)) sqrt(c/n) L_+) <= (1 + 2 sqrt(r(r-1))) L <= 3 r L: Table 1's O() with its constant.
    theory = ef.analyse(dense.problem(), ef.TopK(1))
    distance = sqrt(dense.c / dense.n) * theory.L_plus / theory.L - 1
    if abs(distance) > 1e-8:
        assert theory.condition_ii == (distance < 0)
    ef21, dgd = numbers_per_accuracy(theory)
    if theory.condition_ii:
        assert ef21 <= (1 + 2 * sqrt(theory.r * (theory.r - 1))) * theory.L * (1 + 1e-8)
        assert ef21 <= 3 * dgd


@THEORY
@given(denses())
def test_condition_ii_can_hold_with_equality_only(dense):
    # Lemma 4 for the gradients' differences: L^2 <= (c/n) L_+^2, always. So (ii) is an equality where it holds, and with
    # 1 + xi = 1/theta >= r, Theorem 1's constants never put Top1 below a DGD that sends r numbers (below d they do).
    theory = ef.analyse(dense.problem(), ef.TopK(1))
    assert sqrt(dense.c / dense.n) * theory.L_plus * (1 + 1e-9) >= theory.L
    ef21, dgd = numbers_per_accuracy(theory)
    assert ef21 >= dgd * (1 - 1e-9)


def test_what_is_printed_about_condition_ii_is_that_it_promises_no_gain():
    # c = 1 and 20 features each: (ii) holds, and Theorem 1 promises 1/(20 theta) = 1.97 times the numbers of DGD.
    separable = [np.kron(np.eye(3)[[i]], np.random.default_rng(i).standard_normal((2, 20))) for i in range(3)]
    theory = ef.analyse(Dense(separable, [np.ones(2)] * 3).problem(), ef.TopK(1))
    assert theory.condition_ii
    assert theory.numbers_over_dgd == pytest.approx(1 / (20 * (1 - sqrt(1 - 1 / 20))), rel=1e-9)
    assert "condition (ii), sqrt(c/n) L_plus <= L: holds, as the equality that it can only be" in str(theory)
    assert "Theorem 1 promises 1.97 times the numbers of a DGD that sends each client's |J_i|" in str(theory)
    everything = ef.analyse(theory.problem, ef.Identity())
    assert everything.numbers_over_dgd == pytest.approx(1.0)


@THEORY
@given(denses(), st.integers(1, 4))
def test_numbers_over_dgd_are_the_rounds_of_both_times_what_they_send(dense, k):
    theory = ef.analyse(dense.problem(), ef.TopK(k))
    sent = np.minimum(k, dense.sizes).sum() / ef.RareFeatures().gamma(theory)
    assert theory.numbers_over_dgd == pytest.approx(sent / (dense.sizes.sum() / ef.InverseL().gamma(theory)), rel=1e-12)


@pytest.mark.parametrize("group", [1, 2, 4])
@pytest.mark.parametrize("own", [3, 60])
@pytest.mark.parametrize("kind", ["squared", "logistic"])
def test_condition_ii_tight_groups_of_identical_clients_and_one_client_per_feature(group, own, kind):
    # Groups of c identical clients, each group with features of its own: L = (c/n) L_i, L_+ = sqrt(c/n) L_i, an equality,
    # which rounding must not hide. own = 60 makes d = 240: the iterative path.
    one = dense(own, 1, own, 1, kind)
    blocks = [np.kron(np.eye(4)[[j]], one.A[0]) for j in range(4) for _ in range(group)]
    theory = ef.analyse(Dense(blocks, one.b * (4 * group), one.logistic).problem(), ef.TopK(1))
    assert (theory.c, theory.n, theory.d) == (group, 4 * group, 4 * own)
    assert np.isclose(sqrt(theory.c / theory.n) * theory.L_plus, theory.L, rtol=1e-9)
    assert theory.condition_ii


def test_condition_ii_tight_holds_for_all_separable_problems():
    # L = max L_i/n (Lemma 12) and L_+ = max L_i/sqrt(n) (Lemma 2, tight): the condition holds, and must be reported so.
    for seed in range(60):
        for kind in KINDS:
            for n, d in ((1, 4), (5, 9), (6, 11)):
                assert ef.analyse(dense(seed, n, d, 1, kind).problem(), ef.TopK(1)).condition_ii, (seed, kind, n, d)
    for seed in range(15):
        assert ef.analyse(dense(seed, 6, 220, 1).problem(), ef.TopK(1)).condition_ii, (seed, "d = 220")


def test_negative_control_without_condition_ii_the_factor_3_is_lost():
    # c = n by a trace of every feature everywhere: the mean Hessian is flat where the clients are steep, so L_+ exceeds L.
    n = d = 12
    blocks = [np.eye(d)[[i]] * 1.0 + 1e-3 for i in range(n)]
    theory = ef.analyse(Dense(blocks, [np.ones(1)] * n).problem(), ef.TopK(1))
    ef21, dgd = numbers_per_accuracy(theory)
    assert theory.c == n
    assert not theory.condition_ii
    assert ef21 > 3 * dgd


@pytest.mark.parametrize("kind", KINDS)
def test_the_standard_rule_with_K_over_d_is_the_smallest_of_the_three(kind):
    theory = ef.analyse(dense(5, 6, 9, 3, kind).problem(), ef.TopK(1))
    published, contraction, new = (
        r.gamma(theory) for r in (ef.EF21Standard(), ef.EF21Standard(alpha="K/|J_i|"), ef.RareFeatures())
    )
    assert published < contraction < new
    assert published < ef.RareFeatures(alpha="K/d").gamma(theory) < new
