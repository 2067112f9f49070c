"""TopShare sends the fewest numbers that hold its share, whatever the numbers are."""

from __future__ import annotations

import numpy as np
import pytest

import errorfeedback as ef
from errorfeedback.core import Round
from errorfeedback.sparsity.support import Support, full_support

SHARES = (0.05, 0.2, 0.5, 0.9, 0.999)


def sent(share, u, support):
    """A message of all clients, and each client's numbers."""
    message = ef.TopShare(share).on(support)(u, Round(0, 0))
    return message, np.split(message.lifted(), support.indptr[1:-1])


def clients(rng, n=40):
    """Segments of 1 to 300 numbers, from alike to spread over ten orders of magnitude."""
    sizes = rng.integers(1, 300, n)
    support = Support(
        indptr=np.concatenate([[0], np.cumsum(sizes)]), indices=np.concatenate([np.arange(k) for k in sizes]), d=300
    )
    spread = np.repeat(rng.uniform(0, 10, n), sizes)
    return support, rng.choice([-1, 1], support.size) * 10.0 ** (spread * -rng.random(support.size))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("share", SHARES)
def test_the_share_is_held_and_one_number_less_would_not_hold_it(share, dtype):
    support, u = clients(np.random.default_rng(0))
    u = u.astype(dtype)
    message, segments = sent(share, u, support)
    assert message.values.dtype == dtype
    for kept, whole in zip(segments, np.split(u, support.indptr[1:-1]), strict=True):
        squares, total = np.sort(kept[kept != 0].astype(np.float64) ** 2), np.square(whole, dtype=np.float64).sum()
        assert squares.sum() >= share * total * (1 - 1e-12)
        assert squares[1:].sum() < share * total * (1 + 1e-12)  # without the smallest that was sent
        assert np.abs(whole[kept == 0]).max(initial=0.0) <= np.abs(kept[kept != 0]).min()
    assert np.all(message.frames.counts <= ef.TopShare(share).most_entries(support))


def test_a_share_that_is_off_by_some_percent_is_noticed():
    """Negative control of the bounds above."""
    support, u = clients(np.random.default_rng(1))
    counts = [sent(share, u, support)[0].frames.counts.sum() for share in (0.485, 0.5, 0.515)]
    assert counts[0] < counts[1] < counts[2]


@pytest.mark.parametrize("size", [1e-170, 1.0, 1e170])
def test_squares_neither_overflow_nor_vanish(size):
    u = np.array([3.0, 4.0, 12.0])  # squares: 9, 16, 144 of 169
    assert [len(sent(share, size * u, full_support(1, 3))[0].values) for share in (0.85, 0.86, 0.95)] == [1, 2, 3]


@pytest.mark.parametrize("u", [np.zeros(4), np.array([1.0, np.nan, 2.0, 3.0]), np.array([1.0, np.inf, 2.0, 3.0])])
def test_nothing_and_what_is_not_finite_is_one_number(u):
    assert len(sent(0.5, u, full_support(1, 4))[0].values) == 1


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, np.nan])
def test_what_is_no_share_is_refused(share):
    with pytest.raises(ValueError, match=r"share = .*; the share of \|\|u\|\|\^2 that is sent is between 0 and 1"):
        ef.TopShare(share)


def test_who_may_be_absent_must_announce():
    with pytest.raises(ValueError, match=r"TopShare.* sends as many numbers as it likes, and the server could not tell"):
        ef.Participating(ef.TopShare(0.5), 0.5)
