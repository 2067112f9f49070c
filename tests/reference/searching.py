"""Rules that refuse steps, directions with a memory, steps in few bits."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from reference.compressors import few_bits, in_units, nearest_float, powers_of_two, rounded_block, small_floats, unit_of
from reference.kinked import lowest, shortest_subgradient
from reference.methods import mean
from reference.problems import Reference


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


def unlike(v, others):
    """The residual of least squares."""
    if not others:
        return v
    units = np.array([each / np.linalg.norm(each) for each in others]).T
    return v - units @ np.linalg.lstsq(units, v, rcond=None)[0]


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

    def learn(self, x, g, accepted=False):
        s, y = x - self.x, g - self.g
        if self.memory and s @ y > 1e-8 * np.linalg.norm(s) * np.linalg.norm(y):
            self.pairs = [*self.pairs, (s, y)][-self.memory :]
            self.scale = (s @ y) / (y @ (y if self.metric is None else self.metric @ y))
            if accepted and self.metric is None:
                self.scale = self.new_length(s, y)

    def new_length(self, s, y):
        """Of what is new in y beside the y of the older pairs."""
        older, least = [each for _, each in self.pairs[:-1]], (s @ y) / (y @ y)
        kept = []
        for each in reversed(older):
            if np.linalg.norm(unlike(each, kept)) > 1e-3 * np.linalg.norm(each):
                kept.append(each)
        r = unlike(y, kept)
        if np.linalg.norm(r) <= 1e-3 * np.linalg.norm(y) or s @ r <= 0:
            return least
        return min(max((s @ r) / (r @ r), least), (s @ s) / (s @ y))

    def accept(self, x, g):
        if self.x is not None and np.array_equal(x, self.x):  # everybody has stood: the pairs led nowhere
            self.pairs, self.scale = [], None if self.scale is None else self.scale / 4
        elif self.x is not None:
            self.learn(x, g, accepted=True)
        self.x, self.g = x, g

    def aim(self, x, l1):
        """Away from where the model is lowest."""
        if not l1:
            return self.H() @ self.g
        B = self.B()
        return shortest_subgradient(x, self.g, l1) if B is None else x - lowest(x, self.g, B, l1)

    def B(self):
        """None: nothing is known."""
        return None if self.scale is None else direct_bfgs(self.pairs, np.linalg.inv(self.H0()))


def whole_step(s, B):
    return s


def one_unit(levels):
    """A step in one unit for all of its entries."""
    return lambda s, B: np.array(rounded_block(s, levels))


COARSE_TO_FINE = [(4, 0), (5, 1), (6, 2), (7, 3), (8, 3), (10, 5), (12, 7), (16, 9), (24, 17)]
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


@dataclass
class FittedZeros(FittedSteps):
    """Steps that end at 0 where -x would be told as the same, in the coarsest of these in which the model falls by all but
    that share."""

    def __call__(self, s, B, x, g, l1):
        def rise(s):
            return g @ s + s @ B @ s / 2 + l1 * (np.abs(x + s) - np.abs(x)).sum()

        for self.bits, digits in COARSE_TO_FINE:
            taken = ending_at_zero(s, x, small_floats(self.bits - 1 - digits, digits))
            if B is None and (taken - s) @ (taken - s) <= self.share * s @ s:
                break
            if B is not None and rise(taken) <= (1 - self.share) * rise(s):
                break
        return taken


def ending_at_zero(s, x, levels):
    """-x is told in the unit of s, as far as its levels go."""
    unit = unit_of(s, levels)
    if not unit:
        return np.zeros_like(s)
    taken, back = (np.array(in_units(v, unit, levels)) for v in (s, -x))
    return np.where((taken == back) & (np.abs(x) <= levels[-1] * unit), -x, taken)


def fitted_answer(problem, steps, block):
    """4 bits an entry after a step in at most 6 bits, 8 bits in at most 8, 16 in at most 16, 24 in more."""
    levels = {6: powers_of_two(4), 8: small_floats(4, 3), 16: small_floats(6, 9), 24: small_floats(6, 17)}
    answers = {bits: few_bits(problem, those, block) for bits, those in levels.items()}

    def compress(u, i, t):
        return answers[min(bits for bits in answers if steps.bits <= bits)](u, i, t)

    return compress


def armijo(problem, x, rounds, C, memory, down, l2=0.0, floor=0.0, curvature=None, silent=frozenset(), kept_pairs=2, l1=0.0):  # noqa: PLR0915  (a literal account)
    """EF21 from compressed gradients; a quasi-Newton step is taken where F falls by 1e-4 of what was promised, undone
    otherwise and tried again at most half as long (a tenth where F is far off); everybody stands after the third
    refusal. After a refusal no step is longer than four times the last accepted one, until one is accepted that is
    shorter than nine tenths of that. Yields (x, F, accepted) where the clients answer. `curvature(t, x)`: H0 where clients
    are asked for their Hessians (`HessianEstimates`), or None; `kept_pairs` outlive it. Clients that are `silent`, (t, i),
    change by <g_i, step> and by what those who tell at both its ends change beyond that, on average; so does, over the
    step, one that was silent where it began. With l1 steps lead to the lowest point of the model beside l1 ||x||_1 (down the
    shortest subgradient where nothing is known), and what they promise is <g, s> + l1 (||x + s||_1 - ||x||_1)."""
    n, around = problem.n, (lambda: (kept, secant.g, l1)) if l1 else tuple
    losses, there = [0.0] * n, [True] * n  # at the last accepted point
    clients = kept_clients = [np.zeros_like(x) for _ in range(n)]
    secant, gamma, refusals, step = Secant(memory), None, 0, None
    longest, refused = math.inf, False  # what a step may be; whether one from this x was refused
    best = kept = newest = None  # F and x at the last accepted point; an H0 for the next one
    for t in range(rounds + 1):
        now = [(t, i) not in silent for i in range(n)]
        guess = [losses[i] + (0.0 if step is None else clients[i] @ step) for i in range(n)]
        both, back = ([i for i in range(n) if now[i] and there[i] is known] for known in (True, False))
        told = [problem.value_i(i, x) for i in range(n)]
        rest = mean([told[i] - guess[i] for i in both] or [0.0])
        here = [told[i] if now[i] else guess[i] + rest for i in range(n)]
        sent = [C(problem.gradient_i(i, x) - clients[i], i, t) if now[i] else np.zeros_like(x) for i in range(n)]
        clients = [clients[i] + sent[i] for i in range(n)]
        g, value = mean(clients) + l2 * x, mean(here) + l2 / 2 * x @ x + l1 * np.abs(x).sum()
        news = mean(sent) - mean([sent[i] for i in both] or [0 * x])
        surprise = sum(told[i] - guess[i] - rest for i in back) / n
        before = math.nan if best is None else best + surprise if both else -math.inf
        asked = None if curvature is None else curvature(t, x)
        newest = newest if asked is None else asked
        slope = 0.0 if step is None else step @ secant.g + l1 * (np.abs(x) - np.abs(kept)).sum()
        accepted = step is None or value <= before + 1e-4 * min(slope, 0.0) + 16 * 2.0**-52 * abs(best)
        yield x, value, accepted
        if accepted:
            stands = step is None and t > 0
            secant.g = None if secant.g is None else secant.g + news
            secant.accept(x, g)
            if newest is not None:
                secant.scale = secant.scale if stands and secant.metric is not None else 1.0
                secant.metric, newest = newest, None
                secant.pairs = secant.pairs[-kept_pairs:] if kept_pairs else []
            direction = secant.aim(x, l1)
            if step is not None:
                length = np.linalg.norm(step)
                longest = 4 * length if refused or length >= 0.9 * longest else math.inf if length else longest
                refused = False
            if secant.scale is not None:
                gamma = min(1.0, longest / np.linalg.norm(direction))
            elif gamma is None:
                gamma = (value - floor) / (4 * (direction if l1 else g) @ direction)
            else:
                gamma = min(gamma if stands else 2 * gamma, longest / np.linalg.norm(direction))
            best, kept, kept_clients, refusals, losses, there = value, x, clients, 0, here, now
        else:
            if np.linalg.norm(g - news) <= 1e4 * np.linalg.norm(secant.g):
                secant.learn(x, g - news)
            cut = 0.5 if value - before <= 1e3 * abs(slope) else 0.1
            longest, refused = min(longest, cut * np.linalg.norm(step)), True
            direction, clients, x = secant.aim(kept, l1), kept_clients, kept
            if refusals == 2:
                gamma, refusals, step = gamma / 4, 0, None
                down(np.zeros_like(x), None, *around())  # nobody moves
                continue
            own = gamma if secant.scale is None else 1.0
            gamma, refusals = min(own, longest / np.linalg.norm(direction)), refusals + 1
        step = down(-gamma * direction, secant.B(), *around())
        x = x + step


@dataclass
class HessianEstimates:
    """H_i, the upper triangles of every client's estimate in few bits an entry (levels), and the server's H0 from them."""

    problem: Reference
    levels: list
    l2: float
    rounds: set
    silent: set = frozenset()
    """(t, i): who sends nothing."""
    believed: float = 1e-12
    """The smallest eigenvalue that is, as a share of the largest."""

    def __post_init__(self):
        self.missing = [None] * self.problem.n  # None: has never told
        self.H = [np.zeros((self.problem.d, self.problem.d)) for _ in range(self.problem.n)]

    def __call__(self, t, x):
        if t not in self.rounds:
            return None
        n, d = self.problem.n, self.problem.d
        self.missing = missing = [self.missing[i] if (t, i) in self.silent else self.track(i, x) for i in range(n)]
        owners = [[i for i, c in enumerate(self.problem.clients) if j in c.J] for j in range(d)]
        tellers = [[i for i in owners[j] if missing[i] is not None] for j in range(d)]
        times = [len(owners[j]) / len(tellers[j]) if tellers[j] else 0.0 for j in range(d)]
        error2 = [sum(len(self.problem.clients[i].J) * missing[i] ** 2 for i in tellers[j]) for j in range(d)]
        lam = 2 * max(times[j] * math.sqrt(error2[j]) for j in range(d)) / n
        D = np.diag(np.sqrt(times))
        P = D @ mean(self.H) @ D
        for j in range(d):
            if not tellers[j]:
                P[j, j] = np.median([P[k, k] for k in range(d) if tellers[k]])
        values, V = np.linalg.eigh(P + (self.l2 + lam) * np.eye(d))
        values = np.maximum(values, max(lam, self.believed * max(values)))
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
