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
    """The most popular item was met by half of the users. Pairs that met are for training; about a third of as many others,
    by the same activity and popularity, for validation, and two thirds for testing. Users that met nothing are left out; the
    others are numbered by how much they met, as neighbours of like size make batches with little padding.

    >>> made = feedback(users=30, items=200, seed=0)
    >>> len(made.clients()), min(len(liked) for *_, liked in made.clients()) > 0
    (30, True)
    """
    made = natural(clients=users, items=items, own=users, seed=seed, c=users // 2, zipf=0.25, spread=30.0, repeats=1.0)
    A = made.A[:, :items].tocoo()
    met = np.unique(made.clients[A.row] * items + A.col)
    counts = np.bincount(met // items, minlength=users)
    number = np.argsort(np.argsort(counts, kind="stable")) - np.sum(counts == 0)
    met, users = np.sort(number[met // items] * items + met % items), int(np.sum(counts > 0))
    draw = np.random.default_rng([seed, 1])
    asked = draw.choice(met // items, len(met)) * items + draw.choice(met % items, len(met))
    user, item = np.divmod(np.concatenate([met, np.setdiff1d(asked, met)]), items)
    p, q = draw.standard_normal((users, FACTORS)), draw.standard_normal((items, FACTORS))
    logits = STEEP * (p[user] * q[item]).sum(1) / np.sqrt(FACTORS)
    logits += BIAS * (draw.standard_normal(users)[user] + draw.standard_normal(items)[item])
    liked = (draw.random(len(user)) < 1 / (1 + np.exp(-logits))).astype(np.float64)
    part = np.where(draw.random(len(user)) < 1 / 3, VALID, TEST)
    part[: len(met)] = TRAIN
    return Feedback(user, item, liked, part, users, items)
