"""The models of single clients, by the book: what `estimators.local_models` does for all of them at once."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

from errorfeedback.estimators import local_models

L2 = 0.01


LOSSES = {  # the loss, its first and second derivatives, and the bound on the second
    "logistic": (
        lambda z, y: np.log1p(np.exp(-y * z)),
        lambda z, y: -y / (1 + np.exp(y * z)),
        lambda z: 1 / (1 + np.exp(-z)) / (1 + np.exp(z)),
        0.25,
    ),
    "squared": (lambda z, y: (z - y) ** 2, lambda z, y: 2 * (z - y), lambda z: np.full_like(z, 2.0), 2.0),
}


class Own:
    """The model of one client, by the book; weight: a_i."""

    def __init__(self, A, y, name, weight=1.0):
        self.A, self.y, self.weight, self.m = A, y, weight, len(y)
        self.loss, self.slope, self.bend, bound = LOSSES[name]
        self.h = bound * (A**2).mean(axis=0)
        in_every_row = np.array([bound * (A[A[:, j] != 0, j] ** 2).mean() for j in range(A.shape[1])])
        typical = 2.0 ** np.rint(np.log2(weight * np.median(in_every_row))) / weight
        dense = 2 * (A != 0).sum(axis=0) > self.m
        self.s = typical * (self.h / typical) ** np.where(dense, 1.0, 0.5)

    def sums(self, values):
        return self.weight * values.sum(axis=0) / self.m

    def halves(self):
        """One each of the rows k and k + (m + 1) // 2, by a coin."""
        apart, first, second = (self.m + 1) // 2, [], []
        for k, coin in enumerate(np.random.default_rng(0).random(apart) < 0.5):
            pair = [k, k + apart] if coin else [k + apart, k]
            first, second = [*first, pair[0]], [*second, pair[1]]
        return [[row for row in half if row < self.m] for half in (first, second)]

    def mean(self, values):
        """A half weighs half of what the client does."""
        return self.weight / 2 * values.mean(axis=0)

    def tried(self):
        """A Newton step for ten rows, then one for one row, on one half; what each gains on the other."""
        mine, others = ((self.A[half], self.y[half]) for half in self.halves())
        w, found = np.zeros(self.A.shape[1]), []
        for prior in (10.0, 1.0):
            penalty = self.weight * (L2 / 2 + prior * self.s / self.m)

            def value(w, penalty=penalty):
                return self.mean(self.loss(mine[0] @ w, mine[1])) + penalty @ w**2 / 2

            g = self.mean(self.slope(mine[0] @ w, mine[1])[:, None] * mine[0]) + penalty * w
            H = self.weight / 2 / len(mine[0]) * mine[0].T @ (self.bend(mine[0] @ w)[:, None] * mine[0]) + np.diag(penalty)
            step, t = -np.linalg.solve(H, g), 1.0
            while value(w + t * step) > value(w) + 1e-4 * t * (g @ step):
                t /= 2
            w = w + t * step
            found.append([prior, *(self.mean(self.loss(0 * b, b) - self.loss(B @ w, b)) for B, b in (others, mine))])
        return max(found, key=lambda each: each[1])

    @property
    def prior(self):
        return self.tried()[0] / 3

    @property
    def kept(self):
        _, gain, own_gain = self.tried()
        return gain / own_gain

    def model(self):
        """w_i and H_i."""
        ridge = self.weight * L2
        penalty = ridge + self.weight * self.prior * self.s / self.m
        start, fit = np.zeros(self.A.shape[1]), lambda w: self.sums(self.loss(self.A @ w, self.y)) + penalty @ w**2 / 2
        w = minimize(fit, start, method="BFGS", tol=1e-10).x
        return w, self.sums(self.bend(self.A @ w)[:, None] * self.A**2) + ridge


def learning(rows):
    """Who learns something from its rows."""
    return local_models.Speakers.of(rows, np.full(rows.d, L2)).learn
