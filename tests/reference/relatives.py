"""Relatives of EF21 and EF14, from their papers' pseudo-code: each yields x^0, x^1, ..."""

from __future__ import annotations

import numpy as np

from reference.draws import draws, some_rows
from reference.methods import mean, sampled


def ef21_hb(problem, x, gamma, rounds, C, eta):
    """Fatkhullin et al. 2021, EF21-HB, from g_i = C(grad f_i(x))."""
    g = [C(problem.gradient_i(i, x), i, 0) for i in range(problem.n)]
    v = mean(g)
    yield x
    for t in range(rounds):
        x = x - gamma * v
        g = [g[i] + C(problem.gradient_i(i, x) - g[i], i, t + 1) for i in range(problem.n)]
        v = eta * v + mean(g)
        yield x


def ef21_pp(problem, x, gamma, rounds, C, p, seed):
    """Fatkhullin et al. 2021, EF21-PP: a client takes part with probability p, and g is the mean over all n."""
    g = [np.zeros_like(x) for _ in range(problem.n)]
    yield x
    for t in range(rounds):
        x = x - gamma * mean(g)
        for i in range(problem.n):
            if next(draws(seed, t + 1, -(2**40) - i)) < p:
                g[i] = g[i] + C(problem.gradient_i(i, x) - g[i], i, t + 1)
        yield x


def ef21_w(problem, x, gamma, rounds, C, L):
    """Richtarik, Gasanov, Burlachenko 2024, EF21-W: weights w_i = L_i / sum_j L_j; clients track grad f_i / (n w_i)."""
    w = [each / sum(L) for each in L]
    g = [np.zeros_like(x) for _ in range(problem.n)]
    yield x
    for t in range(rounds):
        x = x - gamma * sum(w[i] * g[i] for i in range(problem.n))
        g = [g[i] + C(problem.gradient_i(i, x) / (problem.n * w[i]) - g[i], i, t + 1) for i in range(problem.n)]
        yield x


def ef21_prox(problem, x, gamma, rounds, C, l1):
    """Fatkhullin et al. 2021, EF21-Prox, with R = l1 ||x||_1: its proximal step shrinks every entry."""
    g = [np.zeros_like(x) for _ in range(problem.n)]
    yield x
    for t in range(rounds):
        x = x - gamma * mean(g)
        x = np.array([np.sign(value) * max(abs(value) - gamma * l1, 0.0) for value in x])
        g = [g[i] + C(problem.gradient_i(i, x) - g[i], i, t + 1) for i in range(problem.n)]
        yield x


def ef21_page(problem, x, gamma, rounds, C, p, batch, seed):
    """Fatkhullin et al. 2021, EF21-PAGE, from v_i = grad f_i(x) and g_i = C(v_i)."""
    v = [problem.gradient_i(i, x) for i in range(problem.n)]
    g = [C(v[i], i, 0) for i in range(problem.n)]
    yield x
    for t in range(1, rounds + 1):
        old = x
        x = x - gamma * mean(g)
        for i in range(problem.n):
            if next(draws(seed, t, -(2**41) - i)) < p:
                v[i] = problem.gradient_i(i, x)
            else:
                rows = some_rows(len(problem.clients[i].b), batch, seed, t, i)
                v[i] = v[i] + problem.gradient_i(i, x, rows) - problem.gradient_i(i, old, rows)
        g = [g[i] + C(v[i] - g[i], i, t) for i in range(problem.n)]
        yield x


def ef21_p(problem, x, gamma, rounds, C, m, up=None):
    """Gruntkowska, Tyurin, Richtarik 2023, EF21-P with the m largest entries down: yields w, where gradients are taken. Up:
    the gradients themselves, or EF21 with the compressor `up`."""
    w, g = x, [np.zeros_like(x) for _ in range(problem.n)]
    yield w
    for t in range(rounds):
        grads = [problem.gradient_i(i, w) for i in range(problem.n)]
        g = grads if up is None else [g[i] + up(grads[i] - g[i], i, t) for i in range(problem.n)]
        x = x - gamma * mean(g)
        largest = sorted(range(len(x)), key=lambda j: (-abs((x - w)[j]), j))[:m]
        w = w + np.array([(x - w)[j] if j in largest else 0.0 for j in range(len(x))])
        yield w


def ef14_momentum(problem, x, gamma, rounds, C, eta, batch, seed):
    """Zheng, Huang, Kwok 2019, dist-EF-SGDM without compression on the way down."""
    gradient = sampled(problem, batch, seed)
    m, e = ([np.zeros_like(x) for _ in range(problem.n)] for _ in range(2))
    yield x
    for t in range(rounds):
        grads = [gradient(i, x, t) for i in range(problem.n)]
        m = [eta * m[i] + grads[i] for i in range(problem.n)]
        wanted = [gamma * (eta * m[i] + grads[i]) + e[i] for i in range(problem.n)]
        sent = [C(wanted[i], i, t) for i in range(problem.n)]
        e = [wanted[i] - sent[i] for i in range(problem.n)]
        x = x - mean(sent)
        yield x


def e_control(problem, x, gamma, rounds, C, eta, batch, seed):
    """Gao, Islamov, Stich 2023, from h_i = 0."""
    gradient = sampled(problem, batch, seed)
    e, h = ([np.zeros_like(x) for _ in range(problem.n)] for _ in range(2))
    yield x
    for t in range(rounds):
        grads = [gradient(i, x, t) for i in range(problem.n)]
        c = [C(eta * e[i] + grads[i] - h[i], i, t) for i in range(problem.n)]
        e = [e[i] + grads[i] - h[i] - c[i] for i in range(problem.n)]
        h = [h[i] + c[i] for i in range(problem.n)]
        x = x - gamma * mean(h)
        yield x


def choco(problem, x, step, rounds, C, rate, pull, batch, seed):
    """Koloskova, Stich, Jaggi 2019: all mix with all; a feature's mean is over those who own it. With a step
    of 1 what they are pulled to is the mean of all z_i; with another one it lags behind."""
    gradient = sampled(problem, batch, seed)
    n, J = problem.n, [client.J for client in problem.clients]
    owners = np.array([sum(j in own for own in J) for j in range(len(x))])
    w, z = [x.copy() for _ in range(n)], [x.copy() for _ in range(n)]
    average = x
    yield average
    for t in range(rounds):
        w = [w[i] - rate * gradient(i, w[i], t) for i in range(n)]
        c = [C((w[i] - z[i]) * n / owners, i, t) * owners / n for i in range(n)]
        z = [z[i] + c[i] for i in range(n)]
        average = average + step * np.array([sum(c[i][j] for i in range(n) if j in J[i]) / owners[j] for j in range(len(x))])
        w = [w[i] + pull * (average - z[i]) for i in range(n)]
        yield average
