"""Random numbers keyed by (seed, round, number): a draw depends on nothing else, so every engine draws the same.

The generator is SplitMix64 (Steele, Lea, Flood 2014): the state walks in steps of the golden ratio, the output is
a bijective mix of the state. `stream` hashes the three keys into a starting state.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from errorfeedback.core import Floats, Integers, Sample

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
COIN = -1
"""The number of the stream that all clients and the server share in a round."""


@numba.njit(cache=True, inline="always")
def mix(z: np.uint64) -> np.uint64:
    """SplitMix64's output function."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@numba.njit(cache=True)
def stream(seed: int, t: int, number: int) -> np.uint64:
    """The state from which the draws of (seed, t, number) start."""
    state = mix(np.uint64(seed) + GOLDEN)
    state = mix(state ^ (np.uint64(t) + GOLDEN))
    return mix(state ^ (np.uint64(number) + GOLDEN))


@numba.njit(cache=True, inline="always")
def unit(state: np.uint64) -> float:
    """The uniform number in [0, 1) that belongs to a state (53 bits)."""
    return np.float64(mix(state) >> np.uint64(11)) * 2.0**-53


@numba.njit(cache=True)
def uniform(seed: int, t: int, number: int) -> float:
    """One uniform number in [0, 1)."""
    return unit(stream(seed, t, number) + GOLDEN)


@numba.njit(cache=True)
def uniforms(seed: int, t: int, number: int, out: Floats) -> None:
    """Fill `out` with uniform numbers in [0, 1)."""
    state = stream(seed, t, number)
    for k in range(out.size):
        state += GOLDEN
        out[k] = unit(state)


@numba.njit(cache=True)
def choose(seed: int, t: int, first: int, indptr: Integers, ends: Integers, positions: Integers) -> None:
    """ends[i + 1] - ends[i] positions of every segment i, by selection sampling (Knuth, Algorithm 3.4.2 S), ascending.
    Segment i draws from the stream first + i."""
    for i in range(len(indptr) - 1):
        state = stream(seed, t, first + i)
        at = ends[i]
        for p in range(indptr[i], indptr[i + 1]):
            state += GOLDEN
            if unit(state) * (indptr[i + 1] - p) < ends[i + 1] - at:
                positions[at] = p
                at += 1
                if at == ends[i + 1]:
                    break


@numba.njit(cache=True, nogil=True)
def toss(seed: int, t: int, number: int, p: Floats, heads: NDArray[np.bool_]) -> None:
    """A coin for every i that falls on heads with probability p[i], from the stream number - i."""
    for i in range(len(p)):
        heads[i] = uniform(seed, t, number - i) < p[i]


SAMPLES, DRAWS = -(2**42), 2**40
"""Rows of client i are chosen from the stream SAMPLES + i; a later sample of the same round counts as a far later round."""


def sampled_rows(sample: Sample, rows: Integers, first: int) -> tuple[Integers, Integers]:
    """The rows of a sample, ascending, where the client first + i has the rows rows[i]:rows[i+1]; and where each client's
    begin among them."""
    ends = np.concatenate([[0], np.cumsum(np.minimum(np.diff(rows), sample.size))])
    chosen = np.empty(ends[-1], dtype=np.int64)
    ctx = sample.ctx
    choose(ctx.seed, ctx.t + DRAWS * sample.draw, SAMPLES + first, rows.astype(np.int64), ends, chosen)
    return chosen, ends
