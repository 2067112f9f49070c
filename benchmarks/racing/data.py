"""The data of the race: LIBSVM's small sets, text, and natural clients; and the ways to deal rows to clients."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_digits

import errorfeedback as ef
from racing.natural import Natural, natural
from racing.objective import Objective, Vector, Whole, objective

PARTITIONS = ("shuffled", "by-label", "natural")


@dataclass(frozen=True)
class Entry:
    """A data set, and how many clients share it where nobody says otherwise; 0: it has clients of its own."""

    load: Callable[[int], tuple[sparse.csr_array, Vector, Whole | None]]
    """Rows, labels and clients for a seed."""
    clients: int = 0
    by_name: bool = False
    """Only raced where it is asked for by name."""


def shuffled(rows: int, n: int, seed: int) -> Whole:
    """A client for every row: at random, with sizes that differ by at most one.

    >>> np.bincount(shuffled(7, 3, seed=0)).tolist()
    [3, 2, 2]
    """
    ids = np.empty(rows, dtype=np.int64)
    ids[np.random.default_rng(seed).permutation(rows)] = np.arange(rows) % min(n, rows)
    return ids


def by_label(y: Vector, n: int, seed: int) -> Whole:
    """A client for every row: rows shuffled, sorted by label, and cut into equal parts: most clients see one class.

    >>> by_label(np.array([1, 0, 1, 0]), 2, seed=0).tolist()
    [1, 0, 1, 0]
    """
    order = np.random.default_rng(seed).permutation(len(y))
    order = order[np.argsort(y[order], kind="stable")]
    ids = np.empty(len(y), dtype=np.int64)
    ids[order] = np.arange(len(y)) * min(n, len(y)) // len(y)
    return ids


def known(name: str) -> Callable[[int], tuple[sparse.csr_array, Vector, None]]:
    return lambda _: (*ef.load(name), None)


def text(file: str, halves: bool = False) -> Callable[[int], tuple[sparse.csr_array, Vector, None]]:
    """A LIBSVM file in the folder of ERRORFEEDBACK_DATA; with `halves` the first ten classes against the rest."""

    def load(_: int) -> tuple[sparse.csr_array, Vector, None]:
        folder = Path(os.environ.get("ERRORFEEDBACK_DATA", "."))
        found = sorted(folder.rglob(file))
        if not found:
            raise FileNotFoundError(f"{file} is not in the folder that ERRORFEEDBACK_DATA names")
        A, y = ef.load(found[0])
        return A, np.where(y <= 10, 1.0, -1.0) if halves else y, None

    return load


def bundled(
    load: Callable[..., tuple[Vector, Vector]], above: int = 0
) -> Callable[[int], tuple[sparse.csr_array, Vector, None]]:
    """Dense rows that scikit-learn brings, in the units that they have; classes above that number against the rest."""

    def rows(_: int) -> tuple[sparse.csr_array, Vector, None]:
        A, y = load(return_X_y=True)
        return sparse.csr_array(A), np.where(y > above, 1.0, -1.0), None

    return rows


def generated(**shape: object) -> Callable[[int], tuple[sparse.csr_array, Vector, Whole]]:
    def load(seed: int) -> tuple[sparse.csr_array, Vector, Whole]:
        made: Natural = natural(**shape, seed=seed)  # type: ignore[arg-type]
        return made.A, made.y, made.clients

    return load


DATA = {
    "phishing": Entry(known("phishing"), 100),
    "a9a": Entry(known("a9a"), 300),
    "mushrooms": Entry(known("mushrooms"), 100),
    "w5a": Entry(known("w5a"), 100),
    "rcv1": Entry(text("rcv1_small.xz"), 100),
    "news20": Entry(text("news20.bz2", halves=True), 100),
    "clicks": Entry(generated(clients=200, items=5_000, own=10_000)),
    "reviews": Entry(generated(clients=500, items=40_000, own=20_000, values="weights")),
    "sites": Entry(generated(clients=10, items=20_000, own=5_000)),
    "million": Entry(generated(clients=2_000, items=600_000, own=400_000), by_name=True),
    "cancer": Entry(bundled(load_breast_cancer), 10, by_name=True),
    "digits": Entry(bundled(load_digits, above=4), 20, by_name=True),
}


def problem(name: str, *, seed: int, partition: str | None = None, n: int | None = None) -> Objective:
    """The objective of a data set. The partition is the data's own, or shuffled where it has none; `n` clients need one."""
    entry = DATA[name]
    A, y, ids = entry.load(seed)
    kind = partition or ("natural" if ids is not None and n is None else "shuffled")
    if kind == "natural":
        if ids is None:
            raise ValueError(f"{name} has no clients of its own; deal its rows shuffled or by-label")
        return objective(A, y, ids)
    n = n or entry.clients or len(np.unique(ids))
    return objective(A, y, shuffled(len(y), n, seed) if kind == "shuffled" else by_label(y, n, seed))
