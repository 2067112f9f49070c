"""Rows -> a linear model across clients: `glm` for any loss, and a constructor for each of the family's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike, DTypeLike
from scipy import sparse

from errorfeedback.core import PerRow
from errorfeedback.problems.blocks.base import Fill
from errorfeedback.problems.glm import GLM, layout_for, per_client
from errorfeedback.problems.inputs import Matrix, as_csr, check_clients, check_finite, checked_weights
from errorfeedback.problems.labels import numbered, shown
from errorfeedback.problems.losses.base import Loss
from errorfeedback.problems.losses.curvature import check_curvature
from errorfeedback.problems.losses.huber import Huber
from errorfeedback.problems.losses.logistic import Logistic
from errorfeedback.problems.losses.poisson import Poisson
from errorfeedback.problems.losses.softmax import Softmax
from errorfeedback.problems.losses.squared import Squared
from errorfeedback.problems.losses.squared_hinge import SquaredHinge
from errorfeedback.problems.partition import Clients, as_partition
from errorfeedback.problems.regularizers import NoPenalty, Regularizer
from errorfeedback.sparsity.support import counted, runs, support_of


class ModelOptions(TypedDict, total=False):
    """What every constructor takes beside the rows, with the meaning and the defaults that it has in `glm`."""

    regularizer: Regularizer | None
    intercept: bool
    dtype: DTypeLike
    sample_weight: ArrayLike | None


def glm(
    A: Matrix,
    b: ArrayLike,
    clients: Clients,
    loss: Loss,
    *,
    regularizer: Regularizer | None = None,
    intercept: bool = False,
    dtype: DTypeLike = np.float64,
    sample_weight: ArrayLike | None = None,
) -> GLM:
    """f_i(x) = (1/m_i) sum_rows loss(<a, x>, b) + phi_i(x), for any `loss` of a prediction (or several) and a number.

    `A`: (rows, features), an array or a sparse matrix. `b`: the target of every row. `regularizer`: phi_i. `clients` is an
    int (that many equal blocks of consecutive rows), one client id per row, or a partition. With `intercept` a column of
    ones is appended: x[-1] is the intercept. `dtype`: precision of data, memory, messages. With `sample_weight` (one number
    per row) f is the weighted mean over all rows, whatever the sizes of the clients: f_i = n sum_rows w loss / (the sum of
    all w).
    """
    target = np.asarray(b)
    if target.dtype.kind not in "fiub":
        raise ValueError(f"b has the type {target.dtype}; {type(loss).__name__.lower()} needs numbers")
    matrix = as_csr(A, intercept, dtype)
    penalty = NoPenalty() if regularizer is None else regularizer
    problem = _dealt(matrix, target.astype(np.float64), clients, loss, penalty, intercept, sample_weight)
    check_curvature(loss, problem.target)
    return problem


def least_squares(A: Matrix, b: ArrayLike, clients: Clients, **options: Unpack[ModelOptions]) -> GLM:
    """f_i(x) = (1/m_i) ||A_i x - b_i||^2 + phi_i(x). `A`, `b`, `clients` and options as in `glm`.

    >>> least_squares(np.eye(4), np.ones(4), clients=2).value(np.zeros(4))
    1.0
    """
    return glm(A, b, clients, Squared(), **options)


def huber(A: Matrix, b: ArrayLike, clients: Clients, *, width: float = 1.35, **options: Unpack[ModelOptions]) -> GLM:
    """f_i(x) = (1/m_i) sum_rows h(<a, x> - b) + phi_i(x): h is the square up to `width`, and grows linearly beyond.
    `A`, `b`, `clients` and other options as in `glm`.

    >>> huber(np.eye(4), [1.0, -1.0, 1.0, 100.0], clients=2, width=1.0).value(np.zeros(4))
    50.5
    """
    return glm(A, b, clients, Huber(width=width), **options)


def poisson(A: Matrix, b: ArrayLike, clients: Clients, **options: Unpack[ModelOptions]) -> GLM:
    """f_i(x) = (1/m_i) sum_rows (exp(z) - b z + b log b - b) + phi_i(x), z = <a, x>: half of the deviance of counts b with
    the mean exp(z). Nothing bounds its curvature: `ef.Armijo()` is the rule for it. `A`, `b`, `clients` and
    options as in `glm`.

    >>> poisson(np.eye(4), [1, 1, 0, 1], clients=2).value(np.zeros(4))
    0.25
    """
    return glm(A, b, clients, Poisson(), **options)


def logistic(
    A: Matrix, y: ArrayLike, clients: Clients, *, classes: tuple[Any, Any] | None = None, **options: Unpack[ModelOptions]
) -> GLM:
    """f_i(x) = (1/m_i) sum_rows log(1 + exp(-y <a, x>)) + phi_i(x); `y` in any two values, the larger one is +1.
    `classes` names the two where the rows at hand need not have both. `A`, `clients` and other options as in `glm`.

    >>> logistic(np.eye(4), ["no", "yes", "no", "yes"], clients=2).classes
    ('no', 'yes')
    """
    signs, two = _signs(y, classes, "logistic regression")
    return replace(glm(A, signs, clients, Logistic(), **options), classes=two)


def squared_hinge(
    A: Matrix, y: ArrayLike, clients: Clients, *, classes: tuple[Any, Any] | None = None, **options: Unpack[ModelOptions]
) -> GLM:
    """f_i(x) = (1/m_i) sum_rows max(0, 1 - y <a, x>)^2 + phi_i(x): a linear support vector machine. `A`, `y`,
    `clients`, `classes` and other options as in `logistic`.

    >>> squared_hinge(np.eye(4), [0, 1, 0, 1], clients=2).value(np.array([-1.0, 0.0, 1.0, 2.0]))
    1.25
    """
    signs, two = _signs(y, classes, "the squared hinge")
    return replace(glm(A, signs, clients, SquaredHinge(), **options), classes=two)


def softmax(
    A: Matrix, y: ArrayLike, clients: Clients, *, classes: Sequence[Any] | None = None, **options: Unpack[ModelOptions]
) -> GLM:
    """f_i(X) = (1/m_i) sum_rows (log sum_k exp(z_k) - z_y) + phi_i(X), z = X'a: multinomial regression for any number of
    classes. X is (columns, classes), row after row, in the order of the classes: those of `y`, sorted, or `classes` where
    the rows at hand need not have all. `A`, `clients` and other options as in `glm`.

    >>> round(softmax(np.eye(4), ["a", "b", "c", "a"], clients=2).value(np.zeros(12)), 6)
    1.098612
    """
    code, distinct = numbered(y, classes)
    if len(distinct) < 2:
        raise ValueError(f"y has one class only ({distinct[0]}); softmax needs at least two")
    return replace(glm(A, code, clients, Softmax(outputs=len(distinct)), **options), classes=distinct)


def _signs(y: ArrayLike, classes: tuple[Any, Any] | None, model: str) -> tuple[PerRow, tuple[Any, ...]]:
    """-1 and +1 for labels of any two values, and the two."""
    code, distinct = numbered(y, classes)
    if len(distinct) != 2:
        raise ValueError(f"y has {len(distinct)} distinct values ({shown(distinct)}); {model} needs exactly two")
    return np.where(code == 1, 1.0, -1.0), distinct


def _dealt(
    matrix: sparse.csr_array,
    target: PerRow,
    clients: Clients,
    loss: Loss,
    penalty: Regularizer,
    intercept: bool,
    sample_weight: ArrayLike | None,
) -> GLM:
    """The rows where their clients have them."""
    if target.shape != (matrix.shape[0],):
        raise ValueError(f"the target has shape {target.shape}, but A has {matrix.shape[0]} rows; give one value per row")
    check_finite("b", target)
    loss.check(target)
    target = target.astype(matrix.dtype)
    dealt = as_partition(clients, matrix.shape[0]).rows(matrix.shape[0])
    if not np.array_equal(dealt.order, np.arange(matrix.shape[0])):
        matrix, target = matrix[dealt.order], target[dealt.order]
    active = np.flatnonzero(counted(matrix.indices, matrix.shape[1]))
    width, d = matrix.shape[1], len(active)
    number = np.zeros(width, dtype=np.int32)
    number[active] = np.arange(d, dtype=np.int32)
    features = number[matrix.indices] if d < width else matrix.indices.astype(np.int32, copy=False)
    entries = matrix.indptr[dealt.indptr]
    check_clients(dealt, entries)
    owned, positions = support_of(entries, features, d)
    support = owned.times(loss.outputs)
    rows, data, indptr = matrix.shape[0], matrix.data, matrix.indptr
    weights = None if sample_weight is None else checked_weights(sample_weight, dealt)
    lifted = sparse.csr_array((data, positions, indptr), shape=(rows, owned.size))
    return GLM(
        support=support,
        columns=runs(active, loss.outputs),
        width=width * loss.outputs,
        dtype=matrix.dtype,
        A=sparse.csr_array((data, features, indptr), shape=(rows, d)),
        lifted=lifted,
        target=target,
        rows=dealt.indptr,
        loss=loss,
        regularizer=penalty,
        layout=layout_for(Fill.of(lifted, support, dealt.indptr)),
        names=dealt.names,
        discarded_rows=dealt.discarded,
        intercept=intercept,
        sample_weight=weights,
        weight_sum=0.0 if weights is None else float(per_client(weights, dealt.indptr).sum()),
    )
