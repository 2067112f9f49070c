"""Few bits for every entry: the lemma of `compressors.few_bits` holds, and is the supremum; what is odd is well defined."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from problem_pairs import pair

import errorfeedback as ef
from errorfeedback.compressors.few_bits import lost_share
from errorfeedback.core import Round
from errorfeedback.sparsity.support import full_support
from errorfeedback.wire.codebook import EXCESS, Codebook

KINDS = [
    ef.PowersOfTwo(2),
    ef.PowersOfTwo(3),
    ef.PowersOfTwo(4),
    ef.PowersOfTwo(9),
    ef.Uniform(3),
    ef.Uniform(8),
    ef.Uniform(16),
    ef.SmallFloat(4, 3),
    ef.SmallFloat(2, 1),
    ef.SmallFloat(6, 17),
]
LENGTHS = [1, 2, 5, 100, 1000, 50_000]
SIZES = st.floats(-1e150, 1e150, allow_subnormal=False) | st.floats(-1, 1, allow_subnormal=False)
CONTEXT = Round(0, 0)


def sent(compressor, u):
    return compressor.on(full_support(1, len(u)))(u, CONTEXT).lifted()


def lost(compressor, u):
    """||C(u) - u||^2 / ||u||^2, in units of the largest entry."""
    top = np.abs(u).max()
    return float(np.sum(((sent(compressor, u) - u) / top) ** 2) / np.sum((u / top) ** 2))


@pytest.mark.parametrize("compressor", KINDS, ids=str)
@settings(deadline=None)
@given(arrays(np.float64, st.integers(1, 30), elements=SIZES))
def test_the_lemma_holds_for_any_numbers(compressor, u):
    if np.abs(u).max() > 1e-150:
        alpha = compressor.alpha(full_support(1, len(u)))[0]
        assert lost(compressor, u) <= (1 - alpha) * (1 + 1e-9)


@pytest.mark.parametrize("length", LENGTHS[1:])
@pytest.mark.parametrize("compressor", KINDS, ids=str)
def test_the_lemma_holds_along_a_search_for_the_worst(compressor, length):
    """Random vectors of every spread, and each improved by moving entries to where they lose more."""
    rng, alpha = np.random.default_rng(0), compressor.alpha(full_support(1, length))[0]
    for spread in np.logspace(-4, 1, 30):
        u = np.exp(spread * rng.standard_normal(length)) * rng.choice([-1, 1], length)
        assert lost(compressor, u) <= (1 - alpha) * (1 + 1e-12)


def worst(compressor, length):
    """The unit is rounded up the most, the largest entry is as low as it can be or just below a threshold, and the others
    are just below a threshold: the best of all."""
    levels, top = compressor.coding.levels, compressor.coding.top
    thresholds, unit = (levels[1:] + levels[:-1]) / 2, 1 + EXCESS
    largest = [top * (1 + 1e-13), *unit * thresholds[thresholds * unit > top][:1] * (1 - 1e-13)]
    found = []
    for threshold in np.append(np.unique(np.concatenate([thresholds[:300], thresholds[-300:]])), 0.0):
        for first in largest:
            u = np.full(length, threshold * unit * (1 - 1e-13))
            u[0] = first
            found.append(lost(compressor, u))
    return max(found)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("compressor", [c for c in KINDS if c.coding.each < 16], ids=str)
def test_the_lemma_is_the_supremum(compressor, length):
    """Reached to 1 in 100,000: alpha larger by a few percent of 1 - alpha would be wrong."""
    stated = 1 - compressor.alpha(full_support(1, length))[0]
    assert worst(compressor, length) == pytest.approx(stated, rel=1e-5)


@pytest.mark.parametrize(
    ("bits", "digits"), [(b, m) for b in range(2, 14) for m in range(b - 1) if b - 1 - m <= 8] + [(16, 9), (16, 14)]
)
def test_no_threshold_but_the_first_of_every_gap_matters(bits, digits):
    """The maximum over all thresholds, as the lemma has it."""
    c = Codebook(bits, digits)
    levels, L = c.levels, c.top / (1 + EXCESS)
    assert levels[-1] == c.top
    T, h = (levels[:-1] + levels[1:]) / 2, np.diff(levels) / 2
    places = [(L, np.abs(levels - L).min()), *zip(T[T > L][:1], h[T > L][:1], strict=True)]
    T, h = np.append(T, 0.0), np.append(h, 0.0)
    for length in (1, 2, 10, 512, 10**6):
        each = [np.max((e**2 + (length - 1) * h**2) / (q**2 + (length - 1) * T**2)) for q, e in places]
        assert lost_share(c, length) == pytest.approx(max(each), rel=1e-13)


def test_the_constants_are_those_of_the_notes():
    """alpha >= 0.83 with 4 bits at 1,000 entries, 0.98 with 8 bits at 1,024 (docs/theory.md); powers of two lose 1/9."""
    assert ef.PowersOfTwo(4).alpha(full_support(1, 1000))[0] == pytest.approx(8 / 9, abs=1e-3)
    assert ef.Uniform(8).alpha(full_support(1, 1024))[0] > 0.98
    sizes = full_support(1, 50_000)
    assert ef.PowersOfTwo(4).alpha(sizes)[0] < 0.3
    assert ef.PowersOfTwo(4, block=1000).alpha(sizes)[0] == pytest.approx(8 / 9, abs=1e-3)


@pytest.mark.parametrize("compressor", KINDS, ids=str)
def test_the_nearest_level_is_taken_and_the_larger_half_way_between_two(compressor):
    c, levels = compressor.coding, compressor.coding.levels
    unit = 1.5
    middles = (levels[1:] + levels[:-1]) / 2
    picked = np.unique(np.linspace(0, len(middles) - 1, 50).astype(int))
    for k in picked:
        q = np.array([c.top, middles[k], middles[k] * (1 - 1e-12), middles[k] * (1 + 1e-12), -middles[k], 0.0])
        expected = np.array([c.top, levels[k + 1], levels[k], levels[k + 1], -levels[k + 1], 0.0])
        assert np.array_equal(sent(compressor, q * unit), expected * unit)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("bits", "digits"), [(4, 0), (16, 9), (24, 17), (24, 22)])
def test_what_is_read_is_what_was_sent_to_the_last_bit(bits, digits, dtype):
    """In single precision a level times its unit is rounded, and the level is read from that all the same."""
    coding, count = Codebook(bits, digits), np.array([5000])
    for size in (1e-40, 1e-30, 1.0, 1e30):
        values = (size * np.random.default_rng(0).standard_normal(5000)).astype(dtype)
        sent, units = coding.rounded(values, count)
        read = coding.decoded(*coding.encoded(sent, units, count), count, np.dtype(dtype))
        assert np.array_equal(read, sent)
        assert size < 1e-38 or np.abs(read - values).max() <= 2.0 ** -(digits + 1) * 1.1 * np.abs(values).max()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("compressor", [*KINDS, ef.QSGD(7), ef.Natural(5), ef.Rounded(ef.TopK(2), ef.Uniform(4))], ids=str)
def test_zeros_stay_zero_and_what_is_not_finite_stays_not_finite(compressor, dtype):
    """Client by client: a client that has overflowed does not spoil the others, and does not look as if it had converged."""
    support = full_support(4, 3)
    u = np.array([[0, 0, 0], [1, np.nan, 2], [1, -np.inf, 0], [4, 4, 4]], dtype=dtype)
    found = compressor.on(support)(u.ravel(), CONTEXT).lifted().reshape(4, 3)
    assert found.dtype == dtype
    assert not found[0].any()
    assert not np.signbit(found[0]).any()
    assert not np.isfinite(found[1]).all()
    assert not np.isfinite(found[2]).all()
    assert np.isfinite(found[3]).all()
    assert found[3].any()


@pytest.mark.parametrize("downlink", [ef.Whole(), ef.RoundedStep()], ids=str)
def test_a_run_that_diverges_says_so(downlink):
    problem = pair(n=6, d=12, fill=0.5)[0]
    run = ef.solve(problem, ef.EF21(ef.PowersOfTwo(4)), ef.Constant(1e6), rounds=500, downlink=downlink)
    assert "diverged" in run.stopped


@pytest.mark.parametrize("size", [1e-320, 1e-300, 1e-44, 1e-38, 1e38, 1e300, 1.7e308])
@pytest.mark.parametrize("compressor", KINDS, ids=str)
def test_very_small_and_very_large_numbers_are_rounded_or_refused_but_never_wrong(compressor, size):
    for dtype in (np.float64, np.float32):
        with np.errstate(over="ignore"):
            u = np.array([size, size / 3, -size / 1000, 0.0]).astype(dtype)
        found = sent(compressor, u)
        if np.isfinite(u).all() and np.isfinite(found).all():
            error = np.abs(found.astype(np.float64) - u)
            least = 2.0**-1021 if dtype is np.float64 else 2.0**-143
            assert error.max() <= 0.51 * np.abs(u).max().astype(np.float64) + least
        else:
            assert not np.isfinite(found).all()
            assert np.abs(u).max() > 0.96 * np.finfo(dtype).max


@pytest.mark.parametrize(
    "compressor",
    [
        ef.PowersOfTwo(4),
        ef.PowersOfTwo(3, block=4),
        ef.Uniform(4),
        ef.SmallFloat(2, 1),
        ef.Rounded(ef.TopK(3), ef.PowersOfTwo(4)),
    ],
    ids=str,
)
def test_a_run_converges_all_the_way(compressor):
    """The rounding error stays with the client and is sent later: no floor."""
    problem = pair(n=6, d=12, fill=0.5)[0]
    run = ef.solve(problem, ef.EF21(compressor), ef.Best(), rounds=12_000, every=1000, x0=np.ones(12))
    assert run.history["grad_norm2"][-1] < 1e-20


@pytest.mark.parametrize("start", ["zero", "compressed", "gradient"])
@pytest.mark.parametrize("compressor", [ef.PowersOfTwo(4), ef.Uniform(3), ef.Rounded(ef.TopK(4), ef.Uniform(4))], ids=str)
def test_the_theorems_hold_with_this_alpha(compressor, start):
    problem = ef.synthetic(n=10, d=30, m=3, c=3)
    for rule in (ef.RareFeatures(), ef.Best()):
        run = ef.solve(problem, ef.EF21(compressor, start=start), rule, rounds=300)
        assert run.certificate.verdict == "held"


def test_few_bits_of_selected_entries_are_counted_and_contract():
    """TopK(10) with four bits: ten indices, ten codes and a unit; alpha is the product."""
    support = full_support(2, 100)
    compressor = ef.Rounded(ef.TopK(10), ef.PowersOfTwo(4))
    assert compressor.message_bits(support).tolist() == [24 + 8 + 8 * -(-(10 * 7 + 16 + 10 * 4) // 8)] * 2
    assert compressor.alpha(support) == pytest.approx(0.1 * ef.PowersOfTwo(4).alpha(full_support(2, 10)))
    rng = np.random.default_rng(0)
    for _ in range(50):
        u = rng.standard_normal(200) * np.exp(rng.standard_normal(200))
        left = support.norms2(compressor.on(support)(u, CONTEXT).lifted() - u)
        assert (left <= (1 - compressor.alpha(support)) * support.norms2(u)).all()


def test_clients_that_answer_now_and_then_send_few_bits_too():
    """The same of every client that answers, and a unit of its own."""
    support, u = full_support(5, 9), np.random.default_rng(0).standard_normal(45)
    for inner in (ef.PowersOfTwo(4), ef.PowersOfTwo(4, block=4), ef.Rounded(ef.TopK(3), ef.Uniform(4))):
        whole = inner.on(support)(u, CONTEXT).lifted().reshape(5, 9)
        message = ef.Participating(inner, 0.5).on(support)(u, CONTEXT)
        some = message.lifted().reshape(5, 9)
        answers = message.frames.answers
        assert 0 < answers.sum() < 5
        assert np.array_equal(some[answers], whole[answers])
        assert not some[~answers].any()
        assert len(message.units) == message.frames.units.sum()


@pytest.mark.parametrize("q", [[3.5, 3.5], [1.5, 96.5], [4.5, 4.5, 7.5], [60.5] * 3])
def test_the_variance_of_qsgd_is_reached_half_way_between_levels(q):
    """The least number of levels that the norm fits: what is lost is what the unit is rounded up by."""
    q = np.array(q)
    levels = int(np.ceil(np.linalg.norm(q)))
    stated = ef.QSGD(levels).omega(full_support(1, len(q)))[0]
    assert np.linalg.norm(q) >= levels / (1 + EXCESS)  # the unit can be 1
    reached = len(q) / 4 / np.sum(q**2)
    assert reached <= stated
    assert reached > 0.9 * stated


@pytest.mark.parametrize("d", [2, 50, 400, 10_000])
def test_the_variance_of_one_level_is_reached_by_equal_entries(d):
    """Signs and zeros: q = Q/sqrt(d) each, with the variance q (1 - q)."""
    stated, q = ef.QSGD(1).omega(full_support(1, d))[0], 1 / (1 + EXCESS) / np.sqrt(d)
    assert min(stated, q * (1 - q) / q**2) == pytest.approx(stated, rel=1e-12)


@pytest.mark.parametrize(("bits", "d"), [(3, 2), (3, 50), (4, 100), (4, 20_000), (5, 1000)])
def test_the_variance_of_natural_compression_is_reached(bits, d):
    compressor = ef.Natural(bits)
    stated, top = compressor.omega(full_support(1, d))[0], compressor.coding.top
    L = top / (1 + EXCESS)
    first = (L - top / 2) * (top - L)
    candidates = np.concatenate([np.linspace(0.01, 0.99, 99), np.linspace(4 / 3, 4 / 3 * top / 2, 1), [4 / 3 * top / 2]])
    variance = [q * (1 - q) if q < 1 else q**2 / 8 for q in candidates]
    reached = max((first + (d - 1) * v) / (L**2 + (d - 1) * q**2) for q, v in zip(candidates, variance, strict=True))
    assert reached <= stated * (1 + 1e-9)
    assert reached > 0.97 * stated or d == 2


BAD = {
    "bits = 1; a value in few bits has from 2 to 24": lambda: ef.PowersOfTwo(1),
    "bits = 10; at most 8 of them are for an exponent": lambda: ef.PowersOfTwo(10),
    "bits = 25; a value in few bits": lambda: ef.Uniform(25),
    "block = 0; a block has at least one value": lambda: ef.Uniform(8, block=0),
    "each = 4.5; it must be a whole number": lambda: ef.PowersOfTwo(4.5),
    "exponent_bits = 'four'; it must be a whole number": lambda: ef.SmallFloat("four"),
    "levels = 0; it must be a whole number from 1": lambda: ef.QSGD(0),
    "bits = 2; natural compression needs 3": lambda: ef.Natural(2),
    "sends entries as they are, and PowersOfTwo": lambda: ef.Rounded(ef.PowersOfTwo(4), 16),
    "block = 8; a rounded step has one unit": lambda: ef.RoundedStep(ef.Uniform(8, block=8)),
    "EF21 needs a compressor that is contractive": lambda: ef.EF21(ef.QSGD(7)),
}


@pytest.mark.parametrize("message", BAD)
def test_impossible_configurations_are_refused_at_construction(message):
    with pytest.raises(ValueError, match=message):
        BAD[message]()
