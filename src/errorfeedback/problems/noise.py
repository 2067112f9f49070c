"""How much a gradient over a minibatch differs from the whole one: sigma_i^2(x) = E||grad f_i(x; batch) - grad f_i(x)||^2.

With m rows, y_r = m share_r loss'(z_r) a_r, whose mean is the rows' part of grad f_i, and k drawn without replacement,

    sigma_i^2(x) = (m - k) / (k (m - 1)) * ((1/m) sum_r ||y_r||^2 - ||(1/m) sum_r y_r||^2),

0 where k = m. A loss whose derivative is at most `steepest` in length bounds it for all x:
||y_r|| <= m share_r steepest ||a_r||. A penalty has no noise.
"""

from __future__ import annotations

from math import isfinite

import numpy as np

from errorfeedback.core import Integers, Lifted, Model, PerClient, PerRow
from errorfeedback.problems.base import Problem
from errorfeedback.problems.glm import GLM, per_client
from errorfeedback.problems.scaling import Scaled


def sampling_noise(problem: Problem, batch: int, at: Model | None = None) -> PerClient:
    """sigma_i^2 of every client of the `problem` for batches of `batch` rows: `at` x, or a bound for all x.

    >>> import errorfeedback as ef
    >>> problem = ef.least_squares([[1.0], [1.0], [1.0], [1.0]], [0.0, 2.0, 5.0, 5.0], clients=2)
    >>> sampling_noise(problem, 1, np.zeros(1)).tolist()  # the gradients 0 and -4; -10 and -10
    [4.0, 0.0]
    """
    rows, scale = (problem.inner, problem.scale) if isinstance(problem, Scaled) else (problem, None)
    if not isinstance(rows, GLM):
        raise ValueError(
            f"{type(rows).__name__} does not say how its rows differ; estimate the variance and give it yourself"
        )
    norms2 = _row_norms2(rows, scale)
    m, left = np.diff(rows.rows), left_to_chance(np.diff(rows.rows), batch)
    if at is None:
        slopes2 = np.full(len(norms2), _steepest(rows) ** 2) * np.square(rows.shares)
        return PerClient(left * m * per_client(slopes2 * norms2, rows.rows))
    slopes = _slopes(rows, Model(problem.restrict(at) * (1.0 if scale is None else scale)))
    squares = per_client(np.square(slopes).reshape(len(norms2), -1).sum(axis=1) * norms2, rows.rows)
    whole = rows.lifted.T @ slopes
    whole = whole if scale is None else (whole.T * _lifted_scale(rows, scale)).T
    means2 = rows.support.norms2(Lifted(np.ascontiguousarray(whole).ravel()))
    return PerClient(np.maximum(left * (m * squares - means2), 0.0))


def left_to_chance(m: Integers, batch: int) -> PerClient:
    """(m - k)/(k (m - 1)): the variance of the mean of k = min(batch, m) of m vectors, over that of one of them."""
    k = np.minimum(batch, m)
    return PerClient(np.divide(m - k, k * (m - 1), out=np.zeros(len(m)), where=m > 1))


def _slopes(rows: GLM, x: Model) -> PerRow:
    """share * loss'(z) of every row."""
    own, q = rows.support.gather(x), rows.loss.outputs
    z = rows.lifted @ (own if q == 1 else own.reshape(-1, q))
    rows.loss.slopes(z, rows.target, rows.shares, z)
    return z


def _row_norms2(rows: GLM, scale: Model | None) -> PerRow:
    data = rows.lifted.data if scale is None else rows.lifted.data * _lifted_scale(rows, scale)[rows.lifted.indices]
    filled = np.diff(rows.lifted.indptr) > 0
    out = np.zeros(len(filled))
    out[filled] = np.add.reduceat(np.square(data, dtype=np.float64), rows.lifted.indptr[:-1][filled])
    return out


def _lifted_scale(rows: GLM, scale: Model) -> Lifted:
    return rows.support.by_feature.gather(Model(scale[:: rows.loss.outputs]))


def _steepest(rows: GLM) -> float:
    if not isfinite(rows.loss.steepest):
        raise ValueError(
            f"the derivative of {type(rows.loss).__name__} has no bound, nor has the noise of its gradients; give the point "
            "that it is wanted at, or bound it along your run"
        )
    return rows.loss.steepest
