"""How much differences of gradients over the same few rows differ from those of whole gradients (ours): S with

    (1/n) sum_i E||(grad f_i(y; batch) - grad f_i(x; batch)) - (grad f_i(y) - grad f_i(x))||^2 <= S^2 ||y - x||^2.

A row's part of grad f_i moves by at most m_i w_r |<a_r, y - x>| ||a_r||, w_r being its weight in H_i = A_i' diag(w) A_i.
So, for k of m_i rows without replacement and t_i = (m_i - k)/(k (m_i - 1)), which is 0 where all are taken,

    S^2 = lambda_max((1/n) sum_i t_i m_i sum_r w_r^2 ||a_r||^2 a_r a_r').

A penalty is the same in every batch.
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from errorfeedback.core import Floats
from errorfeedback.problems.base import Problem
from errorfeedback.problems.noise import left_to_chance
from errorfeedback.smoothness.constants import smoothness
from errorfeedback.smoothness.products import times, transposed_times
from errorfeedback.smoothness.spectrum import key_of, largest_eigenvalue


def sampled_smoothness(problem: Problem, batch: int) -> float:
    """S, for batches of so many rows; 0 where no client has more.

    >>> import errorfeedback as ef
    >>> problem = ef.least_squares([[1.0], [1.0]], [0.0, 2.0], clients=1)  # both rows' gradients move by 2 (y - x)
    >>> round(sampled_smoothness(problem, 1), 9), sampled_smoothness(problem, 2)
    (2.0, 0.0)
    """
    s = smoothness(problem)
    k = s.curvature
    m = np.diff(k.rows)
    norms2 = np.asarray(k.A.multiply(k.A).sum(axis=1)).ravel()
    weights = np.repeat(left_to_chance(m, batch) * m / len(m), m) * np.square(k.weights) * norms2

    def product(v: Floats) -> Floats:
        out: Floats = transposed_times(k.A, weights * times(k.A, v))
        return out

    return sqrt(largest_eigenvalue(product, k.A.shape[1], key_of(np.array([s.key]), weights)).upper)
