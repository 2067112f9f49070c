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
                total += np.mean([np.logaddexp(0.0, -y * s) for y, s in zip(client.b, z, strict=True)])
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


def small_floats(exponent_bits, mantissa_bits):
    """As IEEE 754 has them: without the hidden 1 at the smallest exponent."""
    small = list(range(2**mantissa_bits))
    return small + [(2**mantissa_bits + f) * 2**e for e in range(2**exponent_bits - 1) for f in range(2**mantissa_bits)]


def rounded_block(values, levels):
    """The nearest level of every entry (the larger of two), in units of the largest over the top level, rounded up to 6
    binary digits."""
    digits, exponent = math.frexp(max(abs(v) for v in values) / max(levels))
    unit = math.ldexp(math.ceil(digits * 2**6) / 2**6, exponent)
    if unit == 0:
        return [0.0] * len(values)
    nearest = [min(levels, key=lambda level: (abs(abs(v) / unit - level), -level)) for v in values]
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


# --- rules that refuse steps, directions with a memory, steps in few bits -----------------------------------------------


def bfgs(pairs, H0):
    """The inverse Hessian of the textbook (Nocedal and Wright, 6.17), the oldest pair first."""
    H, eye = H0, np.eye(len(H0))
    for s, y in pairs:
        rho = 1 / (s @ y)
        V = eye - rho * np.outer(y, s)
        H = V.T @ H @ V + rho * np.outer(s, s)
    return H


def direct_bfgs(pairs, B0):
    """The Hessian itself (Nocedal and Wright, 6.19)."""
    B = B0
    for s, y in pairs:
        B = B - np.outer(B @ s, B @ s) / (s @ B @ s) + np.outer(y, y) / (s @ y)
    return B


@dataclass
class Secant:
    """H, from the last pairs between accepted points and from there to refused ones (memory = 0: the identity, always);
    `metric`: None for the identity."""

    memory: int
    x: np.ndarray | None = None
    g: np.ndarray | None = None
    pairs: list = field(default_factory=list)
    scale: float | None = None
    metric: np.ndarray | None = None

    def H0(self):
        H0 = np.eye(len(self.x)) if self.metric is None else self.metric
        return H0 if self.scale is None else self.scale * H0

    def H(self):
        return bfgs(self.pairs, self.H0())

    def learn(self, x, g):
        s, y = x - self.x, g - self.g
        if self.memory and s @ y > 1e-8 * np.linalg.norm(s) * np.linalg.norm(y):
            self.pairs = [*self.pairs, (s, y)][-self.memory :]
            self.scale = (s @ y) / (y @ (y if self.metric is None else self.metric @ y))

    def accept(self, x, g):
        if self.x is not None and np.array_equal(x, self.x):  # everybody has stood: the pairs led nowhere
            self.pairs, self.scale = [], None if self.scale is None else self.scale / 4
        elif self.x is not None:
            self.learn(x, g)
        self.x, self.g = x, g

    def B(self):
        """None: nothing is known."""
        return None if self.scale is None else direct_bfgs(self.pairs, np.linalg.inv(self.H0()))


def whole_step(s, B):
    return s


def one_unit(levels):
    """A step in one unit for all of its entries."""
    return lambda s, B: np.array(rounded_block(s, levels))


COARSE_TO_FINE = [(4, 0), (5, 1), (6, 2), (7, 3), (8, 3), (10, 5), (12, 7), (16, 9)]
"""Bits of a value on its way down, and how many of them are digits; one is the sign."""


@dataclass
class FittedSteps:
    """The coarsest of these that costs at most that share of what the step promises; `bits`: of the last step."""

    share: float
    bits: int = 0

    def __call__(self, s, B):
        B = np.eye(len(s)) if B is None else B
        for self.bits, digits in COARSE_TO_FINE:
            taken = one_unit(small_floats(self.bits - 1 - digits, digits))(s, B)
            if (taken - s) @ B @ (taken - s) <= self.share * s @ B @ s:
                break
        return taken


def fitted_answer(problem, steps, block):
    """4 bits an entry after a step in at most 6 bits, 8 bits in at most 8, 16 in more."""
    coarse, fine, finest = (
        few_bits(problem, levels, block) for levels in (powers_of_two(4), small_floats(4, 3), small_floats(6, 9))
    )
    return lambda u, i, t: (coarse if steps.bits <= 6 else fine if steps.bits <= 8 else finest)(u, i, t)


def armijo(problem, x, rounds, C, memory, down, l2=0.0, floor=0.0, curvature=None):
    """EF21 from compressed gradients; a quasi-Newton step is taken where F falls by 1e-4 of what was promised, undone
    otherwise and tried again at most half as long; everybody stands after the third refusal. Yields (x, F, accepted) where
    the clients answer. `curvature(t, x)`: H0 where clients are asked for their Hessians (`HessianEstimates`), or None."""
    n = problem.n
    F = lambda x: problem.value(x) + l2 / 2 * x @ x  # noqa: E731
    clients = kept_clients = [np.zeros_like(x) for _ in range(n)]
    secant, gamma, refusals, step = Secant(memory), None, 0, None
    best = kept = newest = None  # F and x at the last accepted point; an H0 for the next one
    for t in range(rounds + 1):
        clients = [clients[i] + C(problem.gradient_i(i, x) - clients[i], i, t) for i in range(n)]
        g, value = mean(clients) + l2 * x, F(x)
        asked = None if curvature is None else curvature(t, x)
        newest = newest if asked is None else asked
        accepted = step is None or value <= best + 1e-4 * min(step @ secant.g, 0.0) + 16 * 2.0**-52 * abs(best)
        yield x, value, accepted
        if accepted:
            stands = step is None and t > 0
            secant.accept(x, g)
            if newest is not None:
                secant.scale = secant.scale if stands and secant.metric is not None else 1.0
                secant.metric, secant.pairs, newest = newest, [], None
            direction = secant.H() @ g
            if secant.scale is not None:
                gamma = 1.0
            elif gamma is None:
                gamma = (value - floor) / (4 * g @ direction)
            elif not stands:
                gamma *= 2
            best, kept, kept_clients, refusals = value, x, clients, 0
        else:
            secant.learn(x, g)
            direction, clients, x = secant.H() @ secant.g, kept_clients, kept
            if refusals == 2:
                gamma, refusals, step = gamma / 4, 0, None
                down(np.zeros_like(x), None)  # nobody moves
                continue
            half = np.linalg.norm(step) / np.linalg.norm(direction) / 2
            gamma, refusals = min(gamma if secant.scale is None else 1.0, half), refusals + 1
        step = down(-gamma * direction, secant.B())
        x = x + step


@dataclass
class HessianEstimates:
    """H_i, the upper triangles of every client's estimate in few bits an entry (levels), and the server's H0 from them."""

    problem: Reference
    levels: list
    l2: float
    rounds: set

    def __post_init__(self):
        self.H = [np.zeros((self.problem.d, self.problem.d)) for _ in range(self.problem.n)]

    def __call__(self, t, x):
        if t not in self.rounds:
            return None
        n, d = self.problem.n, self.problem.d
        missing = [self.track(i, x) for i in range(n)]
        error2 = [sum(len(c.J) * missing[i] ** 2 for i, c in enumerate(self.problem.clients) if j in c.J) for j in range(d)]
        lam = 2 * math.sqrt(max(error2)) / n
        values, V = np.linalg.eigh(mean(self.H) + (self.l2 + lam) * np.eye(d))
        values = np.maximum(values, max(lam, 1e-12 * max(values)))
        return V @ np.diag(1 / values) @ V.T

    def track(self, i, x):
        """Client i's message; the root mean square of what it leaves, in 16 bits."""
        client, H = self.problem.clients[i], self.H[i]
        where = [(j, k) for j in client.J for k in client.J if j <= k]
        truth = hessian_i(self.problem, i, x)
        for (j, k), change in zip(where, rounded_block([truth[at] - H[at] for at in where], self.levels), strict=True):
            H[j, k] += change
            H[k, j] = H[j, k]
        return nearest_float(math.sqrt(np.mean([(truth[at] - H[at]) ** 2 for at in where])), 16)


def hessian_i(problem, i, x):
    client = problem.clients[i]
    z = client.A @ x
    bend = np.full(len(z), 2.0) if problem.loss == "squared" else 1 / (2 + np.exp(z) + np.exp(-z))
    return client.A.T @ np.diag(bend / len(z)) @ client.A
