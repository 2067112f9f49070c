"""Methods whose clients take steps of their own, on all of R^d: each yields x^0, x^1, ..."""

from __future__ import annotations

import math

import numpy as np

from reference.draws import draws, some_rows
from reference.methods import mean


def walked(problem, i, x, steps, rate, pull=lambda w: 0.0, batch=None, seed=0, t=0):
    """Where client i comes from x; the k-th step's rows are those of a round that is k * 2**40 later."""
    w = x
    for k in range(steps):
        rows = None if batch is None else some_rows(len(problem.clients[i].b), batch, seed, t + 2**40 * k, i)
        w = w - rate * (problem.gradient_i(i, w, rows) + pull(w))
    return w


def fed_avg(problem, x, gamma, rounds, C, steps, rate, batch, seed):
    yield x
    for t in range(rounds):
        w = [walked(problem, i, x, steps, rate, batch=batch, seed=seed, t=t) for i in range(problem.n)]
        x = x - gamma * mean([C((x - w[i]) / (steps * rate), i, t) for i in range(problem.n)])
        yield x


def fed_prox(problem, x, gamma, rounds, C, steps, rate, mu):
    yield x
    for t in range(rounds):
        w = [walked(problem, i, x, steps, rate, lambda w, x=x: mu * (w - x)) for i in range(problem.n)]
        x = x - gamma * mean([C(mu * (x - w[i]), i, t) for i in range(problem.n)])
        yield x


def cocktail(problem, x, gamma, rounds, C, steps, rate):
    e = [np.zeros_like(x) for _ in range(problem.n)]
    yield x
    for t in range(rounds):
        u = [e[i] + (x - walked(problem, i, x, steps, rate)) / (steps * rate) for i in range(problem.n)]
        v = [C(u[i], i, t) for i in range(problem.n)]
        e = [u[i] - v[i] for i in range(problem.n)]
        x = x - gamma * mean(v)
        yield x


def scaffold(problem, x, gamma, rounds, steps, rate):
    """Option II; every client has all of R^d, and c is the mean of the c_i."""
    c_i = [np.zeros_like(x) for _ in range(problem.n)]
    yield x
    for _ in range(rounds):
        c = mean(c_i)
        w = [walked(problem, i, x, steps, rate, lambda w, pull=c - c_i[i]: pull) for i in range(problem.n)]
        c_i = [c_i[i] - c + (x - w[i]) / (steps * rate) for i in range(problem.n)]
        x = x - gamma / (steps * rate) * mean([x - w[i] for i in range(problem.n)])
        yield x


def scaffnew(problem, x, gamma, rounds, rate, p, seed):
    """A feature is averaged over its owners; gamma = rate/p goes all the way to the mean."""
    owners = [[i for i in range(problem.n) if j in problem.clients[i].J] for j in range(problem.d)]
    h = [np.zeros_like(x) for _ in range(problem.n)]
    yield x
    for t in range(rounds):
        steps = 1 + math.floor(math.log(1 - next(draws(seed, t, -1))) / math.log(1 - p))
        w = [walked(problem, i, x, steps, rate, lambda w, pull=-h[i]: pull) for i in range(problem.n)]
        average = np.array([mean([w[i][j] for i in owners[j]]) for j in range(problem.d)])
        for i in range(problem.n):
            for j in problem.clients[i].J:
                h[i][j] += p / rate * (average[j] - w[i][j])
        x = x + gamma * p / rate * (average - x)
        yield x
