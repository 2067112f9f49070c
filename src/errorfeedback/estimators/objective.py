"""What is minimised: F(x) = f(x) + R(x), the mean loss over all rows plus a penalty that the server adds by itself.

One function makes it, for `fit`, `train`, `inspect` and `compare`: the same rows at the same clients, the same scaling
x = S z, the same penalty. The solver works on z; models are in the units of the data. `fit` and `train` may leave features
that only one client has to it (`own_features`), which changes neither F nor its minimum.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.utils.validation import _check_sample_weight

from errorfeedback.clients.joined_problem import joined_problem
from errorfeedback.core import Floats, Lifted, Model, PerClient, PerColumn, Point
from errorfeedback.data.encoding import Derived
from errorfeedback.engines.base import Engine
from errorfeedback.engines.local import Local
from errorfeedback.estimators.local_models import averaged_with_all
from errorfeedback.estimators.own_features import OwnFeatures, own_features_left, without
from errorfeedback.problems.base import Problem
from errorfeedback.problems.conversation import Conversation, Seat
from errorfeedback.problems.glm import GLM
from errorfeedback.problems.proximal import ElasticNet
from errorfeedback.problems.scaling import Scaled, on_columns, scaled_with_all
from errorfeedback.runtime.begin import Begin


@dataclass(frozen=True, eq=False)
class Objective:
    """F in the solver's variable z = x / S. Made by `penalised`."""

    problem: Problem
    """What is solved: f of all clients, in the variable z."""
    models: int
    """x is a (columns, models) matrix, row after row; two classes and regression have one model."""
    scale: Model | None
    """(d,): the diagonal of S; None where features are taken as they are."""
    prox: ElasticNet | None
    """R in the variable z."""
    l2: float
    """The curvature of R in the units of the data."""
    free: list[int]
    """The columns of the intercepts: never penalised."""
    clients: NDArray[Any]
    """The names of all clients."""
    begin: Begin | None = None
    """Where few-bit runs begin that are given no start; None: at zero."""
    own: OwnFeatures | None = None
    """Features that were left to the only clients that have them; None: the server has their weights like others."""

    def model(self, z: Model | PerColumn) -> PerColumn:
        """x = S z, one entry per column of the data; columns that no client has are 0."""
        return self.unscaled(self.problem.extend(self.problem.restrict(z), np.zeros(self.problem.width)))

    def unscaled(self, z: PerColumn) -> PerColumn:
        """x = S z, one entry per column of the data."""
        return z if self.scale is None else on_columns(self.problem, np.multiply, z, self.scale)

    def start(self, x: PerColumn) -> PerColumn:
        """z = x / S."""
        return x if self.scale is None else on_columns(self.problem, np.divide, x, self.scale)

    def value(self, z: Model | PerColumn, engine: Engine | None = None) -> float:
        """F; all processes of the engine must ask."""
        z = self.problem.restrict(z)
        engine = Local() if engine is None else engine
        return float(np.mean(engine.losses(self.problem, z))) + self.penalty(z)

    def penalty(self, z: Model) -> float:
        """R alone."""
        return 0.0 if self.prox is None else self.prox.on(self.problem).value(self.problem.restrict(z))

    @property
    def features(self) -> int:
        """How many numbers the model has that some client has a say in."""
        return self.problem.d + (0 if self.own is None else len(self.own.columns))

    @property
    def most(self) -> int:
        """Those of the client that has the most."""
        return int((self.problem.support.sizes + (0 if self.own is None else self.own.sizes)).max())

    def names(self, features: Sequence[str], classes: Sequence[Any] | None = None) -> Sequence[str]:
        """What every column is called: features and the intercept, once for every class where each has its own model."""
        once = len(features) + bool(self.free)

        def name(column: int) -> str:
            j, model = divmod(column, self.models)
            feature = features[j] if j < len(features) else "intercept"
            return feature if self.models == 1 or classes is None else f"{classes[model]}: {feature}"

        return Derived(once * self.models, name)


Preparation = Callable[[GLM, PerColumn], Conversation[tuple[Scaled, Begin | None]]]
"""The rows in another variable, where the server adds a penalty of this curvature, and where to begin."""


def by_density(rows: GLM, l2: PerColumn) -> Conversation[tuple[Scaled, Begin | None]]:
    """For messages of few bits and quasi-Newton steps."""
    return (yield from scaled_with_all(rows, None, l2)), None


def from_own_models(rows: GLM, l2: PerColumn) -> Conversation[tuple[Scaled, Begin | None]]:
    """The same, from the mean of the clients' own models, where the loss bends and has a bound on how much."""
    scaling, _ = yield from by_density(rows, l2)
    bends = rows.bends and rows.bounded
    return scaling, (yield from averaged_with_all(rows, l2)).begin(scaling) if bends else None


def to_one(rows: GLM, l2: PerColumn) -> Conversation[tuple[Scaled, Begin | None]]:
    """For TopK with the automatic rule."""
    return (yield from scaled_with_all(rows, 1.0, 0.0)), None


def preparation(*, scale: bool, top_k: bool, own_models: bool) -> Preparation | None:
    """What is done before a run that may do all of that."""
    if not scale:
        return None
    if top_k:
        return to_one
    return from_own_models if own_models else by_density


def penalised(
    rows: GLM, *, intercept: bool, l1: float, l2: float, prepare: Preparation | None, leave_own: float | None, seat: Seat
) -> Conversation[Objective]:
    """f + l1 ||x||_1 + (l2/2) ||x||^2, never on an intercept (the last column of every model). `prepare`: how
    features are scaled, and where a run begins; None: they are taken as they are, and it begins at zero. `leave_own`: own
    features are left to their clients where it pays; the share of all progress that the run may leave. None: never."""
    free = list(range(rows.width - rows.loss.outputs, rows.width)) if intercept else []
    inside = np.full(rows.width, l2)
    inside[free] = 0.0
    scaling, begin = (None, None) if prepare is None else (yield from prepare(rows, inside))
    own = None
    if leave_own is not None and scaling is not None:
        scaling, own = yield from own_features_left(scaling, inside, leave_own)
        begin = begin if own is None or begin is None else without(begin, own)
    part = rows if scaling is None else scaling
    _check_size(part, rows)
    names = np.concatenate((yield rows.names))
    return Objective(
        problem=(yield from joined_problem(part, seat)),
        models=rows.loss.outputs,
        scale=None if scaling is None else scaling.scale,
        prox=_penalty(rows, scaling, free, l1=l1, l2=l2),
        l2=l2,
        free=free,
        clients=names,
        begin=begin,
        own=own,
    )


def _check_size(part: Problem, rows: GLM) -> None:
    """Refuse numbers whose loss or gradient is infinite, or 0 by rounding, before anything has moved."""
    values, zero = PerClient(np.empty(part.n)), Model(np.zeros(part.d, dtype=part.dtype))
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        grads = Lifted(np.empty(part.support.size, dtype=part.dtype))
        part.gradients(Point(zero), grads, values=values)
        fourth = np.abs(rows.A.data).max(initial=0.0) ** 4.0 if part is rows else 0.0  # Hessians are squared
        finite = np.isfinite(np.square(grads)).all() and np.isfinite(values).all() and np.isfinite(fourth)
    if finite and (values.max() >= np.finfo(np.float64).tiny or not rows.target.any()):
        return
    target, features = (float(np.abs(each).max(initial=0.0)) for each in (rows.target, rows.A.data))
    raise ValueError(
        f"the loss of the zero model or its gradient is too {'small' if finite else 'large'} for a float64: the target goes "
        f"up to {target:.3g} and the features to {features:.3g}; multiply them by constants that bring them near 1"
    )


def _penalty(rows: GLM, scaling: Scaled | None, free: Sequence[int], *, l1: float, l2: float) -> ElasticNet | None:
    """R in the solver's variable z = x / S: l1 S_j |z_j| + (l2 S_j^2 / 2) z_j^2, and nothing on the `free` columns."""
    if not l1 and not l2:
        return None
    units = np.ones(rows.width)
    if scaling is not None:
        units = scaling.unscaled(units)
    units[list(free)] = 0.0
    return ElasticNet(l1 * units, l2 * units**2)


def with_ones(A: sparse.csr_array) -> sparse.csr_array:
    """A with the intercept's column, the last."""
    ends, (m, d) = A.indptr[1:], A.shape
    index = sparse.get_index_dtype(maxval=max(A.nnz + m, d + 1))
    data, indices = np.insert(A.data, ends, 1.0), np.insert(A.indices.astype(index, copy=False), ends, d)
    return sparse.csr_array(
        (data, indices, A.indptr.astype(index, copy=False) + np.arange(m + 1, dtype=index)), shape=(m, d + 1)
    )


def even(rows: int, n: int, seed: int) -> NDArray[Any]:
    """A client for every row: shuffled, with sizes that differ by at most one; no row is left out.

    >>> np.bincount(even(7, 3, seed=0)).tolist()
    [3, 2, 2]
    """
    ids = np.empty(rows, dtype=np.int64)
    ids[np.random.default_rng(seed).permutation(rows)] = np.arange(rows) % min(n, rows)
    return ids


def row_weights(given: ArrayLike | None, X: Any) -> Floats:
    """1 for every row unless they are given."""
    weights = np.asarray(_check_sample_weight(given, X, ensure_non_negative=True))
    if not weights.any():  # later versions of scikit-learn refuse them by themselves
        raise ValueError("sample_weight is 0 for all rows; give at least one non-zero weight")
    return weights
