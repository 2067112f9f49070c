"""Lemma 11. Let theta = 1 - sqrt(1 - alpha) and beta = (1 - alpha)/(1 - sqrt(1 - alpha)), where alpha in (0, 1]. Then
sqrt(beta/theta) = (sqrt(1 - alpha) + 1 - alpha)/alpha.
"""

from __future__ import annotations

from decimal import Decimal, localcontext
from math import isclose

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from theory.instances import THEORY, Dense

import errorfeedback as ef


def root(alpha: float) -> float:
    """sqrt(beta/theta) from the definitions, to 60 digits."""
    with localcontext() as context:
        context.prec = 60
        a = Decimal(alpha)
        theta = 1 - (1 - a).sqrt()
        return float((((1 - a) / theta) / theta).sqrt())


def agrees(formula, alpha: float) -> bool:
    return isclose(formula(alpha), root(alpha), rel_tol=1e-12, abs_tol=1e-300)


def theory_of(k: int, size: int) -> ef.Theory:
    """One client with `size` features and TopK(k)."""
    return ef.analyse(Dense([np.ones((1, size))], [np.ones(1)]).problem(), ef.TopK(k))


@THEORY
@given(st.floats(1e-15, 1 - 1e-6) | st.just(1.0))  # every alpha = K/|J_i| of clients with up to a million features
def test_lemma_11_xi_is_the_root_of_beta_over_theta(alpha):
    assert agrees(ef.xi, alpha)


@pytest.mark.parametrize("size", [1, 2, 3, 10, 100])
def test_lemma_11_for_every_K_of_a_client(size):
    for k in range(1, size + 2):
        theory = theory_of(k, size)
        assert theory.alpha == min(k, size) / size
        assert isclose(theory.xi, root(theory.alpha), rel_tol=1e-12, abs_tol=1e-300)
        # theta = 1 - sqrt(1 - alpha) loses digits of a small alpha: what remains is 1e-16/alpha.
        assert isclose(np.sqrt(theory.beta / theory.theta), theory.xi, rel_tol=1e-14 * size, abs_tol=1e-300)


def test_lemma_11_tight_round_values():
    assert ef.xi(1.0) == 0.0
    assert ef.xi(0.75) == 1.0
    assert ef.xi(0.4375) == 3.0  # sqrt(1 - 7/16) = 3/4
    assert ef.xi(9 / 25) == pytest.approx(4.0, rel=1e-14)


@THEORY
@given(st.floats(1e-6, 0.95))
def test_negative_control_other_formulas_do_not_agree(alpha):
    assert agrees(ef.xi, alpha)
    assert not agrees(lambda a: 2 * np.sqrt(1 - a) / a, alpha), "the upper bound that follows Theorem 1 is not the constant"
    assert not agrees(lambda a: (np.sqrt(1 - a) + 1 + a) / a, alpha), "a wrong sign"
    assert not agrees(lambda a: ef.xi(1.001 * a), alpha), "alpha off by a thousandth"
