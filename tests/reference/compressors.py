"""Compressors: functions (u, i, t) -> dense vector, where u is in R^d."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from reference.draws import draws


def keep(u, chosen, scale=1.0):
    out = np.zeros_like(u)
    for j in chosen:
        out[j] = scale * u[j]
    return out


def top_k(problem, k):
    def compress(u, i, t):
        order = sorted(problem.clients[i].J, key=lambda j: (-abs(u[j]), j))
        return keep(u, order[: k if isinstance(k, int) else k[i]])

    return compress


def top_share(problem, share):
    """The fewest of the largest entries that hold that share of the sum of all squares."""

    def compress(u, i, t):
        order = sorted(problem.clients[i].J, key=lambda j: (-abs(u[j]), j))
        squares = [u[j] ** 2 for j in order]
        fewest = next(k for k in range(1, len(order) + 1) if sum(squares[:k]) >= share * sum(squares))
        return keep(u, order[:fewest])

    return compress


def rand_k(problem, k, seed, scaled):
    def compress(u, i, t):
        J = problem.clients[i].J
        count = min(k if isinstance(k, int) else k[i], len(J))
        uniform = draws(seed, t, i)
        chosen = []
        for place, j in enumerate(J):
            if next(uniform) * (len(J) - place) < count - len(chosen):
                chosen.append(j)
            if len(chosen) == count:
                break
        return keep(u, chosen, len(J) / count if scaled else 1.0)

    return compress


def perm_k(problem, seed):
    n, d = problem.n, problem.d
    owners = [[i for i in range(n) if j in problem.clients[i].J] for j in range(d)]
    one_feature_each = n > d and all(len(own) == n for own in owners)

    def places(total, t):
        uniform = draws(seed, t, -2)
        keys = [next(uniform) for _ in range(total)]
        order = sorted(range(total), key=lambda k: keys[k])
        shift = next(draws(seed, t, -3))
        place = [0.0] * total
        for position, k in enumerate(order):
            place[k] = (position + shift) / total
        return place

    def compress(u, i, t):
        if one_feature_each:
            return keep(u, [math.floor(d * places(n, t)[i])], float(d))
        place = places(d, t)
        out = np.zeros_like(u)
        for j in problem.clients[i].J:
            if owners[j][math.floor(len(owners[j]) * place[j])] == i:
                out[j] = len(owners[j]) * u[j]
        return out

    return compress


def exact_on_common(problem, common, k):
    """The features of S0 as they are, TopK of the others."""

    def compress(u, i, t):
        J = problem.clients[i].J
        rest = sorted((j for j in J if j not in common), key=lambda j: (-abs(u[j]), j))
        return keep(u, [j for j in J if j in common] + rest[: k if isinstance(k, int) else k[i]])

    return compress


def participating(compress, p, seed):
    """Client i answers with probability p_i."""

    def sometimes(u, i, t):
        answers = next(draws(seed, t, -(2**40) - i)) < (p if isinstance(p, float) else p[i])
        return compress(u, i, t) if answers else np.zeros_like(u)

    return sometimes


def rounded(compress, bits):
    return lambda u, i, t: np.array([nearest_float(v, bits) for v in compress(u, i, t)])


def nearest_float(v, bits):
    """The nearest number with bits - 11 binary digits (ties away from zero)."""
    digits, exponent = math.frexp(abs(v))
    scale = 2.0 ** (bits - 11)
    return math.copysign(math.ldexp(math.floor(digits * scale + 0.5) / scale, exponent), v)


def powers_of_two(bits):
    return [0] + [2**k for k in range(2 ** (bits - 1) - 1)]


def equally_spaced(bits):
    return list(range(2 ** (bits - 1)))


@dataclass(frozen=True)
class small_floats(Sequence):
    """As IEEE 754 has them, without the hidden 1 at the smallest exponent: a list that may be too long to write."""

    exponent_bits: int
    mantissa_bits: int

    def __len__(self):
        return 2 ** (self.exponent_bits + self.mantissa_bits)

    def __getitem__(self, k):
        if isinstance(k, slice):
            return [self[at] for at in range(len(self))[k]]
        exponent, f = divmod(range(len(self))[k], 2**self.mantissa_bits)
        return (2**self.mantissa_bits + f) * 2 ** (exponent - 1) if exponent else f


def rounded_block(values, levels):
    """The nearest level of every entry (the larger of two), in units of the largest over the top level, rounded up to 6
    binary digits."""
    return in_units(values, unit_of(values, levels), levels)


def unit_of(values, levels):
    digits, exponent = math.frexp(max(abs(v) for v in values) / levels[-1])
    return math.ldexp(math.ceil(digits * 2**6) / 2**6, exponent)


def in_units(values, unit, levels):
    """The nearest level of every entry."""
    if unit == 0:
        return [0.0] * len(values)

    def nearest_to(q):
        k = bisect_left(levels, q)
        return min(levels[max(k - 1, 0) : k + 1], key=lambda level: (abs(q - level), -level))

    nearest = [nearest_to(abs(v) / unit) for v in values]
    return [math.copysign(level * unit, v) if level else 0.0 for level, v in zip(nearest, values, strict=True)]


def few_bits(problem, levels, block):
    """Every block of a client's entries in a unit of its own."""

    def compress(u, i, t):
        J, out = problem.clients[i].J, np.zeros_like(u)
        for lo in range(0, len(J), block or len(J)):
            part = J[lo : lo + (block or len(J))]
            out[part] = rounded_block([u[j] for j in part], levels)
        return out

    return compress


def drawn(problem, levels, reach, by_norm, seed, block):
    """The level below or above every entry, at random so that the mean is right; in units of the block's norm (or largest)
    over `reach`, rounded up to 6 binary digits."""

    def compress(u, i, t):
        J, out, uniform = problem.clients[i].J, np.zeros_like(u), draws(seed, t, i)
        for lo in range(0, len(J), block or len(J)):
            part = J[lo : lo + (block or len(J))]
            largest = max(abs(u[j]) for j in part)
            size = largest * math.sqrt(sum((u[j] / largest) ** 2 for j in part)) if by_norm and largest else largest
            digits, exponent = math.frexp(size / reach)
            unit = math.ldexp(math.ceil(digits * 2**6) / 2**6, exponent)
            for j in part:
                q, draw = abs(u[j]) / unit if unit else 0.0, next(uniform)
                below = max(level for level in levels if level <= q)
                above = min((level for level in levels if level > q), default=below + 1)
                level = above if draw * (above - below) < q - below else below
                out[j] = math.copysign(level * unit, u[j]) if level else 0.0
        return out

    return compress


def one_after_the_other(first, then):
    return lambda u, i, t: then(first(u, i, t), i, t)


def identity(u, i, t):
    return u
