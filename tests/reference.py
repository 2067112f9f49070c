"""The paper literally: dense vectors, one client at a time, no cleverness. The oracle of the library's tests.

Nothing here imports errorfeedback. A problem is a list of clients; a client is its dense rows, its targets and its
features J_i. A compressor is a function (u, i, t) -> dense vector, where u is in R^d_i.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

MASK = 2**64 - 1


# --- problems ------------------------------------------------------------------------------------------------------


@dataclass
class Client:
    A: np.ndarray  # (m, d)
    b: np.ndarray  # (m,)
    J: list[int] = field(default_factory=list)

    def __post_init__(self):
        self.J = [j for j in range(self.A.shape[1]) if np.any(self.A[:, j] != 0)]


@dataclass
class Reference:
    """f(x) = (1/n) sum_i f_i(x) with the squared, the logistic or the softmax loss and lam * sum_{J_i} x^2/(1 + x^2).

    With the softmax loss b is the number of the class, and number j q + k of x is the weight of feature j for class k of q.
    """

    clients: list[Client]
    loss: str
    lam: float = 0.0
    outputs: int = 1

    def __post_init__(self):
        for client in self.clients:
            client.J = [j * self.outputs + k for j in client.J for k in range(self.outputs)]

    @property
    def n(self):
        return len(self.clients)

    @property
    def d(self):
        return self.clients[0].A.shape[1] * self.outputs

    def value(self, x):
        total = 0.0
        for client in self.clients:
            z = client.A @ (x if self.outputs == 1 else x.reshape(-1, self.outputs))
            if self.loss == "softmax":
                total += np.mean(
                    [math.log(sum(math.exp(s - r[int(b)]) for s in r)) for b, r in zip(client.b, z, strict=True)]
                )
            elif self.loss == "squared":
                total += np.mean((z - client.b) ** 2)
            else:
                total += np.mean([math.log1p(math.exp(-y * s)) for y, s in zip(client.b, z, strict=True)])
            total += self.lam * sum(x[j] ** 2 / (1 + x[j] ** 2) for j in client.J)
        return total / self.n

    def gradient_i(self, i, x):
        client = self.clients[i]
        z = client.A @ (x if self.outputs == 1 else x.reshape(-1, self.outputs))
        if self.loss == "softmax":
            slope = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
            for row, b in enumerate(client.b):
                slope[row, int(b)] -= 1.0
        else:
            slope = 2 * (z - client.b) if self.loss == "squared" else -client.b / (1 + np.exp(client.b * z))
        g = (client.A.T @ slope).ravel() / len(client.b)
        for j in client.J:
            g[j] += self.lam * 2 * x[j] / (1 + x[j] ** 2) ** 2
        return g

    def gradient(self, x):
        return sum(self.gradient_i(i, x) for i in range(self.n)) / self.n


# --- keyed random numbers: SplitMix64 -------------------------------------------------------------------------------


def mix(z):
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


GOLDEN = 0x9E3779B97F4A7C15


def draws(seed, t, number):
    """Uniform numbers in [0, 1) keyed by (seed, round, number)."""
    state = mix((seed + GOLDEN) & MASK)
    state = mix(state ^ ((t + GOLDEN) & MASK))
    state = mix(state ^ ((number + GOLDEN) & MASK))
    while True:
        state = (state + GOLDEN) & MASK
        yield (mix(state) >> 11) * 2.0**-53


# --- compressors ---------------------------------------------------------------------------------------------------

Compress = Callable[[np.ndarray, int, int], np.ndarray]


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
    """Values with bits - 11 binary digits, the nearest (ties away from zero)."""

    def nearest(v):
        digits, exponent = math.frexp(abs(v))
        scale = 2.0 ** (bits - 11)
        return math.copysign(math.ldexp(math.floor(digits * scale + 0.5) / scale, exponent), v)

    return lambda u, i, t: np.array([nearest(v) for v in compress(u, i, t)])


def powers_of_two(bits):
    return [0] + [2**k for k in range(2 ** (bits - 1) - 1)]


def equally_spaced(bits):
    return list(range(2 ** (bits - 1)))


def small_floats(exponent_bits, mantissa_bits):
    """As IEEE 754 has them: without the hidden 1 at the smallest exponent."""
    small = list(range(2**mantissa_bits))
    return small + [(2**mantissa_bits + f) * 2**e for e in range(2**exponent_bits - 1) for f in range(2**mantissa_bits)]


def few_bits(problem, levels, block):
    """The nearest level of every entry (the larger of two), in units of the block's largest over the top level, rounded up
    to 6 binary digits."""

    def rounded_block(values):
        digits, exponent = math.frexp(max(abs(v) for v in values) / max(levels))
        unit = math.ldexp(math.ceil(digits * 2**6) / 2**6, exponent)
        if unit == 0:
            return [0.0] * len(values)
        nearest = [min(levels, key=lambda level: (abs(abs(v) / unit - level), -level)) for v in values]
        return [math.copysign(level * unit, v) if level else 0.0 for level, v in zip(nearest, values, strict=True)]

    def compress(u, i, t):
        J, out = problem.clients[i].J, np.zeros_like(u)
        for lo in range(0, len(J), block or len(J)):
            part = J[lo : lo + (block or len(J))]
            out[part] = rounded_block([u[j] for j in part])
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


# --- methods: each yields x^0, x^1, ... -------------------------------------------------------------------------------


def mean(vectors):
    return sum(vectors) / len(vectors)


def dgd(problem, x, gamma, rounds):
    return dcgd(problem, x, gamma, rounds, identity)


def dcgd(problem, x, gamma, rounds, C):
    yield x
    for t in range(rounds):
        x = x - gamma * mean([C(problem.gradient_i(i, x), i, t) for i in range(problem.n)])
        yield x


def ef14(problem, x, gamma, rounds, C):
    e = [np.zeros_like(x) for _ in range(problem.n)]
    yield x
    for t in range(rounds):
        grads = [problem.gradient_i(i, x) for i in range(problem.n)]
        v = [C(e[i] + gamma * grads[i], i, t) for i in range(problem.n)]
        e = [e[i] + gamma * grads[i] - v[i] for i in range(problem.n)]
        x = x - mean(v)
        yield x


def ef21(problem, x, gamma, rounds, C, start):
    """Algorithm 1."""
    first = {"gradient": identity, "compressed": C}.get(start, lambda u, i, t: np.zeros_like(u))
    g = [first(problem.gradient_i(i, x), i, 0) for i in range(problem.n)]
    direction = problem.gradient(x) if start == "authors" else mean(g)
    yield x
    for t in range(rounds):
        x = x - gamma * direction
        g = [g[i] + C(problem.gradient_i(i, x) - g[i], i, t + 1) for i in range(problem.n)]
        direction = mean(g)
        yield x


def ef21_bc(problem, x, gamma, rounds, C, m):
    """EF21 with a server that sends the m largest entries of what is missing from w (Fatkhullin et al. 2021)."""
    g, w = [np.zeros_like(x) for _ in range(problem.n)], np.zeros_like(x)
    yield x
    for t in range(rounds):
        missing = mean(g) - w
        largest = sorted(range(len(x)), key=lambda j: (-abs(missing[j]), j))[:m]
        w = w + np.array([missing[j] if j in largest else 0.0 for j in range(len(x))])
        x = x - gamma * w
        g = [g[i] + C(problem.gradient_i(i, x) - g[i], i, t + 1) for i in range(problem.n)]
        yield x


def marina(problem, x, gamma, rounds, C, p, seed):
    g = problem.gradient(x)
    yield x
    for t in range(rounds):
        old = x
        x = x - gamma * g
        if next(draws(seed, t + 1, -1)) < p:
            g = problem.gradient(x)
        else:
            g = g + mean([C(problem.gradient_i(i, x) - problem.gradient_i(i, old), i, t + 1) for i in range(problem.n)])
        yield x
