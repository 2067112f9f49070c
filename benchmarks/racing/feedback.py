"""Clicks of users on items: who meets which item as in `natural` (Zipf popularity, activity that varies thirtyfold), and
what they think of it from a model of tastes that no linear model has:

    P(user u likes item i) = sigmoid(3 <p_u, q_i> / sqrt(2) + b_u + b_i),        p_u, q_i of two numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from racing.natural import Vector, Whole, natural

FACTORS, STEEP, BIAS = 2, 3.0, 0.5
TRAIN, VALID, TEST = 0, 1, 2
Rows = tuple[Whole, Whole, Vector]
"""Users, items, and whether they liked them (0 or 1)."""


@dataclass(frozen=True, eq=False)
class Feedback:
    """One row per pair of user and item that met; users are clients."""

    user: Whole
    item: Whole
    liked: Vector
    part: Whole
    """TRAIN, VALID or TEST."""
    users: int
    items: int

    def rows(self, part: int) -> Rows:
        """The rows of a part."""
        mine = self.part == part
        return self.user[mine], self.item[mine], self.liked[mine]

    def clients(self) -> list[Rows]:
        """Every user's rows to train with."""
        user, item, liked = self.rows(TRAIN)
        ends = np.cumsum(np.bincount(user, minlength=self.users))[:-1]
        return list(zip(*(np.split(column, ends) for column in (user, item, liked)), strict=True))


def feedback(*, users: int, items: int, seed: int) -> Feedback:
    """The most popular item was met by half of the users. Of every user's pairs about a fifth is for testing and a tenth for
    validation, the rest for training; users that met nothing are left out.

    >>> made = feedback(users=30, items=200, seed=0)
    >>> len(made.clients()), min(len(liked) for *_, liked in made.clients()) > 0
    (30, True)
    """
    made = natural(clients=users, items=items, own=users, seed=seed, c=users // 2, zipf=0.4, spread=30.0, repeats=1.0)
    A = made.A[:, :items].tocoo()
    user, item = np.divmod(np.unique(made.clients[A.row] * items + A.col), items)
    draw = np.random.default_rng([seed, 1])
    p, q = draw.standard_normal((users, FACTORS)), draw.standard_normal((items, FACTORS))
    logits = STEEP * (p[user] * q[item]).sum(1) / np.sqrt(FACTORS)
    logits += BIAS * (draw.standard_normal(users)[user] + draw.standard_normal(items)[item])
    liked = (draw.random(len(user)) < 1 / (1 + np.exp(-logits))).astype(np.float64)
    part = np.digitize(draw.random(len(user)), [0.7, 0.8])
    part[np.unique(user, return_index=True)[1]] = TRAIN  # everybody has something to train with
    met, number = np.unique(user, return_inverse=True)
    return Feedback(number, item, liked, part, len(met), items)
