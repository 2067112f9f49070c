"""Values of 16 or 32 bits: the contraction is proved, nothing overflows or vanishes, and the bits are fewer."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from problem_pairs import pair

import errorfeedback as ef
from errorfeedback.core import Round
from errorfeedback.sparsity.support import full_support
from errorfeedback.wire.truncated import relative_error

COMPRESSORS = [ef.TopK(1), ef.TopK(3), ef.Identity(), ef.ExactOnCommon((0,), 1), ef.RandK(2).contractive()]
SIZES = st.floats(-1e300, 1e300, allow_subnormal=False) | st.floats(-1, 1, allow_subnormal=False)


def squares(v):
    """||v||^2 without overflow: in units of the largest entry, which is given too."""
    top = np.abs(v).max(initial=0.0)
    return (0.0, 0.0) if top == 0 else (float(np.sum((v / top) ** 2)), float(top))


@given(
    st.sampled_from(COMPRESSORS),
    st.sampled_from([13, 16, 21, 32, 47]),
    arrays(np.float64, st.integers(2, 20), elements=SIZES),
)
def test_the_contraction_holds_for_any_numbers(compressor, bits, u):
    """||C(u) - u||^2 <= ||u||^2 - (1 - eps^2) sum_S u_j^2; TopK's alpha does the rest."""
    support = full_support(1, len(u))
    operator = ef.Rounded(compressor, bits).on(support)
    sent, whole = operator(u, Round(0, 0)).lifted(), compressor.on(support)(u, Round(0, 0)).lifted()
    assert np.isfinite(sent).all()
    _, top = squares(u)
    if top:
        a, b, c = (np.sum((v / top) ** 2) for v in (sent - u, u, whole))
        assert a <= b - (1 - relative_error(bits) ** 2) * c + 1e-12
        if compressor.deterministic:
            assert a <= (1 - ef.Rounded(compressor, bits).alpha(support)[0]) * b + 1e-12


def test_the_constant_is_tight_and_a_smaller_error_would_be_wrong():
    """1 + eps is half way between two numbers of 5 digits: off by eps/(1 + eps) of itself."""
    support, eps = full_support(1, 1), relative_error(16)
    u = np.array([1.0 + eps])
    left = float((ef.Rounded(ef.Identity()).on(support)(u, Round(0, 0)).lifted() - u)[0] ** 2)
    assert left == pytest.approx((1 - ef.Rounded(ef.Identity()).alpha(support)[0]) * u[0] ** 2, rel=2.1 * eps)
    assert left > (eps / 2) ** 2 * u[0] ** 2


def test_small_and_large_numbers_survive_where_a_half_would_not():
    u = np.array([1e-200, 3e5, 1e-9])
    sent = ef.Rounded(ef.Identity()).on(full_support(1, 3))(u, Round(0, 0)).lifted()
    np.testing.assert_allclose(sent, u, rtol=relative_error(16))
    with np.errstate(over="ignore"):
        half = u.astype(np.float16)
    assert half[0] == 0
    assert np.isinf(half[1])


@pytest.mark.parametrize("bits", [16, 32])
def test_a_run_converges_all_the_way_and_sends_fewer_bits(bits):
    """The rounding error stays with the client and is sent later: no floor."""
    problem = pair(n=6, d=12, fill=0.5)[0]
    plain, short = (
        ef.solve(problem, ef.EF21(c), ef.Constant(0.05), rounds=4000, every=100, x0=np.ones(12))
        for c in (ef.TopK(2), ef.Rounded(ef.TopK(2), bits))
    )
    assert short.history["grad_norm2"][-1] < 1e-20
    assert plain.history["grad_norm2"][-1] < 1e-20
    saved = plain.history["uplink_bits"] - short.history["uplink_bits"]
    sent = np.minimum(2, problem.support.sizes).sum()
    assert saved.tolist() == ((64 - bits) * sent * plain.history["round"]).tolist()
    assert ef.Rounded(ef.TopK(2), bits).message_bits(problem.support).sum() * 100 == np.diff(short.history["uplink_bits"])[0]


def test_theorem_1_holds_with_its_alpha():
    result = ef.solve(ef.synthetic(n=10, d=30, m=3, c=3), ef.EF21(ef.Rounded(ef.TopK(1))), ef.RareFeatures(), rounds=300)
    assert result.certificate.holds
    assert ef.Rounded(ef.Participating(ef.TopK(1), 0.5)).deterministic is False


@pytest.mark.parametrize(("bits", "exact"), [(13, False), (39, False), (50, False), (63, False), (64, True)])
def test_only_all_bits_are_without_error(bits, exact):
    """alpha = 1 says that nothing is lost, and 1 - eps^2 must not be taken for it."""
    assert bool(ef.Rounded(ef.Identity(), bits).alpha(full_support(1, 5))[0] == 1) is exact


def test_common_features_are_no_longer_exact():
    support = full_support(3, 4)
    assert ef.ExactOnCommon((0,)).exact(support).any()
    assert not ef.Rounded(ef.ExactOnCommon((0,))).exact(support).any()


@pytest.mark.parametrize("bits", [0, 8, 12, 65, "float16", 16.0, True])
def test_other_lengths_are_refused(bits):
    with pytest.raises(ValueError, match="a truncated float has from 13 to 64 bits"):
        ef.Rounded(ef.TopK(1), bits)


def test_only_contractive_compressors_are_rounded():
    with pytest.raises(ValueError, match="needs a contractive compressor"):
        ef.Rounded(ef.RandK(1))
