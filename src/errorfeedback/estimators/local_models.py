"""A start from the clients' own models (ours; one-shot averaging after Zhang, Duchi and Wainwright 2013, weighted by
curvature as by Fisher information).

Before round 0 every client that learns something from its rows solves its own problem and says where that led, in few bits,
with how sharply its loss bends there:

    w_i = argmin_w f_i(w) + (a_i/2) sum_{j in J_i} (l2_j + q_i s_ij / m_i) w_j^2,
    x0_j = sum_i H_ij w_ij / sum_i H_ij,      H_i = diag of the Hessian of f_i at w_i + a_i l2,

a_i what client i weighs in f (1 where all weigh the same), m_i its rows. x0 is the minimum of the sum of the clients'
quadratic models with diagonals for Hessians. The penalty is a prior that weighs as much as q_i rows, in the units of the
scale (`problems.scaling`, by this client's rows alone): s_ij = t_i (h_ij / t_i)^p with h_ij the bound on the curvature of
feature j, t_i what it would typically be if the feature were in every row, and p = 1 for a feature of most rows, else 1/2.
Without it a client of as many rows as features fits its noise. Each client chooses its own: fitted to one half of its rows,
a model predicts the other half best with 3 q_i of `PRIORS`. A third of that is taken, because the mean over clients is a
remedy against noise, and against nothing else: it wants less of a prior than any of its members (Zhang, Duchi and
Wainwright 2015). A client says nothing where that model's loss, on the rows that it was not fitted to, falls from that of
zero by less than a third of what it falls by on the others, both halves weighing the same, or where it has one target only.

Where clients have many rows of one kind, x0 is near the minimum; where they differ, it is a start like another one.

Where those that speak weigh less than half of all, the mean of models says little, and the run begins at zero.

Up: f_i(0) (progress is counted from f(0)) and a_i in 32 bits each, one bit (whether it says more), a unit, 8 bits for every
w_j sqrt(e_j) with e_j the power of two that the scale says of its curvature anyway, and 3 bits for H_j / e_j, a power of two
from 1/128 to 1. Down: x0, as a step from zero, in 10 bits a number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from errorfeedback.core import Floats, Integers, Lifted, Model, PerClient, PerColumn, PerRow
from errorfeedback.problems.conversation import Conversation, alone
from errorfeedback.problems.glm import GLM, per_client
from errorfeedback.problems.local_fits import LocalFits
from errorfeedback.problems.scaling import Scaled, added, curvatures, density
from errorfeedback.runtime.begin import Begin
from errorfeedback.wire.codebook import Codebook

PRIORS, OF_BEST = (10.0, 1.0), 1 / 3
"""Rows that a prior may weigh, from the strongest on, and the share of the best one's that is taken."""
KEPT = 1 / 3
"""What a model has to be worth on rows that it was not fitted to, as a share of what it is on those that it was."""
NEWTON, SOLVED = 8, 0.003
"""The most Newton steps of a fit, and what it may leave, as a share of its luck."""
WORDS, FIRST = Codebook(8, 3), Codebook(10, 5)
"""How a client says its model, and the server where the run begins."""
UNIT_BITS, BEND_BITS, LOSS_BITS, WEIGHT_BITS = 16, 3, 32, 32


@dataclass(frozen=True, eq=False)
class Averaged:
    """The mean of the clients' own models."""

    x: Model
    """(d,): zero where too few have said what theirs is, or it is not finite."""
    zero: float
    """f(0)."""
    bits: int
    """That all clients have sent, in their first message."""

    def begin(self, scaling: Scaled) -> Begin:
        """In the variable z = x / S; at zero where that is beyond a float."""
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            z = Model(self.x / scaling.scale)
        z = _settled(FIRST, z) if np.isfinite(z).all() else Model(np.zeros_like(z))
        since = self.zero if 0 < self.zero < np.inf else np.nan  # too large or too small for 32 bits
        return Begin(scaling.extend(z, np.zeros(scaling.width)), self.bits, since)


def averaged(rows: GLM, l2: float | PerColumn = 0.0) -> Averaged:
    """The mean of the clients' own models.

    >>> import errorfeedback as ef
    >>> A, x = np.random.default_rng(0).standard_normal((400, 3)), np.array([1.0, -2.0, 0.5])
    >>> bool(np.allclose(averaged(ef.least_squares(A, A @ x, clients=4)).x, x, rtol=0.1))
    True
    """
    return alone(lambda seat: averaged_with_all(rows, l2))


def averaged_with_all(rows: GLM, l2: float | PerColumn) -> Conversation[Averaged]:
    """The same where `rows` has the clients of one place."""
    ridge = np.broadcast_to(np.asarray(l2, dtype=np.float64), (rows.width,))[rows.columns]
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # it is looked at below what came of it
        s, mine = rows.support, Speakers.of(rows, ridge)
        learn, zeros = mine.learn, mine.zero
        said = mine.said(learn)
    weights = np.column_stack([mine.weights * learn, mine.weights]).astype(np.float32).astype(np.float64)
    everyone = yield *said, weights, zeros
    *models, all_weights, losses = zip(*everyone, strict=True)
    zero, bits = float(np.concatenate(losses).mean(dtype=np.float64)), s.n_total * (1 + LOSS_BITS + WEIGHT_BITS)
    speaking, all_ = np.concatenate(all_weights).sum(axis=0)
    x = _mean(s.d, *models[:3]) if speaking >= all_ / 2 else Model(np.zeros(s.d))
    return Averaged(x, zero, bits + sum(models[3]))


def _mean(d: int, owns: Sequence[Integers], models: Sequence[Floats], bends: Sequence[Floats]) -> Model:
    """x0; zero where it is not finite."""
    curvature = added(d, owns, bends)
    pulls = added(d, owns, [bend * model for bend, model in zip(bends, models, strict=True)])
    x = Model(np.divide(pulls, curvature, out=np.zeros(d), where=curvature > 0))
    return x if np.isfinite(x).all() else Model(np.zeros(d))


@dataclass(frozen=True, eq=False)
class Speakers:
    """The clients of one place, before they say anything."""

    fits: LocalFits
    weights: PerClient
    """a_i."""
    bounds: Lifted
    """h_ij: bounds on the curvature of their features."""
    row: Lifted
    """What a prior of one row weighs."""
    penalty: Lifted
    """a_i l2_j."""
    trial: HalfFit

    @classmethod
    def of(cls, rows: GLM, l2: Floats) -> Speakers:
        s, fits, weights, bounds = rows.support, LocalFits(rows), per_client(rows.shares, rows.rows), curvatures(rows)
        penalty = Lifted(s.repeat(weights) * l2[s.indices])
        row = Lifted(_units(rows, bounds) * s.repeat(PerClient(1 / np.diff(rows.rows))))
        return cls(fits, weights, bounds, row, penalty, _tried(fits, penalty, row))

    @property
    def learn(self) -> NDArray[np.bool_]:
        """(n,): who learns something from its rows."""
        rows = self.fits.rows
        highest, lowest = (extreme.reduceat(rows.target, rows.rows[:-1]) for extreme in (np.maximum, np.minimum))
        return self.trial.worth & (lowest < highest)

    @property
    def zero(self) -> Floats:
        """(n,): f_i(0), rounded to single precision."""
        rows = self.fits.rows
        return self.fits.losses(rows.shares, np.zeros(len(rows.target))).astype(np.float32).astype(np.float64)

    def said(self, who: NDArray[np.bool_]) -> tuple[Integers, Lifted, Lifted, int]:
        """Of some: the features, the models and how they bend, both rounded, and in how many bits."""
        rows, s, fits, trial = self.fits.rows, self.fits.rows.support, self.fits, self.trial
        prior = s.repeat(PerClient(OF_BEST * trial.prior)) * self.row
        w, z = fits.minima(rows.shares, Lifted(self.penalty + prior), trial.model, NEWTON, trial.enough, who)
        exact = fits.diagonals(rows.shares, z) + self.penalty
        powers = np.exp2(np.rint(np.log2(self.bounds)))
        ratio = np.clip(np.rint(np.log2(exact / powers)), 1 - 2**BEND_BITS, 0)
        models = WORDS.rounded(w * np.sqrt(powers), s.sizes)[0] / np.sqrt(powers)
        bits, mine = (who * (UNIT_BITS + (WORDS.each + BEND_BITS) * s.sizes)).sum(), np.repeat(who, s.sizes)
        return s.indices[mine], Lifted(models[mine]), Lifted((powers * np.exp2(ratio))[mine]), int(bits)


@dataclass(frozen=True, eq=False)
class HalfFit:
    """What one half of every client's rows says of the other half."""

    prior: PerClient
    """The rows that a prior weighs with which it says most."""
    gain: PerClient
    """By how much the loss on the other half is below that of zero, with this prior."""
    own_gain: PerClient
    """The same on the half that it was fitted to."""
    model: Lifted

    @property
    def worth(self) -> NDArray[np.bool_]:
        return (self.gain > 0) & (self.gain >= KEPT * self.own_gain)

    @property
    def enough(self) -> PerClient:
        """What a fit may leave: little beside its luck, which is what it is better by on its own rows than on others."""
        return PerClient(SOLVED * np.maximum(self.own_gain - self.gain, SOLVED * self.own_gain))


def _tried(fits: LocalFits, penalty: Lifted, row: Lifted) -> HalfFit:
    """A Newton step for every prior, from the strongest on; `row`: what a prior of one row weighs."""
    rows, s = fits.rows, fits.rows.support
    halves = [_weighing_half(rows, part) for part in _halved(rows)]
    before = [fits.losses(half, np.zeros(len(rows.target))) for half in halves]
    w, nothing, everybody = Lifted(np.zeros(s.size)), PerClient(np.zeros(rows.n)), np.ones(rows.n, dtype=np.bool_)
    best = HalfFit(PerClient(nothing + PRIORS[0]), PerClient(nothing - np.inf), nothing, w)
    for prior in PRIORS:
        w, z = fits.minima(halves[0], Lifted(penalty / 2 + prior * row), w, 1, nothing, everybody)
        own_gain, gain = (zero - fits.losses(half, z) for zero, half in zip(before, halves, strict=True))
        better = gain > best.gain
        best = HalfFit(
            prior=PerClient(np.where(better, prior, best.prior)),
            gain=PerClient(np.where(better, gain, best.gain)),
            own_gain=PerClient(np.where(better, own_gain, best.own_gain)),
            model=Lifted(np.where(np.repeat(better, s.sizes), w, best.model)),
        )
    return best


def _halved(rows: GLM) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Two halves of every client's rows: one each of the rows k and k + (m + 1) // 2, by the same coins for all clients."""
    m = np.diff(rows.rows)
    k, apart = np.arange(len(rows.target)) - np.repeat(rows.rows[:-1], m), np.repeat((m + 1) // 2, m)
    coins = np.random.default_rng(0).random(int(m.max() + 1) // 2) < 0.5
    first = coins[k % apart] ^ (k >= apart)
    return first, ~first


def _weighing_half(rows: GLM, part: NDArray[np.bool_]) -> PerRow:
    """The shares of a part of the rows, such that it weighs half of what its client does."""
    shares = rows.shares * part
    whole, here = (per_client(each, rows.rows) for each in (rows.shares, shares))
    return shares * np.repeat(whole / 2 / here, np.diff(rows.rows))


def _units(rows: GLM, bounds: Lifted) -> Lifted:
    """a_i s_ij: the curvature that the scale would bring to 1, by a client's own rows."""
    logs, dense = density(rows, bounds)
    typical = rows.support.repeat(PerClient(np.exp2(logs)))
    return Lifted(typical * (bounds / typical) ** np.where(dense > 0, 1.0, 0.5))


def _settled(coding: Codebook, z: Model) -> Model:
    """Rounded until it is the same when it is rounded again (a coarser unit may take two)."""
    while True:
        rounded = Model(coding.rounded(z, np.array([len(z)]))[0])
        if np.array_equal(rounded, z):
            return rounded
        z = rounded
