"""FedAvg (McMahan et al. 2017) on the recommender of examples/recommender.py, every user a client, with a choice of servers
(Reddi et al. 2021, Algorithm 2): from the round's x on J_i each client i takes `epochs` of minibatch SGD over its rows,

    w_i <- w_i - rate (grad of the mean loss on the batch + l2 (m / M_j) w_ij),        M_j the rows of feature j's owners,

and the server moves by what the mean change is over the owners of a feature, Delta_j = sum_i (m_i / M_j) (w_ij - x_j): the
mean over all clients would shrink the changes of rare rows (Ding et al. 2022). Local objectives add up, by their rows,
to the f with the L2 penalty that `ef.solve` minimises.

The module's gradient is written out, as a compiled loop over clients takes a fifth of the time of vmap over modules; a test
compares rounds of it with a loop over copies of the module.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np

from racing.feedback import TRAIN, Feedback
from racing.natural import Vector, Whole

WIDTH, HIDDEN = 4, 8
"""Numbers of an embedding, and of the layer between."""
NETWORK = 3 * WIDTH * HIDDEN + 2 * HIDDEN + 1
"""Numbers of the network."""


class Server(ABC):
    """What the server makes of the mean changes Delta of clients that stepped with a `rate`: the step, and its memory.
    Adaptive ones are given g = Delta / rate, so that their steps do not fall with the clients'."""

    def start(self, d: int) -> Any:
        return np.zeros(d)

    @abstractmethod
    def next(self, state: Any, change: Vector, rate: float) -> tuple[Vector, Any]: ...


@dataclass(frozen=True)
class Averaging(Server):
    """m = momentum m + Delta; x += step m. FedAvg itself has the step 1 and no momentum."""

    step: float = 1.0
    momentum: float = 0.0

    def next(self, state: Vector, change: Vector, rate: float) -> tuple[Vector, Vector]:
        m = self.momentum * state + change
        return self.step * m, m


@dataclass(frozen=True)
class FedAdagrad(Server):
    """v += g^2; x += step g / (sqrt(v) + tau)."""

    step: float
    tau: float = 1e-4

    def next(self, state: Vector, change: Vector, rate: float) -> tuple[Vector, Vector]:
        g = change / rate
        v = state + g**2
        return self.step * g / (np.sqrt(v) + self.tau), v


@dataclass(frozen=True)
class FedAdam(Server):
    """m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g^2; x += step m / (sqrt(v) + tau)."""

    step: float
    tau: float = 1e-4
    b1: float = 0.9
    b2: float = 0.99

    def start(self, d: int) -> tuple[Vector, Vector]:
        return np.zeros(d), np.full(d, self.tau**2)

    def next(self, state: tuple[Vector, Vector], change: Vector, rate: float) -> tuple[Vector, tuple[Vector, Vector]]:
        g = change / rate
        m = self.b1 * state[0] + (1 - self.b1) * g
        v = self.b2 * state[1] + (1 - self.b2) * g**2
        return self.step * m / (np.sqrt(v) + self.tau), (m, v)


@dataclass(frozen=True)
class FedAvg:
    """What a client does in a round, and what the server makes of it."""

    epochs: int
    batch: int
    rate: float
    l2: float
    server: Server = Averaging()
    halved: float = np.inf
    """Rounds in which the rate is halved: it falls as it must (Li et al. 2020)."""

    def rounds(self, x: Vector, data: Feedback) -> Iterator[Vector]:
        """The module's parameters after every round, from x on: flat and in their order."""
        user, _, liked = data.rows(TRAIN)
        owned, starts, ends = layout(data)
        rows = np.maximum(np.bincount(owned, np.repeat(np.diff(ends), np.diff(starts)), minlength=x.size), 1.0)  # M_j
        decay, state = self.l2 * len(user) / rows, self.server.start(x.size)
        for t in itertools.count():
            change = np.zeros(x.size)
            rate, order = self.rate * 0.5 ** (t / self.halved), orders(user, self.epochs, t)
            local_training(x, owned, starts, ends, liked, order, self.batch, rate, decay, change)
            step, state = self.server.next(state, change / rows, rate)
            x = x + step
            yield x


def layout(data: Feedback) -> tuple[Whole, Whole, Whole]:
    """J_i of all clients one after the other (the user's embedding, that of the item of each of its rows, the network),
    where each begins, and where each client's rows do."""
    tables = WIDTH * (data.users + data.items)
    network = np.arange(tables, tables + NETWORK)
    lists = [
        np.concatenate([np.add.outer(WIDTH * np.append(i, data.users + item), np.arange(WIDTH)).ravel(), network])
        for i, (_, item, _) in enumerate(data.clients())
    ]
    rows = [len(liked) for *_, liked in data.clients()]
    starts, ends = (np.concatenate([[0], np.cumsum(sizes)]) for sizes in ([len(own) for own in lists], rows))
    return np.concatenate(lists), starts, ends


def orders(user: Whole, epochs: int, t: int) -> Whole:
    """An order of every client's rows for each epoch of round t."""
    draw = np.random.default_rng([t, epochs])
    return np.stack([np.argsort(user + draw.random(len(user))) for _ in range(epochs)])


@numba.njit(cache=True, error_model="numpy")
def local_training(x, owned, starts, ends, liked, order, batch, rate, decay, change):
    """change += sum_i m_i (w_i - x) on J_i, w_i after SGD from x over client i's rows."""
    for i in range(len(ends) - 1):
        J, lo, hi = owned[starts[i] : starts[i + 1]], ends[i], ends[i + 1]
        start, shrink = x[J], decay[J]
        w, g = start.copy(), np.empty(len(J))
        for epoch in range(len(order)):
            for first in range(lo, hi, batch):
                gradient(w, order[epoch, first : min(first + batch, hi)], lo, liked, g)
                for p in range(len(J)):
                    w[p] -= rate * (g[p] + shrink[p] * w[p])
        for p in range(len(J)):
            change[J[p]] += (hi - lo) * (w[p] - start[p])


@numba.njit(cache=True, error_model="numpy")
def gradient(w, rows, lo, liked, g):
    """g = the gradient in w of the mean over these rows of log(1 + exp(s)) - liked s, s the module's score; a user meets an
    item once, so that its items are its rows, from `lo` on."""
    g[:] = 0.0
    net = len(w) - NETWORK
    bias, last = net + 3 * WIDTH * HIDDEN, net + 3 * WIDTH * HIDDEN + HIDDEN
    z, slope, a = np.empty(3 * WIDTH), np.empty(3 * WIDTH), np.empty(HIDDEN)
    for row in rows:
        q = WIDTH * (1 + row - lo)
        for k in range(WIDTH):
            z[k], z[WIDTH + k], z[2 * WIDTH + k] = w[k], w[q + k], w[k] * w[q + k]
        s = w[len(w) - 1]
        for h in range(HIDDEN):
            a[h] = w[bias + h]
            for k in range(3 * WIDTH):
                a[h] += w[net + 3 * WIDTH * h + k] * z[k]
            a[h] = np.tanh(a[h])
            s += w[last + h] * a[h]
        e = (1.0 / (1.0 + np.exp(-s)) - liked[row]) / len(rows)
        slope[:] = 0.0
        g[len(w) - 1] += e
        for h in range(HIDDEN):
            g[last + h] += e * a[h]
            b = e * w[last + h] * (1.0 - a[h] * a[h])
            g[bias + h] += b
            for k in range(3 * WIDTH):
                g[net + 3 * WIDTH * h + k] += b * z[k]
                slope[k] += b * w[net + 3 * WIDTH * h + k]
        for k in range(WIDTH):
            g[k] += slope[k] + slope[2 * WIDTH + k] * w[q + k]
            g[q + k] += slope[WIDTH + k] + slope[2 * WIDTH + k] * w[k]
