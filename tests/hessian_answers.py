"""What a server hears of Hessians, and what it is to make of them, by the book."""

from __future__ import annotations

import numpy as np

import errorfeedback as ef
from errorfeedback.directions.base import Hessians
from errorfeedback.sparsity.pairs import apart, pairs_of, symmetric


def sparse_rows(n=9, d=12, m=6, fill=0.15, seed=0):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((n * m, d)) * (rng.random((n * m, d)) < fill)
    return ef.logistic(A, np.where(rng.random(n * m) < 0.5, 1, -1), clients=np.repeat(np.arange(n), m))


def hessians_of(problem, x):
    """Every client's, as it lies in R^d."""
    out = np.empty(pairs_of(problem.support).size)
    problem.hessians(ef.Point(shared=x), out)
    ends, found = pairs_of(problem.support).indptr, []
    for i in range(problem.n):
        J = problem.support.features(i)
        whole = np.zeros((problem.d, problem.d))
        whole[np.ix_(J, J)] = symmetric(out[ends[i] : ends[i + 1]], len(J))
        found.append(whole)
    return found


def answer_of(problem, tellers, missing, l2=0.0, units=None):
    """Of these clients, who told all, and say that so much is missing."""
    d, each = problem.d, hessians_of(problem, np.full(problem.d, 0.1))
    units = np.ones(d) if units is None else units
    said, s = np.full(problem.n, np.nan), problem.support
    said[tellers] = missing
    parts = [each[i] / problem.n * np.outer(units, units) for i in tellers]
    if apart(d):
        mean = np.concatenate(
            [part[np.ix_(J, J)][np.triu_indices(len(J))] for part, J in zip(parts, map(s.features, tellers), strict=True)]
        )
    else:
        mean = sum(parts)[np.triu_indices(d)]
    return Hessians(mean, said, units, np.full(d, l2), s, s.of(np.array(tellers), 0, len(tellers)))


def literal(problem, tellers, missing, l2):
    """P = D mean D + l2 + lambda I, one feature and one client after the other; and lambda."""
    d, n, s = problem.d, problem.n, problem.support
    each = hessians_of(problem, np.full(d, 0.1))
    told = [[i for i in s.owners(j) if i in tellers] for j in range(d)]
    D = [np.sqrt(len(s.owners(j)) / len(told[j])) if told[j] else 0.0 for j in range(d)]
    P = np.array([[D[j] * D[k] * sum(each[i][j, k] for i in tellers) / n for k in range(d)] for j in range(d)])
    known = [P[j, j] for j in range(d) if told[j]]
    for j in range(d):
        if not told[j]:
            P[j, j] = np.median(known)
    variances = [D[j] ** 4 * sum(len(s.features(i)) * missing[tellers.index(i)] ** 2 for i in told[j]) for j in range(d)]
    lam = 2 * np.sqrt(max(variances)) / n
    return P + (l2 + lam) * np.eye(d), lam
