"""Feature scaling: x = S z with a positive diagonal S leaves Z, hence c, r and alpha, as they are; f(S z) is solved for z.

    S_jj = h^(-1/2) (h_j / h)^(-p_j/2),    h_j = mean over clients of (h' / m_i) sum_rows a_j^2, + l2_j,

where h_j bounds the curvature of feature j (h' that of the loss, l2 that of the server's penalty) and h is a reference: what
curvature a feature would have if it were in every row, the median over features and clients. A loss without a bound has what
it is at the zero model for h'. With p = 1 every feature has
curvature 1 and the scaled L is at most the largest number of nonzeros of a row. That is right for dense features, which come
in any units; but rare ones (words, one-hot) have their units in common, and on text p = 1 takes four times the rounds, as
the curvature of rare words says little of where the loss falls. So by default of training

    p_j = (1 + q_j) / 2,    q_j: the share of clients in most of whose rows feature j is not 0,

rounded to sixths. The numbers of a feature in a model of many outputs have the same bound, and one scale.
It takes one exchange before the first round, with what a client says then anyway (which features it owns). A scale is only
ever needed roughly, so a client sends the powers of two nearest to its sums, and the server answers with the power of
2^(1/4) nearest to S: each as the exponent of the largest one (11 or 13 bits), the width w of an offset (4 or 5 bits), and
|J_i| offsets of w bits below it. With p_j there is one more bit for each feature up and two down, and the reference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numba
import numpy as np
from scipy import sparse

from errorfeedback.core import Floats, Integers, Lifted, Model, PerClient, PerColumn, Point, Sample
from errorfeedback.problems.base import CurvatureBound, Problem, ReadsAhead, Stretchable, as_bounded
from errorfeedback.problems.blocks.base import FAR
from errorfeedback.problems.conversation import Conversation, alone
from errorfeedback.problems.hessians import diagonals, times_outer
from errorfeedback.problems.wrapped import Wrapped
from errorfeedback.sparsity.support import Support, add_at, counted

EXPONENT_BITS, WIDTH_BITS = 11, 4
"""Of the largest exponent, and of the width of an offset; in quarters, the one takes two bits more, the other one."""
PER_OCTAVE = 4
"""The scale is a power of 2^(1/4): half as many cost phishing half as many rounds more."""
HUGE = 2.0**1000
SIXTHS = 6
POWER_BITS = 2
"""p_j is 3, 4, 5 or 6 sixths."""


@dataclass(frozen=True, eq=False, repr=False)
class Scaled(Wrapped, ReadsAhead):
    """The problem `inner` in the variable z = x / scale. Made by `scaled`."""

    scale: Model
    """(d,): the diagonal of S."""
    exchange: tuple[int, int]
    """Bits up and down, all clients together, that it took to agree on S."""
    powers: Model | None = None
    """(d,): p_j; None: 1 for all."""
    reference: float = 1.0
    """h^(-1/2)."""

    @property
    def setup_bits(self) -> tuple[int, int]:
        return self.exchange

    @cached_property
    def _stretched(self) -> Problem | None:
        """The same with S in the data, where that pays."""
        return self.inner.stretched(self.scale) if isinstance(self.inner, Stretchable) else None

    def values(self, at: Point) -> PerClient:
        return self.inner.values(self._inside(at)) if self._stretched is None else self._stretched.values(at)

    def gradients(self, at: Point, out: Lifted, *, rows: Sample | None = None, values: PerClient | None = None) -> None:
        if self._stretched is not None:
            self._stretched.gradients(at, out, rows=rows, values=values)
            return
        self.inner.gradients(self._inside(at), out, rows=rows, values=values)
        self._stretch(out)

    def read_ahead(self, x: Model, work: Lifted) -> bool:
        if self._stretched is not None:
            return isinstance(self._stretched, ReadsAhead) and self._stretched.read_ahead(x, work)
        far = x.nbytes >= FAR and x.shape == (self.d,)
        return far and isinstance(self.inner, ReadsAhead) and self.inner.read_ahead(Model(self.scale * x), work)

    def gradients_after_reading(self, x: Model, out: Lifted, values: PerClient | None) -> None:
        if isinstance(self._stretched, ReadsAhead):
            self._stretched.gradients_after_reading(x, out, values)
            return
        assert isinstance(self.inner, ReadsAhead), "who does not read ahead has not read"
        self.inner.gradients_after_reading(Model(self.scale * x), out, values)
        self._stretch(out)

    def _inside(self, at: Point) -> Point:
        """Where the clients stand in the variable of `inner`."""
        if at.shared is not None:
            return Point(shared=Model(self.scale * at.shared))
        own = Lifted(at.on(self.support.gather).copy())
        self._stretch(own)
        return Point(own=own)

    def _stretch(self, u: Lifted) -> None:
        """u times S, in place."""
        rows = u.reshape(-1, self.support.outputs)
        rows *= self._lifted_scale[:, None]

    @cached_property
    def _lifted_scale(self) -> Lifted:
        """One for all numbers of a feature."""
        return self.support.by_feature.gather(Model(self.scale[:: self.support.outputs]))

    def shard(self, lo: int, hi: int) -> Scaled:
        inner = self.inner.shard(lo, hi)
        return Scaled(
            support=inner.support,
            columns=self.columns,
            width=self.width,
            dtype=self.dtype,
            inner=inner,
            scale=self.scale,
            exchange=self.exchange,
            powers=self.powers,
            reference=self.reference,
        )

    def hessians(self, at: Point, out: Lifted, above: bool = False) -> None:
        self._bent.hessians(self._inside(at), out, above)
        times_outer(out, self.support.gather(Model(self.scale * self.hessian_units)), self.support.indptr)

    def hessian_times(self, at: Point, v: Lifted) -> Lifted:
        stretched = Lifted(v.copy())
        self._stretch(stretched)
        out = self._bent.hessian_times(self._inside(at), stretched)
        self._stretch(out)
        return out

    @property
    def hessian_units(self) -> Model:
        """What is missing to the power 1, with which every diagonal entry is about 1."""
        if self.powers is None:
            return Model(np.ones_like(self.scale))
        return Model((self.scale / self.reference) ** (1.0 / self.powers - 1.0))

    def _changed(self, k: CurvatureBound) -> CurvatureBound:
        if k.diagonal:
            raise ValueError(
                "a scaled problem has no constants with the non-convex penalty: it is not one number per feature"
            )
        scale = self.scale[:: k.outputs]
        return replace(k, A=_columns_times(k.A, scale), lifted=_columns_times(k.lifted, self._lifted_scale))

    def unscaled(self, z: PerColumn) -> PerColumn:
        """x = S z, one entry per column of the data."""
        return on_columns(self, np.multiply, z, self.scale)

    def rescaled(self, x: PerColumn) -> PerColumn:
        """z = x / S, one entry per column of the data."""
        return on_columns(self, np.divide, x, self.scale)

    def __str__(self) -> str:
        return f"{self.inner}; features scaled"


def on_columns(problem: Problem, operation: np.ufunc, x: PerColumn, scale: Model) -> PerColumn:
    """x, one entry per column of the data, multiplied or divided by S where a client has the column."""
    out = np.array(x, dtype=problem.dtype)
    out[problem.columns] = operation(out[problem.columns], scale)
    return out


def scaled(problem: Problem, *, power: float | None = 1.0, l2: float | PerColumn = 0.0) -> Scaled:
    """The `problem` with every feature's curvature (and the penalty's, `l2`, one number or one per column) brought to about
    1; with another `power` in (0, 1] to the (1 - power)-th power of what it was, and with None by how dense the feature is.

    >>> import errorfeedback as ef
    >>> problem = scaled(ef.least_squares([[1e6, 0.0], [0.0, 1e-3]], [1.0, 1.0], clients=2))
    >>> problem.scale.tolist()
    [9.5367431640625e-07, 1024.0]
    """
    return alone(lambda seat: scaled_with_all(problem, power, l2))


def scaled_with_all(problem: Problem, power: float | None, l2: float | PerColumn) -> Conversation[Scaled]:
    """The same where `problem` has the clients of one place, and the scale is that of all places."""
    if power is not None and not 0 < power <= 1:
        raise ValueError(f"power = {power}; it must be above 0 and at most 1, or None")
    support, q = problem.support.by_feature, problem.support.outputs
    raw = curvatures(problem)
    exponents = Lifted(np.rint(np.log2(raw)).astype(np.float64))
    everyone = yield support.indices, exponents.astype(np.int16), None if power == 1 else density(problem, raw)
    owns, theirs, densities = zip(*everyone, strict=True)
    sums = added(support.d, owns, [np.exp2(each.astype(np.float64)) for each in theirs])
    up = problem.n * (EXPONENT_BITS + WIDTH_BITS) + int((_offset_bits(support, exponents) * support.sizes).sum())
    penalty = np.broadcast_to(np.asarray(l2, dtype=np.float64), (problem.width,))[problem.columns[::q]]
    octaves = np.log2(sums / support.n_total + penalty)
    powers, reference = None, 0.0
    if power != 1:
        typical, dense = zip(*densities, strict=True)
        reference = float(np.median(np.concatenate(typical)))
        powers = _powers(added(support.d, owns, dense) / support.n_total, power)
        up += problem.n * EXPONENT_BITS + support.size
    bent = octaves if powers is None else reference + powers * (octaves - reference)
    steps = np.rint(-0.5 * PER_OCTAVE * bent)
    scale = Model(np.exp2(steps / PER_OCTAVE))
    up, down = (sum(bits) for bits in zip(*(yield up, down_bits(support, scale, powers is not None)), strict=True))
    return Scaled(
        support=problem.support,
        columns=problem.columns,
        width=problem.width,
        dtype=problem.dtype,
        inner=problem,
        scale=Model(np.repeat(scale.astype(problem.dtype), q)),
        exchange=(up, down),
        powers=None if powers is None else Model(np.repeat(powers, q)),
        reference=float(np.exp2(-0.5 * reference)),
    )


def added(d: int, owns: Sequence[Integers], parts: Sequence[Floats]) -> Floats:
    """(d,): the sums over all clients, in client order."""
    total = np.zeros(d)
    for indices, part in zip(owns, parts, strict=True):
        add_at(total, indices, part)
    return total


def density(problem: Problem, sums: Lifted) -> tuple[PerClient, Floats]:
    """Every client's reference as a logarithm, to base 2 and rounded; and 1 where most of its rows have a feature."""
    k, support = as_bounded(problem).typical_curvature(), problem.support.by_feature
    counts = counted(k.lifted.indices, support.size)
    rows = np.repeat(np.diff(k.rows), support.sizes)
    typical = np.rint(np.log2(_medians(support.indptr, Lifted(np.minimum(sums * (rows / counts), HUGE)))))
    return PerClient(typical), (2 * counts > rows).astype(np.float64)


def _powers(share: Floats, power: float | None) -> Floats:
    """p of every feature, where this share of all clients has it in most of their rows."""
    return np.rint(0.5 * SIXTHS * (1.0 + share)) / SIXTHS if power is None else np.full(len(share), power)


@numba.njit(cache=True, nogil=True)
def _medians(starts: Integers, u: Floats) -> Floats:
    """The median of every client's segment."""
    medians = np.empty(len(starts) - 1)
    for i in range(len(medians)):
        medians[i] = np.median(u[starts[i] : starts[i + 1]])
    return medians


def curvatures(problem: Problem) -> Lifted:
    """The diagonal of every client's curvature bound; what is too large or too small to be squared counts as `HUGE` or tiny,
    which brings it nearer to 1 as well."""
    k = as_bounded(problem).typical_curvature()
    sums, A = np.empty(k.lifted.shape[1], dtype=k.lifted.dtype), k.lifted
    diagonals(A.data, A.indices, A.indptr, k.weights, Lifted(sums))
    return Lifted(np.clip(sums, np.finfo(np.float64).tiny, HUGE))


def _offset_bits(support: Support, exponents: Lifted) -> PerClient:
    """The width of every client's offsets below its largest exponent."""
    starts = support.indptr[:-1]
    spread = np.maximum.reduceat(exponents, starts) - np.minimum.reduceat(exponents, starts)
    return np.ceil(np.log2(spread + 1))


def down_bits(support: Support, scale: Model, with_powers: bool) -> int:
    """What telling these clients the scale of their features takes."""
    offsets = _offset_bits(support, support.gather(Model(np.rint(PER_OCTAVE * np.log2(scale)))))
    bits = support.n * (EXPONENT_BITS + WIDTH_BITS + 3) + int((offsets * support.sizes).sum())
    return bits + (support.n * EXPONENT_BITS + POWER_BITS * support.size if with_powers else 0)


def _columns_times(matrix: sparse.csr_array, factors: Floats) -> sparse.csr_array:
    return sparse.csr_array((matrix.data * factors[matrix.indices], matrix.indices, matrix.indptr), shape=matrix.shape)
