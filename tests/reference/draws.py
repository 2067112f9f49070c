"""Keyed random numbers: SplitMix64 in Python's own integers."""

from __future__ import annotations

MASK = 2**64 - 1


def mix(z):
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


GOLDEN = 0x9E3779B97F4A7C15


def some_rows(count, size, seed, t, i):
    """`size` of the rows of client i (all where it has fewer) in round t: each is taken with the chance that is left."""
    uniform, chosen = draws(seed, t, -(2**42) + i), []
    for row in range(count):
        if next(uniform) * (count - row) < min(size, count) - len(chosen):
            chosen.append(row)
    return chosen


def draws(seed, t, number):
    """Uniform numbers in [0, 1) keyed by (seed, round, number)."""
    state = mix((seed + GOLDEN) & MASK)
    state = mix(state ^ ((t + GOLDEN) & MASK))
    state = mix(state ^ ((number + GOLDEN) & MASK))
    while True:
        state = (state + GOLDEN) & MASK
        yield (mix(state) >> 11) * 2.0**-53
