"""Clients with dense rows, and f with its gradients: one client and one row at a time."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np


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
        return sum(self.value_i(i, x) for i in range(self.n)) / self.n

    def value_i(self, i, x):
        client = self.clients[i]
        z = client.A @ (x if self.outputs == 1 else x.reshape(-1, self.outputs))
        if self.loss == "softmax":
            total = np.mean([math.log(sum(math.exp(s - r[int(b)]) for s in r)) for b, r in zip(client.b, z, strict=True)])
        elif self.loss == "squared":
            total = np.mean((z - client.b) ** 2)
        else:
            total = np.mean([np.logaddexp(0.0, -y * s) for y, s in zip(client.b, z, strict=True)])
        return total + self.lam * sum(x[j] ** 2 / (1 + x[j] ** 2) for j in client.J)

    def gradient_i(self, i, x, rows=None):
        """Over all rows of the client, or over some."""
        whole = self.clients[i]
        client = whole if rows is None else replace(whole, A=whole.A[rows], b=whole.b[rows])
        z = client.A @ (x if self.outputs == 1 else x.reshape(-1, self.outputs))
        if self.loss == "softmax":
            slope = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
            for row, b in enumerate(client.b):
                slope[row, int(b)] -= 1.0
        else:
            slope = 2 * (z - client.b) if self.loss == "squared" else -client.b / (1 + np.exp(client.b * z))
        g = (client.A.T @ slope).ravel() / len(client.b)
        for j in whole.J:
            g[j] += self.lam * 2 * x[j] / (1 + x[j] ** 2) ** 2
        return g

    def gradient(self, x):
        return sum(self.gradient_i(i, x) for i in range(self.n)) / self.n
