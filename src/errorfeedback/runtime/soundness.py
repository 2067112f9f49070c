"""What a checkpoint holds is checked before kernels are let loose on it: a checksum that fits says that a file is whole, not
that its parts fit together. ValueError says what does not.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from functools import singledispatch
from typing import Any

import numpy as np
from numpy.typing import NDArray

from errorfeedback.clients.memory import Shared
from errorfeedback.core import PRECISIONS, RowMemory
from errorfeedback.directions.base import Direction
from errorfeedback.downlinks.base import Broadcast, Downlink
from errorfeedback.methods.base import Method
from errorfeedback.problems.autoencoder import Autoencoder
from errorfeedback.problems.base import Problem
from errorfeedback.problems.glm import GLM
from errorfeedback.problems.proximal import ElasticNet
from errorfeedback.problems.ridged import Ridged
from errorfeedback.problems.scaling import Scaled
from errorfeedback.problems.spread import Spread
from errorfeedback.runtime.stopping import Stop
from errorfeedback.sparsity.support import Support, runs
from errorfeedback.stepsizes.base import StepSize
from errorfeedback.storage.checkpoint import Checkpoint
from errorfeedback.wire.coding import Coding

KINDS: dict[str, Any] = {
    "method": Method,
    "stepsize": StepSize,
    "direction": Direction,
    "downlink": Downlink,
    "rounds": int,
    "x0": np.ndarray,
    "asked": int,
    "since": float,
    "seed": int,
    "every": int,
    "densely": int,
    "metrics": bool,
    "f_star": float,
    "prox": ElasticNet | None,
}
"""The options of a run."""


def check_problem(problem: Any) -> None:
    """Raise where the parts of a problem do not fit together."""
    _require(isinstance(problem, Problem), "no problem")
    _require(isinstance(problem.support, Support), "no support")
    _check_support(problem.support)
    _require(problem.dtype in PRECISIONS, f"the precision {problem.dtype}")
    _check_ascending("columns", problem.columns, 0, problem.width)
    _require(len(problem.columns) == problem.d, "columns for other features")
    _check_kind(problem)


def _check_support(s: Support) -> None:
    _check_ends("the support", s.indptr, len(s.indices))
    _check_range("features", s.indices, s.d)
    _check_outputs(s)
    _require(s.first == 0 and s.n == s.n_total and not len(s.earlier), "not all clients")
    _require(s.counts.shape == (s.d,) and s.counts.dtype.kind in "iu", "other counts of clients")
    _require(np.array_equal(s.counts, np.bincount(s.indices, minlength=s.d)), "other counts of clients")


def _check_outputs(s: Support) -> None:
    """The numbers of a feature are together."""
    q = s.outputs
    _require(isinstance(q, int) and q >= 1 and s.d % q == 0 and not (s.indptr % q).any(), "parts of features")
    if q > 1:
        _require(np.array_equal(s.indices, runs(s.indices[::q] // q, q)), "parts of features")


@singledispatch
def _check_kind(problem: Any) -> None:
    """What a kind of problem needs besides."""


@_check_kind.register
def _(problem: GLM) -> None:
    m, s = problem.A.shape[0], problem.support.by_feature
    _require(problem.loss.outputs == problem.support.outputs, "a loss of other outputs")
    _check_ends("the rows", problem.rows, m)
    _require(len(problem.rows) == s.n + 1, "rows of other clients")
    _require(problem.A.shape == (m, s.d) and problem.lifted.shape == (m, s.size), "a matrix of another size")
    same = ((problem.A.indptr, problem.lifted.indptr), (problem.A.data, problem.lifted.data))
    _require(all(np.array_equal(a, b) and a.dtype == b.dtype for a, b in same), "two different matrices")
    _require(np.array_equal(s.indices[problem.lifted.indices], problem.A.indices), "entries at other features")
    owner = np.repeat(np.repeat(np.arange(s.n), np.diff(problem.rows)), np.diff(problem.A.indptr))
    inside = (s.indptr[owner] <= problem.lifted.indices) & (problem.lifted.indices < s.indptr[owner + 1])
    _require(bool(inside.all()), "entries at other clients")
    for name, values, size in (("data", problem.A.data, problem.A.nnz), ("target", problem.target, m)):
        _check_floats(name, values, (size,), problem.dtype)
    if problem.sample_weight is not None:
        _check_floats("sample weights", problem.sample_weight, (m,), np.dtype(np.float64))
    problem.loss.check(problem.target)


@_check_kind.register
def _(problem: Scaled) -> None:
    check_problem(problem.inner)
    _require(problem.inner.support.size == problem.support.size and problem.inner.d == problem.d, "another scaled problem")
    _check_floats("scales", problem.scale, (problem.d,), problem.dtype)


@_check_kind.register
def _(problem: Ridged) -> None:
    check_problem(problem.inner)
    _require(problem.inner.support.size == problem.support.size and problem.inner.d == problem.d, "another problem inside")
    _check_floats("penalties", problem.l2, (problem.d,), problem.dtype)


@_check_kind.register
def _(problem: Autoencoder) -> None:
    _check_ends("the rows", problem.rows, len(problem.data))
    _require(len(problem.rows) == problem.n + 1 and problem.support.dense, "rows of other clients")
    _require(problem.d == 2 * problem.code * problem.data.shape[1], "codes of another size")
    _check_floats("data", problem.data, problem.data.shape, problem.dtype)


@_check_kind.register
def _(problem: Spread) -> None:
    known = problem.L_i if problem.bounded else np.zeros(problem.n)
    _check_floats("the clients' smoothness", known, (problem.n,), np.dtype(np.float64))
    _require(problem.bounded or np.array_equal(problem.L_i, np.full(problem.n, np.inf)), "a smoothness of some clients only")


def check_run(run: Any) -> None:
    """Raise where a description cannot be that of a run."""
    options = run["options"]
    _require(isinstance(run["identity"], dict), "no identity")
    _require(isinstance(run["checkpoint"], Checkpoint), "no checkpoint")
    _require(all(isinstance(rule, Stop) for rule in options["stop"]), "no stopping rules")
    for name, kind in KINDS.items():
        _require(isinstance(options[name], kind), f"no {name}")
    _check_floats("the start", options["x0"], (len(options["x0"]),), np.dtype(np.float64))
    _require(options["rounds"] >= 0 and options["every"] >= 1 and options["seed"] >= 0, "no number of rounds")


def check_snapshot(snapshot: Any, problem: Problem, rounds: int) -> None:
    """Raise where a snapshot cannot be one of a run of so many rounds on this problem."""
    _require(isinstance(snapshot, dict), "no snapshot")
    t, stopped = snapshot["round"], snapshot["stopped"]
    _require(isinstance(t, int) and 1 <= t <= rounds + 1, f"the round {t!r:.30} of {rounds}")
    _require(isinstance(stopped, str) and (bool(stopped) or t <= rounds), "no round that is left")
    _require(isinstance(snapshot["seconds"], float) and snapshot["seconds"] >= 0, "no time")
    sizes = {problem.d, problem.support.size, problem.n, 0}
    state = snapshot["state"]
    _require(isinstance(state, dict), "no state of the server")
    for rows in _leaves(snapshot["clients"], RowMemory):
        _require(rows.counts.shape == (problem.n,) and rows.counts.dtype == np.int64, "rows of other clients")
        _require(bool((rows.counts >= 0).all()), "fewer rows than none")
        kind = np.dtype(np.float64) if rows.values.dtype == np.float64 else problem.dtype  # Hessians are, in every problem
        _check_floats("what is kept of rows or pairs", rows.values, (int(rows.counts.sum()),), kind)
    for array in _leaves([state["losses"], state["missing"]], np.ndarray):
        _require(array.shape == (problem.n,) and array.dtype in (np.float64, np.bool_), "numbers of other clients")
    for array in _leaves([state["method"], state["kept"], snapshot["clients"]], np.ndarray):
        _require(array.dtype in (*PRECISIONS, np.bool_, np.int64) and array.ndim >= 1, f"a memory of {array.dtype}")
        _require(not sizes.isdisjoint(array.shape), f"a memory of {len(array)} numbers")
    _check_floats("the model", state["x"], (problem.d,), problem.dtype)
    broadcast = state["broadcast"]
    _require(
        broadcast is None
        or (
            isinstance(broadcast, Broadcast)
            and broadcast.values.shape == (problem.d,)
            and isinstance(broadcast.coding, Coding)
            and isinstance(broadcast.unit, float)
        ),
        "no message to the clients",
    )


def _leaves(tree: Any, kind: type[Any]) -> list[Any]:
    """All arrays of a tree, or what else it is made of."""
    if isinstance(tree, kind):
        return [tree]
    inner = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, (tuple, list)) else ()
    if is_dataclass(tree) and not isinstance(tree, (type, Shared, RowMemory)):
        inner = [getattr(tree, each.name) for each in fields(tree)]
    return [leaf for part in inner for leaf in _leaves(part, kind)]


def _check_floats(name: str, values: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    _require(isinstance(values, np.ndarray) and values.shape == shape, f"{name} of another size")
    _require(values.dtype == dtype and bool(np.isfinite(values).all()), f"{name} that are not finite {dtype} numbers")


def _check_range(name: str, values: NDArray[Any], end: int) -> None:
    _require(values.ndim == 1 and values.dtype.kind in "iu", f"{name} that are not numbered")
    _require(not len(values) or bool(values.min() >= 0 and values.max() < end), f"{name} that are not there")


def _check_ascending(name: str, values: NDArray[Any], least: int, end: int) -> None:
    _check_range(name, values, end)
    _require(bool((values[1:] > values[:-1]).all()) and (not len(values) or values[0] >= least), f"{name} in another order")


def _check_ends(name: str, ends: NDArray[Any], last: int) -> None:
    """0 = ends[0] < ends[1] < ... = last."""
    _check_ascending(name, ends, 0, last + 1)
    _require(len(ends) > 1 and ends[0] == 0 and ends[-1] == last, f"{name} with other ends")


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise ValueError(f"it has {otherwise}")
