"""A start from the clients' own models (ours; one-shot averaging after Zhang, Duchi and Wainwright 2013, weighted by
curvature as by Fisher information).

Before round 0 every client with at least half as many rows as features, and more than one target, solves its own problem and
says where that led, in few bits, with how sharply its loss bends there:

    w_i = argmin_w f_i(w) + (a_i/2) sum_{j in J_i} (l2_j + 3 s_ij / m_i) w_j^2,
    x0_j = sum_i H_ij w_ij / sum_i H_ij,      H_i = diag of the Hessian of f_i at w_i + a_i l2,

a_i what client i weighs in f (1 where all weigh the same), m_i its rows. x0 is the minimum of the sum of the clients'
quadratic models with diagonals for Hessians. The penalty is a prior that weighs as much as three rows, in the units of the
scale (`problems.scaling`, by this client's rows alone): s_ij = t_i (h_ij / t_i)^p with h_ij the bound on the curvature of
feature j, t_i what it would typically be if the feature were in every row, and p = 1 for a feature of most rows, else 1/2.
Without it a client of as many rows as features fits its noise.

Where clients have many rows of one kind, x0 is near the minimum; where they differ, or have few rows, it is a start like
another one. The other clients say nothing, and where those that speak weigh less than half of all, runs begin at zero.

Up: f_i(0) in 32 bits (progress is counted from f(0)), one bit (whether it says more), a unit, 8 bits for every
w_j sqrt(e_j) with e_j the power of two that the scale says of its curvature anyway, and 3 bits for H_j / e_j, a power of two
from 1/128 to 1. Down: x0, as a step from zero, in as few bits as cost at most a tenth of the clients' disagreement about it
(`Averaged.begin`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from errorfeedback.core import Floats, Lifted, Model, PerClient, PerColumn, PerRow
from errorfeedback.problems.conversation import Conversation, alone
from errorfeedback.problems.glm import GLM, per_client
from errorfeedback.problems.scaling import Scaled, added, curvatures, density
from errorfeedback.runtime.begin import Begin
from errorfeedback.wire.codebook import MENU, Codebook

FEWEST = 0.5
"""Rows for every feature of a client that says anything."""
PRIOR = 3.0
"""What the prior weighs, in rows."""
WORDS = Codebook(8, 3)
UNIT_BITS, BEND_BITS, LOSS_BITS = 16, 3, 32
NEWTON, CG, RESIDUAL = 4, 10, 0.1
"""Newton steps, the most steps of conjugate gradients in each, and the share of the residual that ends them earlier."""
ARMIJO, HALVINGS = 1e-4, 6
DISAGREEMENT = 0.1


@dataclass(frozen=True, eq=False)
class Averaged:
    """The mean of the clients' own models, and what is known of it."""

    x: Model
    """(d,): zero where too few have said what theirs is."""
    curvature: Model
    """(d,): sum_i H_ij."""
    noise: float
    """The clients' disagreement: sum_j (1/(c_j - 1)) sum_i H_ij (w_ij - x_j)^2, which x has of it in expectation."""
    zero: float
    """f(0)."""
    bits: int
    """That all clients have sent."""

    def begin(self, scaling: Scaled) -> Begin:
        """In the variable z = x / S."""
        return Begin(self._rounded(scaling), self.bits, self.zero)

    def _rounded(self, scaling: Scaled) -> PerColumn:
        """z = x / S in the coarsest coding of a step whose rounding costs at most a tenth of the noise; the same bits when
        it is rounded again."""
        z, weights = Model(self.x / scaling.scale), self.curvature * scaling.scale**2
        for coding in MENU:
            rounded = _settled(coding, z)
            if weights @ (rounded - z) ** 2 <= DISAGREEMENT * self.noise:
                break
        return scaling.extend(rounded, np.zeros(scaling.width))


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
    penalty = np.broadcast_to(np.asarray(l2, dtype=np.float64), (rows.width,))[rows.columns]
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # it is looked at below what came of it
        s, said = rows.support, _said(rows, penalty)
    mine = np.repeat(said.speaks, s.sizes)
    everyone = yield s.indices[mine], said.models[mine], said.bends[mine], said.weights, said.zero, said.bits
    owns, models, bends, weights, losses, bits = zip(*everyone, strict=True)
    zero, nowhere = float(np.concatenate(losses).mean(dtype=np.float64)), Model(np.zeros(s.d))
    speaking, all_ = np.concatenate(weights).sum(axis=0)
    if speaking < all_ / 2:
        return Averaged(nowhere, nowhere, 0.0, zero, sum(bits))
    curvature = added(s.d, owns, bends)
    pulls = added(s.d, owns, [bend * model for bend, model in zip(bends, models, strict=True)])
    x = Model(np.divide(pulls, curvature, out=np.zeros(s.d), where=curvature > 0))
    words = zip(owns, models, bends, strict=True)
    with np.errstate(over="ignore", invalid="ignore"):
        spread = added(s.d, owns, [bend * (model - x[own]) ** 2 for own, model, bend in words])
    counts = added(s.d, owns, [np.ones(len(own)) for own in owns])
    noise = float((spread / np.maximum(counts - 1, 1)).sum())
    if not np.isfinite(noise):  # numbers beyond what a float can square
        return Averaged(nowhere, nowhere, 0.0, zero, sum(bits))
    return Averaged(x, Model(curvature), noise, zero, sum(bits))


@dataclass(frozen=True, eq=False)
class Said:
    """What the clients of one place say."""

    speaks: NDArray[np.bool_]
    """(n,): who says anything."""
    models: Lifted
    """w_i, rounded."""
    bends: Lifted
    """H_i, rounded."""
    weights: Floats
    """(n, 2): what a client weighs in f where it speaks, and in any case."""
    zero: Floats
    """(n,): f_i(0), rounded to single precision."""
    bits: int


def _said(rows: GLM, l2: Floats) -> Said:
    s, m, weights = rows.support, np.diff(rows.rows), per_client(rows.shares, rows.rows)
    highest, lowest = (extreme.reduceat(rows.target, rows.rows[:-1]) for extreme in (np.maximum, np.minimum))
    speaks = (m >= FEWEST * s.sizes) & (lowest < highest)
    bounds = curvatures(rows)
    penalty = Lifted(s.repeat(weights) * l2[s.indices])
    prior = Lifted(_units(rows, bounds) * s.repeat(PerClient(PRIOR / m)))
    w, z = local_models(rows, Lifted(penalty + prior), NEWTON if speaks.any() else 0)
    exact = bends_at(rows, z) + penalty
    powers = np.exp2(np.rint(np.log2(bounds)))
    ratio = np.clip(np.rint(np.log2(exact / powers)), 1 - 2**BEND_BITS, 0)
    models = WORDS.rounded(w * np.sqrt(powers), s.sizes)[0] / np.sqrt(powers)
    bits = rows.n * (1 + LOSS_BITS) + int((speaks * (UNIT_BITS + (WORDS.each + BEND_BITS) * s.sizes)).sum())
    zero = _values(rows, penalty, Lifted(np.zeros_like(w)), np.zeros_like(z)).astype(np.float32).astype(np.float64)
    both = np.column_stack([weights * speaks, weights])
    return Said(speaks, Lifted(models), Lifted(powers * np.exp2(ratio)), both, zero, bits)


def _units(rows: GLM, bounds: Lifted) -> Lifted:
    """a_i s_ij: the curvature that the scale would bring to 1, by a client's own rows."""
    logs, dense = density(rows, bounds)
    typical = rows.support.repeat(PerClient(np.exp2(logs)))
    return Lifted(typical * (bounds / typical) ** np.where(dense > 0, 1.0, 0.5))


def bends_at(rows: GLM, z: PerRow) -> Lifted:
    """The diagonals of the clients' Hessians where their predictions are z."""
    A, bends = rows.lifted, rows.loss.bends(z, rows.target)
    assert bends is not None, "who asks has looked whether it bends"
    return Lifted(sparse.csr_array((A.data**2, A.indices, A.indptr), shape=A.shape).T @ (bends * rows.shares))


def local_models(rows: GLM, penalty: Lifted, steps: int) -> tuple[Lifted, PerRow]:
    """About argmin f_i(w) + (1/2) sum_j penalty_j w_j^2 of every client, all at once, after so many Newton steps from zero
    with conjugate gradients; and the predictions there."""
    s, w, z = rows.support, Lifted(np.zeros(rows.support.size)), np.zeros(len(rows.target))
    value = _values(rows, penalty, w, z)
    for _ in range(steps):
        slopes = np.empty_like(z)
        rows.loss.slopes(z, rows.target, rows.shares, slopes)
        g = Lifted(rows.lifted.T @ slopes + penalty * w)
        p, zp = _newton_step(rows, penalty, z, g)
        slope, t = s.sums(Lifted(g * p)), np.ones(rows.n)
        for _ in range(HALVINGS):
            there, seen = Lifted(w + s.repeat(PerClient(t)) * p), z + np.repeat(t, np.diff(rows.rows)) * zp
            new = _values(rows, penalty, there, seen)
            refused = ~(new <= value + ARMIJO * t * slope)
            if not refused.any():
                break
            t = np.where(refused, t / 2, t)
        w = Lifted(np.where(np.repeat(refused, s.sizes), w, there))
        z = np.where(np.repeat(refused, np.diff(rows.rows)), z, seen)
        value = PerClient(np.where(refused, value, new))
    return w, z


def _values(rows: GLM, penalty: Lifted, w: Lifted, z: PerRow) -> PerClient:
    losses = np.add.reduceat(rows.loss.values(z, rows.target) * rows.shares, rows.rows[:-1], dtype=np.float64)
    return PerClient(losses + rows.support.sums(Lifted(penalty / 2 * w**2)))


def _newton_step(rows: GLM, penalty: Lifted, z: PerRow, g: Lifted) -> tuple[Lifted, PerRow]:
    """About -(H_i + diag(penalty))^-1 g_i of every client, and how predictions move along it; a client that is near enough
    waits for the others."""
    s, A, counts = rows.support, rows.lifted, np.diff(rows.rows)
    bends = rows.loss.bends(z, rows.target)
    assert bends is not None, "who asks has looked whether it bends"
    weights, diagonal = bends * rows.shares, bends_at(rows, z) + penalty
    p, zp, r = np.zeros_like(g), np.zeros_like(z), -g
    y = r / diagonal
    d, left = y.copy(), s.sums(Lifted(r * y))
    enough = RESIDUAL**2 * left
    for _ in range(CG):
        zd = A @ d
        Hd = A.T @ (weights * zd) + penalty * d
        curved = s.sums(Lifted(d * Hd))
        live = (left > enough) & (curved > 0)
        if not live.any():
            break
        a = np.divide(left, curved, out=np.zeros(rows.n), where=live)
        p += s.repeat(PerClient(a)) * d
        zp += np.repeat(a, counts) * zd
        r -= s.repeat(PerClient(a)) * Hd
        y = r / diagonal
        after = s.sums(Lifted(r * y))
        d = y + s.repeat(PerClient(np.divide(after, left, out=np.zeros(rows.n), where=live))) * d
        left = after
    return Lifted(p), zp


def _settled(coding: Codebook, z: Model) -> Model:
    """Rounded until it is the same when it is rounded again (a coarser unit may take two)."""
    while True:
        rounded = Model(coding.rounded(z, np.array([len(z)]))[0])
        if np.array_equal(rounded, z):
            return rounded
        z = rounded
