"""Training as users mean it: real data in, model out. The problem is scaled, a penalty is added on the server, the step is
automatic; everything that crosses the wire is counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from errorfeedback.compressors.base import Contractive
from errorfeedback.compressors.exact_on_common import ExactOnCommon
from errorfeedback.compressors.top_k import TopK
from errorfeedback.core import VALUE_BITS, Floats, Model, PerClient
from errorfeedback.methods.ef21 import EF21
from errorfeedback.problems.base import Problem
from errorfeedback.problems.glm import GLM, Matrix, logistic
from errorfeedback.problems.proximal import ElasticNet
from errorfeedback.problems.scaling import Scaled, scaled
from errorfeedback.problems.spread import agreed
from errorfeedback.problems.together import ALONE, Together
from errorfeedback.records.checkpoint import Checkpoint, Folder
from errorfeedback.runtime.local import Engine, Local
from errorfeedback.runtime.resume import resume
from errorfeedback.runtime.solve import Result, solve
from errorfeedback.runtime.spread import spread
from errorfeedback.runtime.stopping import Stop, Validation
from errorfeedback.stepsizes.automatic import Automatic
from errorfeedback.stepsizes.theory import Theory

INTERCEPTS = ("topk", "exact")


@dataclass(frozen=True)
class Recipe:
    """How a model is trained.

    k: numbers per client and round. l1, l2: R(x) = l1 ||x||_1 + (l2/2) ||x||^2, never on an intercept. scale: bring all
    features to the same curvature first. intercept: "topk" (a feature like any other) or "exact" (sent every round).
    """

    k: int = 1
    l1: float = 0.0
    l2: float = 0.0
    scale: bool = True
    intercept: str = "topk"
    rounds: int = 1000
    seed: int = 0
    every: int = 10

    def __post_init__(self) -> None:
        if self.intercept not in INTERCEPTS:
            raise ValueError(f"intercept = {self.intercept!r}; it must be one of {', '.join(INTERCEPTS)}")


@dataclass(frozen=True, eq=False)
class Trained:
    """A model in the units of the data, and the run that made it."""

    x: Model
    run: Result
    loss: float
    """f + R at x."""

    @property
    def traffic(self) -> tuple[PerClient, PerClient]:
        """Bits of every client's message up and of its part of x down, in a round."""
        return traffic(self.run.theory)

    @property
    def bytes_up(self) -> float:
        """Sent by a client, on average."""
        return float(self.run.history["uplink_bits"][-1]) / 8 / self.run.theory.n

    @property
    def bytes_down(self) -> float:
        """Received by a client, on average."""
        return float(self.run.history["downlink_bits"][-1]) / 8 / self.run.theory.n


def train(
    problem: GLM,
    free: Sequence[int],
    recipe: Recipe,
    *,
    x0: Model | None = None,
    stop: Sequence[Stop] = (),
    judge: Callable[[Model], float] | None = None,
    watch: Callable[[dict[str, float]], None] | None = None,
    engine: Engine | None = None,
    checkpoint: Checkpoint | None = None,
) -> Trained:
    """Minimise f + R by EF21 with the automatic step; `free` are the columns of the intercepts. `judge` gives the
    loss of a model on held-out data: the run stops when it has stopped falling, and returns the model where it was lowest.
    `problem` has the clients of this process, where the engine has several. A run that is in the folder of `checkpoint`
    already is gone on with.

    >>> import errorfeedback as ef
    >>> problem = ef.logistic(np.eye(4), [0, 1, 0, 1], clients=2, intercept=True)
    >>> train(problem, [4], Recipe(l2=0.1, rounds=100)).x[:4].round(2).tolist()
    [-0.78, 0.78, -0.78, 0.78]
    """
    engine = Local() if engine is None else engine
    target = scaled(problem, engine.together) if recipe.scale else None
    inner: Problem = spread(problem if target is None else target, engine.together)
    start = None if x0 is None else (x0 if target is None else target.rescaled(x0))

    def model(z: Model) -> Model:
        full = inner.extend(z, np.zeros(problem.width))
        return full if target is None else target.unscaled(full)

    checks = [] if judge is None else [Validation(lambda z: judge(model(z)))]
    prox = penalty(problem, target, free, l1=recipe.l1, l2=recipe.l2)

    def trained(run: Result) -> Trained:
        z = inner.restrict(run.x)
        loss = inner.value(z) + (0.0 if prox is None else prox.on(inner).value(z))
        return Trained(run.x if target is None else target.unscaled(run.x), run, loss)

    if checkpoint is not None and engine.together.all(Folder(Path(checkpoint.folder)).run.exists())[0]:
        return trained(resume(checkpoint.folder, problem=inner, engine=engine, watch=watch))
    run = solve(
        inner,
        EF21(_compressor(problem, free, recipe)),
        Automatic(),
        rounds=recipe.rounds,
        x0=start,
        seed=recipe.seed,
        every=recipe.every,
        engine=engine,
        prox=prox,
        stop=[*stop, *checks],
        watch=watch,
        checkpoint=checkpoint,
    )
    return trained(run)


def _compressor(problem: GLM, free: Sequence[int], recipe: Recipe) -> Contractive:
    if recipe.intercept == "topk" or not len(free):
        return TopK(recipe.k)
    return ExactOnCommon(np.flatnonzero(np.isin(problem.columns, free)).tolist(), recipe.k)


def traffic(theory: Theory) -> tuple[PerClient, PerClient]:
    """Bits of every client's message up (on average, where it varies) and of its part of x down, in a round."""
    return theory.compressor.bits(theory.support), VALUE_BITS * theory.sizes.astype(np.float64)


def penalty(problem: GLM, target: Scaled | None, free: Sequence[int], *, l1: float, l2: float) -> ElasticNet | None:
    """R in the solver's variable z = x / S: l1 S_j |z_j| + (l2 S_j^2 / 2) z_j^2, and nothing on the `free` columns."""
    if not l1 and not l2:
        return None
    units = np.ones(problem.width)
    if target is not None:
        units = target.unscaled(units)
    units[list(free)] = 0.0
    return ElasticNet(l1 * units, l2 * units**2)


def one_against_rest(
    A: Matrix,
    code: NDArray[Any],
    classes: int,
    clients: NDArray[Any],
    *,
    intercept: bool,
    weights: Floats,
    together: Together = ALONE,
) -> tuple[GLM, list[int]]:
    """All classes in one problem, and the columns of their intercepts.

    Two classes are one logistic model. For more, the model is the (classes x columns) matrix, row after row, and every
    row of data appears once for each class, shifted to the class's columns, with the label +1 where it is of the class.
    This is a logistic problem like any other: the same kernels, the same constants (curvature 1/4), and a client's
    message holds the K best entries of all classes. f is the mean over classes of the one-against-rest losses.
    """
    A = sparse.csr_array(A)
    if intercept:
        A = sparse.csr_array(sparse.hstack([A, np.ones((A.shape[0], 1))], format="csr"))
    width = A.shape[1]
    models = 1 if classes == 2 else classes
    if models == 1:
        problem = logistic(A, np.where(code == 1, 1, -1), clients, sample_weight=weights, classes=(-1, 1))
    else:
        stacked = sparse.csr_array(sparse.kron(sparse.eye_array(models), A, format="csr"))
        signs = np.where(code[None, :] == np.arange(models)[:, None], 1, -1).ravel()
        problem = logistic(stacked, signs, np.tile(clients, models), sample_weight=np.tile(weights, models), classes=(-1, 1))
    return agreed(problem, together), [width * (c + 1) - 1 for c in range(models)] if intercept else []


def even(rows: int, n: int, seed: int) -> NDArray[Any]:
    """A client for every row: shuffled, with sizes that differ by at most one.

    >>> np.bincount(even(7, 3, seed=0)).tolist()
    [3, 2, 2]
    """
    if n < 1:
        raise ValueError(f"n_clients = {n}; there must be at least 1")
    ids = np.empty(rows, dtype=np.int64)
    ids[np.random.default_rng(seed).permutation(rows)] = np.arange(rows) % min(n, rows)
    return ids
