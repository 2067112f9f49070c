"""Clicks of users on items: who meets which item as in `natural` (Zipf popularity, activity that varies a hundredfold), and
what they think of it from a model of tastes that no linear model has:

    P(user u likes item i) = sigmoid(steep <p_u, q_i> + b_u + b_i),        p_u, q_i of `factors` numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from racing.natural import Vector, Whole, natural


@dataclass(frozen=True, eq=False)
class Feedback:
    """One row per pair of user and item that met; users are clients."""

    user: Whole
    item: Whole
    liked: Vector
    """0 or 1."""
    part: Whole
    """0: train, 1: validation, 2: test."""
    users: int
    items: int


def feedback(
    *, users: int, items: int, seed: int, c: int | None = None, zipf: float = 0.5, factors: int = 2, steep: float = 3.0
) -> Feedback:
    """Of every user's pairs about a fifth is for testing and a tenth for validation, the rest for training.

    >>> made = feedback(users=30, items=200, seed=0)
    >>> made.users, bool((np.bincount(made.user[made.part == 0], minlength=30) > 0).all())
    (30, True)
    """
    made = natural(clients=users, items=items, own=users, seed=seed, c=c, zipf=zipf, spread=30.0, repeats=1.0)
    A = made.A[:, :items].tocoo()
    pairs = np.unique(made.clients[A.row] * items + A.col)
    user, item = pairs // items, pairs % items
    draw = np.random.default_rng([seed, 1])
    p, q = draw.standard_normal((users, factors)), draw.standard_normal((items, factors))
    logits = steep * (p[user] * q[item]).sum(1) / np.sqrt(factors)
    logits += 0.5 * draw.standard_normal(users)[user] + 0.5 * draw.standard_normal(items)[item]
    liked = (draw.random(len(pairs)) < 1 / (1 + np.exp(-logits))).astype(np.float64)
    part = np.digitize(draw.random(len(pairs)), [0.7, 0.8])
    part[np.unique(user, return_index=True)[1]] = 0  # everybody has something to train with
    return Feedback(user, item, liked, part, users, items)
