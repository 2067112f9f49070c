"""Natural clients: users (or sites) with features of their own and items of Zipf popularity, as in clicks and reviews.

    |I_j| = max(1, round(c (j + 1)^-zipf))       of the item of rank j,
    |I_j| = 1                                    of a user's own features (its ids, its history, its rare words),

and |J_i| in proportion to an activity that varies by a factor of about `spread` between the most and the least active.
Every feature of J_i occurs in at least one of client i's rows; a row has about `per_row` of them. Work is O(nonzeros).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Vector = NDArray[np.float64]
Whole = NDArray[np.int64]
VALUES = ("ones", "weights")


@dataclass(frozen=True, eq=False)
class Natural:
    """Rows, labels (-1 or +1) and the client of every row; the columns are the items by popularity, then own features."""

    A: sparse.csr_array
    y: Vector
    clients: Whole
    owners: Whole
    """|I_j| of every column."""
    sizes: Whole
    """|J_i| of every client."""

    @property
    def c(self) -> int:
        return int(self.owners.max())

    @property
    def r(self) -> int:
        return int(self.sizes.max())


def popularity(items: int, c: int, zipf: float) -> Whole:
    """How many clients have each item.

    >>> popularity(6, 4, 1.0).tolist()
    [4, 2, 1, 1, 1, 1]
    """
    return np.maximum(1, np.rint(c * np.arange(1, items + 1) ** -zipf)).astype(np.int64)


def natural(
    *,
    clients: int,
    items: int,
    own: int,
    seed: int,
    c: int | None = None,
    zipf: float = 0.8,
    spread: float = 100.0,
    per_row: int = 15,
    repeats: float = 4.0,
    rate: float = 0.25,
    values: str = "ones",
) -> Natural:
    """`items` shared features of which the first belongs to c clients (by default all), and `own` features of single
    clients, of which the first n are one for each: a row always has its client's.

    repeats: how often a feature of a client occurs in its rows, on average. rate: the share of +1, about. values: "ones", as
    clicks have them, or "weights": rows of length 1, as texts have them.

    >>> made = natural(clients=20, items=300, own=100, seed=0, c=15)
    >>> made.A.shape[1], made.c, made.r > 10 * int(made.sizes.min())
    (400, 15, True)
    """
    c = clients if c is None else c
    if not (1 <= c <= clients and items >= 1 and own >= clients and values in VALUES):
        raise ValueError(f"c = {c} of {clients} clients, {items} items, {own} own features, values {values!r}: not possible")
    draw = np.random.default_rng(seed)
    activity = spread ** draw.permutation(np.linspace(-0.5, 0.5, clients))
    activity /= activity.sum()
    counts = popularity(items, c, zipf)
    who, what = _owners(draw, counts, activity)
    who = np.concatenate([who, np.arange(clients), draw.choice(clients, size=own - clients, p=activity)])
    what = np.concatenate([what, items + np.arange(own)])
    order = np.lexsort((what, who))
    who, what = who[order], what[order]
    sizes = np.bincount(who, minlength=clients)
    A, rows = _rows(draw, what, sizes, items, items + own, per_row, repeats)
    if values == "weights":
        A.data = draw.lognormal(sigma=0.5, size=A.nnz)
        A.data /= np.repeat(np.sqrt(np.add.reduceat(A.data**2, A.indptr[:-1])), np.diff(A.indptr))
    ids = np.repeat(np.arange(clients), rows)
    return Natural(A, _labels(draw, A, ids, rate), ids, np.bincount(what), sizes)


def _owners(draw: np.random.Generator, counts: Whole, activity: Vector) -> tuple[Whole, Whole]:
    """Pairs (client, item): counts[j] different clients for item j, the active ones more often."""
    n = len(activity)
    popular = np.flatnonzero(counts > n // 10)  # few: one draw without replacement each
    who = [draw.choice(n, size=counts[j], replace=False, p=activity) for j in popular]
    what = [np.repeat(popular, counts[popular])]
    cumulated = np.cumsum(activity)
    pairs = np.empty(0, dtype=np.int64)
    missing = np.repeat(np.arange(len(counts)), np.where(counts > n // 10, 0, counts))
    while len(missing):  # the rest: draw, keep the different ones, draw again for the others
        drawn = np.minimum(np.searchsorted(cumulated, draw.random(len(missing))), n - 1)
        pairs = np.unique(np.concatenate([pairs, missing * n + drawn]))
        short = np.where(counts > n // 10, 0, counts) - np.bincount(pairs // n, minlength=len(counts))
        missing = np.repeat(np.arange(len(counts)), short)
    return np.concatenate([*who, pairs % n]), np.concatenate([*what, pairs // n])


def _rows(
    draw: np.random.Generator, what: Whole, sizes: Whole, items: int, d: int, per_row: int, repeats: float
) -> tuple[sparse.csr_array, Whole]:
    """Every feature of a client once, the others by a law that prefers its popular ones, dealt to its rows at random."""
    rows = np.maximum(2, np.ceil(sizes * repeats / per_row)).astype(np.int64)
    starts, first = np.cumsum(sizes) - sizes, np.cumsum(rows) - rows
    extra = np.rint(sizes * (repeats - 1)).astype(np.int64)
    client = np.concatenate([np.repeat(np.arange(len(sizes)), sizes), np.repeat(np.arange(len(sizes)), extra)])
    skewed = draw.random(extra.sum()) ** 2  # the popular items of a client come first
    owner = client[len(what) :]
    chosen = np.concatenate([what, what[starts[owner] + (skewed * sizes[owner]).astype(np.int64)]])
    row = first[client] + (draw.random(len(client)) * rows[client]).astype(np.int64)
    every = np.arange(rows.sum())  # no row without its user
    user = items + np.repeat(np.arange(len(sizes)), rows)
    found = sparse.coo_array(
        (np.ones(len(row) + len(every)), (np.concatenate([row, every]), np.concatenate([chosen, user]))),
        shape=(len(every), d),
    )
    A = sparse.csr_array(found.tocsr())
    A.data[:] = 1.0
    return A, rows


def _labels(draw: np.random.Generator, A: sparse.csr_array, ids: Whole, rate: float) -> Vector:
    """From a logistic model in which every feature and every user counts."""
    weights = draw.normal(size=A.shape[1])
    logits = A @ weights
    logits = 2 * logits / max(float(logits.std()), 1e-12)
    logits += np.log(rate / (1 - rate)) - np.median(logits)
    return np.where(draw.random(len(ids)) < 1 / (1 + np.exp(-logits)), 1.0, -1.0)
