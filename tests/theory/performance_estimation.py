"""Performance estimation (Drori and Teboulle 2014; Taylor, Hendrickx, Glineur 2017): the exact worst case of a method over
*all* L-smooth functions, as a semidefinite program.

What a run visits are points x_t, gradients and values. All but the values are linear in a few vectors, and everything that
matters is linear in the values F and the Gram matrix G of those vectors. A function with these values and gradients exists
exactly where, for all pairs (Taylor et al., Theorem 4; mu = -L: any L-smooth function, mu = 0: convex ones),

    f_i >= f_j + <g_j, x_i - x_j> + (|g_i - g_j|^2/L + mu |x_i - x_j|^2 - 2 (mu/L) <g_i - g_j, x_i - x_j>) / (2 (1 - mu/L)).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy import sparse


@dataclass
class Worst:
    """maximise <objective, (F, G)> over values F and Gram matrices G of `vectors` vectors, under what is required."""

    values: int
    vectors: int
    required: list = field(default_factory=list)
    """(a, B, b): <a, F> + <B, G> <= b."""

    def require(self, a, B, at_most=0.0):
        self.required.append((a, B, at_most))

    def function(self, points, L, mu):
        """An L-smooth function has these (x, gradient, value)."""
        for i, (x_i, g_i, f_i) in enumerate(points):
            for j, (x_j, g_j, f_j) in enumerate(points):
                if i != j:
                    dx, dg = x_i - x_j, g_i - g_j
                    curved = inner(dg, dg) / L + mu * inner(dx, dx) - 2 * mu / L * inner(dg, dx)
                    self.require(f_j - f_i, inner(g_j, dx) + curved / (2 * (1 - mu / L)))

    def above_zero(self, points, L):
        """It is nowhere below 0: at x - g/L it is at most f - |g|^2/(2 L)."""
        for _, g, f in points:
            self.require(-f, inner(g, g) / (2 * L))

    def value(self, a, B, solver):
        """The maximum."""
        entries = self.vectors * (self.vectors + 1) // 2
        rows = np.array([_flat(a, B) for a, B, _ in self.required])
        gram = np.hstack([np.zeros((entries, self.values)), -np.eye(entries)])
        settings = solver.DefaultSettings()
        settings.verbose = False
        cones = [solver.NonnegativeConeT(len(rows)), solver.PSDTriangleConeT(self.vectors)]
        size = self.values + entries
        right = np.concatenate([[b for *_, b in self.required], np.zeros(entries)])
        matrix = sparse.csc_matrix(np.vstack([rows, gram]))
        solved = solver.DefaultSolver(sparse.csc_matrix((size, size)), -_flat(a, B), matrix, right, cones, settings).solve()
        apart = abs(solved.obj_val - solved.obj_val_dual) / max(1.0, abs(solved.obj_val))
        assert str(solved.status) in ("Solved", "AlmostSolved"), solved.status
        assert apart <= 1e-6
        return -solved.obj_val


def inner(u, v):
    """<u, v> as a matrix that G is multiplied with."""
    return (np.outer(u, v) + np.outer(v, u)) / 2


def _flat(a, B):
    """F, then the upper triangle of G column by column; off the diagonal times sqrt(2), as the cone wants it."""
    scaled = np.where(np.eye(len(B), dtype=bool), B, np.sqrt(2) * B)
    return np.concatenate([a, [scaled[i, j] for j in range(len(B)) for i in range(j + 1)]])


def descent(N, gamma, L, mu, solver):
    """Gradient descent. Convex (mu = 0): the largest f(x_N) - f* from |x_0 - x*| <= 1. Else: the largest least squared
    gradient norm of x_0, ..., x_N from f(x_0) - f* <= 1."""
    e, F = np.eye(N + 2), np.eye(N + 2)
    x, grads, points = e[0], e[1:], []
    for t in range(N + 1):
        points.append((x, grads[t], F[t]))
        x = x - gamma * grads[t]
    worst, nothing = Worst(N + 2, N + 2), np.zeros((N + 2, N + 2))
    if mu == 0:
        worst.function([*points, (0 * x, 0 * x, 0 * F[0])], L, mu)
        worst.require(0 * F[0], inner(e[0], e[0]), 1.0)
        worst.require(F[N + 1], nothing, 1.0)  # a value that nobody uses
        return worst.value(F[N], nothing, solver)
    worst.function(points, L, mu)
    worst.above_zero(points, L)
    worst.require(F[0], nothing, 1.0)
    for g in grads:
        worst.require(F[N + 1], -inner(g, g))  # F[N + 1] is the least of them
    return worst.value(F[N + 1], nothing, solver)


def error_feedback(N, gamma, alpha, weight, L, solver):
    """EF21 with one client and *any* contractive compressor on *any* L-smooth f, from Psi^0 = f - f* + weight |g - grad f|^2
    <= 1: the largest Psi^1 - Psi^0 + (gamma/2)|grad f(x_0)|^2, and the largest mean of |grad f(x_t)|^2, t < N."""
    size = 2 * N + 2
    e, F = np.eye(size), np.eye(N + 1)
    x, g, points, errors = np.zeros(size), e[0], [], []
    worst = Worst(N + 1, size)
    for t in range(N + 1):
        grad = e[1 + t]
        if t:
            missing, sent = grad - g, e[1 + N + t]
            rest = missing - sent
            worst.require(0 * F[0], inner(rest, rest) - (1 - alpha) * inner(missing, missing))
            g = g + sent
        points.append((x, grad, F[t]))
        errors.append(weight * inner(g - grad, g - grad))
        x = x - gamma * g
    worst.function(points, L, -L)
    worst.above_zero(points, L)
    worst.require(F[0], errors[0], 1.0)
    rise = worst.value(F[1] - F[0], errors[1] - errors[0] + gamma / 2 * inner(e[1], e[1]), solver)
    mean = worst.value(0 * F[0], sum(inner(g, g) for _, g, _ in points[:N]) / N, solver)
    return rise, mean


def contraction(gamma, alpha, L, mu, solver):
    """EF21 with one client and *any* contractive compressor on *any* L-smooth, mu-strongly convex f: the largest
    V^1 / V^0, V = |g - grad f|^2 + sqrt(1 - alpha) |grad f|^2 (Berg Thomsen, Taylor, Dieuleveut 2025)."""
    g, grad, after, sent = np.eye(4)
    missing, none, F = after - g, np.zeros(2), np.eye(2)

    def lyapunov(g, grad):
        return inner(g - grad, g - grad) + np.sqrt(1 - alpha) * inner(grad, grad)

    worst = Worst(2, 4)
    worst.function([(0 * g, grad, F[0]), (-gamma * g, after, F[1])], L, mu)
    worst.require(none, inner(missing - sent, missing - sent) - (1 - alpha) * inner(missing, missing))
    worst.require(none, lyapunov(g, grad), 1.0)
    worst.require(F[0], 0 * inner(g, g))  # values matter by their difference alone
    worst.require(-F[0], 0 * inner(g, g))
    return worst.value(none, lyapunov(g + sent, after), solver)
