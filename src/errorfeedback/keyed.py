"""Random numbers keyed by (seed, round, number): a draw depends on nothing else, so every engine draws the same.

The generator is SplitMix64 (Steele, Lea, Flood 2014): the state walks in steps of the golden ratio, the output is
a bijective mix of the state. `stream` hashes the three keys into a starting state.
"""

from __future__ import annotations

import numba
import numpy as np

from errorfeedback.core import Floats

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
