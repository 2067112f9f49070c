"""The problems of the paper's experiments, as small descriptions: equal descriptions make equal problems.

A description is what a stored curve is filed under, and what a worker process is sent instead of the problem itself.
"""

from __future__ import annotations

import gzip
import os
import struct
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from errorfeedback import api as ef
from errorfeedback.core import Floats, PerColumn
from errorfeedback.data.known import KNOWN, VARIABLE, find
from errorfeedback.problems.base import Problem

MNIST = "t10k-images-idx3-ubyte"


@dataclass(frozen=True)
class ProblemRecipe(ABC):
    """Makes one problem and the point from which runs on it start."""

    smooth: ClassVar[bool] = True
    """Whether theorems have constants for it."""

    @property
    @abstractmethod
    def slug(self) -> str:
        """A name for files."""

    @abstractmethod
    def make(self) -> Problem: ...

    def start(self, problem: Problem) -> PerColumn:
        """x^0."""
        return np.zeros(problem.width)

    def check(self) -> None:  # noqa: B027  (most recipes need no file)
        """Raise FileNotFoundError, saying what is expected where, when data is missing."""


@lru_cache(maxsize=2)
def made(recipe: ProblemRecipe) -> Problem:
    """The problem, made once while it is in use."""
    return recipe.make()


@dataclass(frozen=True)
class Synthetic(ProblemRecipe):
    """The paper's least squares on rare features: n = 100, d = 500, m = 12, every feature on c clients."""

    c: int
    seed: int
    n: int = 100
    d: int = 500
    m: int = 12

    @property
    def slug(self) -> str:
        return f"synthetic-c{self.c}"

    def make(self) -> Problem:
        return ef.synthetic(n=self.n, d=self.d, m=self.m, c=self.c, seed=self.seed)


@dataclass(frozen=True)
class Nonconvex(Synthetic):
    """The same with the penalty lambda sum x_j^2/(1 + x_j^2) on J_i, lambda = 3 max_i L_i of the least squares."""

    @property
    def slug(self) -> str:
        return f"nonconvex-c{self.c}"

    def make(self) -> Problem:
        plain = super().make()
        penalty = ef.NonconvexPenalty(3 * ef.analyse(plain).L_max)
        return ef.synthetic(n=self.n, d=self.d, m=self.m, c=self.c, seed=self.seed, regularizer=penalty)


@dataclass(frozen=True)
class Libsvm(ProblemRecipe):
    """Logistic regression with an intercept on n clients, prepared as the authors did.

    Of mushrooms and phishing the first 90% of the rows; shuffled; equal blocks; the rest is dropped.
    """

    name: str
    seed: int
    n: int = 300
    intercept: bool = True

    first: ClassVar[dict[str, float]] = {"mushrooms": 0.9, "phishing": 0.9}
    dtype: ClassVar[type[np.floating[Any]]] = np.float64

    @property
    def slug(self) -> str:
        return self.name if self.intercept else f"{self.name}-no-intercept"

    def check(self) -> None:
        find(self.name)

    def make(self) -> Problem:
        A, y = ef.load(self.name)
        rows = int(self.first.get(self.name, 1.0) * A.shape[0])
        clients = ef.Shuffled(self.n, seed=self.seed)
        return ef.logistic(A[:rows], y[:rows], clients=clients, intercept=self.intercept, dtype=self.dtype)

    def start(self, problem: Problem) -> PerColumn:
        """Uniform in [-sqrt(1/D), sqrt(1/D)], as a linear layer of PyTorch starts; D: columns, intercept included."""
        side = np.sqrt(1.0 / problem.width)
        return np.random.default_rng(self.seed).uniform(-side, side, problem.width)

    @property
    def published_d(self) -> int:
        """d as the paper counts it: with the intercept and a column that is always empty."""
        return KNOWN[self.name].features + 2


@dataclass(frozen=True)
class LibsvmFP32(Libsvm):
    """The same in single precision, as the paper computed it: data, memory, messages and the model."""

    dtype: ClassVar[type[np.floating[Any]]] = np.float32

    @property
    def slug(self) -> str:
        return f"{super().slug}-fp32"


@dataclass(frozen=True)
class PenalisedLogistic(ProblemRecipe):
    """Logistic regression with the nonconvex penalty lam sum_j x_j^2/(1 + x_j^2), without an intercept, on n clients with
    equal parts of the shuffled rows: the problem of EF21's own experiments."""

    name: str
    n: int
    seed: int
    lam: float = 0.1

    @property
    def slug(self) -> str:
        return f"{self.name}-nonconvex-n{self.n}"

    def check(self) -> None:
        find(self.name)

    def make(self) -> Problem:
        A, y = ef.load(self.name)
        return ef.logistic(A, y, clients=ef.Shuffled(self.n, seed=self.seed), regularizer=ef.NonconvexPenalty(self.lam))


@dataclass(frozen=True)
class Images(ProblemRecipe):
    """The linear auto-encoder on n clients over images with pixels in [0, 1]."""

    smooth: ClassVar[bool] = False
    source: str
    n: int
    code: int
    seed: int

    @property
    def slug(self) -> str:
        return f"autoencoder-{self.source}-n{self.n}"

    def check(self) -> None:
        if self.source == "mnist" and mnist_file() is None:
            raise FileNotFoundError(
                f"{MNIST}[.gz] (MNIST's 10,000 test digits) is not in the folder of {VARIABLE} "
                f"({os.environ.get(VARIABLE, 'not set')}) nor in its subfolders"
            )

    def make(self) -> Problem:
        return ef.autoencoder(SOURCES[self.source](), clients=ef.Shuffled(self.n, seed=self.seed), code=self.code)

    def start(self, problem: Problem) -> PerColumn:
        """D and E start as linear layers of PyTorch do: uniform in +-1/sqrt(inputs). (0 would be a stationary point.)"""
        half = problem.d // 2
        rng = np.random.default_rng(self.seed)
        D = rng.uniform(-1, 1, half) / np.sqrt(self.code)
        E = rng.uniform(-1, 1, half) / np.sqrt(half / self.code)
        return np.concatenate([D, E])


@dataclass(frozen=True)
class ThreeClients(ProblemRecipe):
    """Beznosikov et al. (2020), example 1: f_i = <a_i, x>^2 + ||x||^2/4, on which Top1 alone diverges for every gamma > 0.

    At x = t (1, 1, 1) every client's largest entry pulls away from the solution 0, and x stays on that line.
    """

    vectors: ClassVar[Floats] = np.array([[-3.0, 2.0, 2.0], [2.0, -3.0, 2.0], [2.0, 2.0, -3.0]])

    @property
    def slug(self) -> str:
        return "three-clients"

    def make(self) -> Problem:
        # (1/m) ||A_i x||^2 with m = 4 rows
        A = np.vstack([2.0 * np.vstack([a, np.eye(3) / 2]) for a in self.vectors])
        return ef.least_squares(A, np.zeros(12), clients=3)

    def start(self, problem: Problem) -> PerColumn:
        return np.ones(3)


def mnist_file() -> Path | None:
    """The images of MNIST's test part, where the user's data folder has them."""
    folder = os.environ.get(VARIABLE)
    if folder is None:
        return None
    paths = [path for suffix in ("", ".gz") for path in sorted(Path(folder).rglob(MNIST + suffix)) if path.is_file()]
    return paths[0] if paths else None


def _digits() -> Floats:
    images: Any = import_module("sklearn.datasets").load_digits().data
    return np.asarray(images, dtype=np.float64) / 16.0


def _mnist() -> Floats:
    path = mnist_file()
    if path is None:
        raise FileNotFoundError(f"{MNIST}[.gz] is not in the folder of {VARIABLE}")
    return read_idx(path) / 255.0


SOURCES = {"digits": _digits, "mnist": _mnist}


def read_idx(path: Path) -> Floats:
    """The images of an idx3 file (plain or gzip), one per row."""
    raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    magic, count, height, width = struct.unpack(">IIII", raw[:16])
    if magic != 2051 or len(raw) != 16 + count * height * width:
        raise ValueError(
            f"{path}: not an idx file of images (magic {magic}, {len(raw)} bytes); expected 2051 and their bytes"
        )
    return np.frombuffer(raw, dtype=np.uint8, offset=16).reshape(count, height * width).astype(np.float64)
