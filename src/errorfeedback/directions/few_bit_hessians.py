"""A quasi-Newton direction that starts from few-bit Hessians (ours; the exchange is FedNL's: Safaryan et al. 2021).

In some rounds clients also send what is missing from their Hessian estimates H_i, in few bits an entry (`clients.bending`),
and the root mean square e_i of what is still missing. The server solves with

    H0 = (mean H_i + l2 + lambda I)^-1,    lambda = 2 max_j (sum_{i in I_j} |J_i| e_i^2)^(1/2) / n,

and makes BFGS matrices of it from pairs (`quasi_newton`). lambda is the size that a random symmetric error with these
entries has (its largest eigenvalue is at most 2 max_j sqrt(sum_k variance_jk) for independent entries, up to lower terms:
Bai and Yin 1988; Bandeira and van Handel 2016). Without it small eigenvalues are noise, and the direction crawls. Where
numbers come in m digits, an eigenvalue below 2^-2(m+1) of the largest is not to be `believed` either: the error of a step
along such a valley, up to 2^-(m+1) of it and across the valley, costs more than all of it gains.

Who tells: all, or `clients` of them, drawn at random. Where s_j of the c_j clients of feature j have told (all others count
as 0 in the mean), the mean is D mean D with D_jj = (c_j/s_j)^(1/2): what they have together is taken for what c_j/s_j times
as many have. That is a sum of squares of rows like the whole, of fewer rows, so its error is a share of the curvature in
every direction, small ones too: (d/rows)^(1/2) in the root mean square (docs/theory.md, section 27). A feature of which
nobody has told has the median of the others' diagonal entries, which are of like size in these units. Of more than 1,500
features the parts of the mean are never added up (`hessians_apart`).

When to ask: `price` is what one exchange of Hessians costs in rounds (by bytes, or by time on a link).
    - at most EVERY_ROUND (`every_round`): in every round, NEWTON times. H0 follows x, and the rounds are Newton's.
    - at most FROM_THE_START: in round 0; where some clients speak for all, only if the run begins at a model and not at
      zero, whose Hessian is soon out of date.
    - later: where as many rounds as they cost have gone by (ski rental: they never cost more than all rounds do), twice as
      many after every exchange, and where the rounds that are left to the `tolerance` at the rate of the last ones exceed
      MARGIN times the price and the few rounds that a fresh H0 needs. Rates and what is left are those of the decrement
      g'Hg / 2, the model's gap. docs/theory.md, section 15.

In how many digits: where lambda is more than half of the curvature along a step p, P = H0^-1, in the units that entries are
told in,

    lambda p'p > p'Pp / 2,

what was left out is most of what the server believes in. Then Hessians come `finer`, if there is such a coding: at once up
to a price of FROM_THE_START, or as late as others of their price; and from then on.

Losses with kinks (rows of length 1e4 make one of a logistic loss) hardly curve on either side of them, and a step by their
Hessians goes far beyond. So where rows are too few to say how they curve, clients tell of quadratics that touch f_i at x and
are nowhere below it (`above`, `Loss.above`): the step to the minimum of their mean never raises f. Near a minimum that is no
Newton's method, so it is only for where progress is slow (docs/theory.md, section 28).

A new H0 forgets all pairs but the newest two (all, where it comes in every round), and of these what is noise to it. Where
lambda is above the curvature that matters, H0 is no help and pairs are; so the waits double, and pairs have their time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import ceil, inf, log
from typing import ClassVar

import numpy as np

from errorfeedback.compressors.base import Contractive
from errorfeedback.compressors.identity import Identity
from errorfeedback.compressors.powers_of_two import PowersOfTwo
from errorfeedback.compressors.uniform_levels import Uniform
from errorfeedback.core import Floats, Integers, Lifted, Model, PerClient
from errorfeedback.directions.base import Asking, Direction, Hessians, Promise
from errorfeedback.directions.hessians_apart import Apart
from errorfeedback.directions.lbfgs import check_memory
from errorfeedback.directions.quasi_newton import PLAIN, Metric, Pairs, nothing_known
from errorfeedback.directions.rehearsal import rehearse
from errorfeedback.sparsity.pairs import apart, symmetric
from errorfeedback.sums import Quadratic

EVERY_ROUND, FROM_THE_START = 0.5, 2.0
"""Prices, in rounds."""
FRESH = 6.0
"""Rounds from a fresh H0 to a tolerance that is worth one."""
LOOK_BACK, FEW = 8, 3
"""Accepted points from which the rate is taken; fewer where there have been Hessians, which a good model shows soon."""
NEWTON = 30
"""Exchanges in every round: as many rounds as Newton's method may take."""
MARGIN = 1.5
"""How many times their price Hessians must be expected to save."""
KEPT = 2
"""Pairs that stay where Hessians come, unless they come in every round: they know of kinks that no Hessian shows."""
FITTING = 1e3
"""How much more curvature than it has a kept pair may seem to have to a new H0."""
MOSTLY = 0.5
"""Of the curvature along a step: where lambda is more of it, Hessians of more digits are asked for."""
NOISE = 2.0
CONDITION = 1e-12
"""The smallest eigenvalue of H0^-1, as a share of the largest."""
BESIDE_KINKS = 2.0**-20
"""Likewise with an l1 penalty, at least: steps end at kinks, and along flatter valleys rounding would say at which."""
TINY = 1e-100
"""Curvature below that is none."""


@dataclass(frozen=True, eq=False)
class Damped(Metric):
    """(mean of the clients' Hessians + l2 + lambda)^-1, by its eigenvalues, in units that bring features to like size."""

    units: Model
    values: Floats
    vectors: Floats
    noise: float = 0.0
    """lambda, which is in all values."""

    def doubt(self, step: Model) -> float:
        inside = self.vectors.T @ (step / self.units)
        size = float(np.abs(inside).max(initial=0.0))
        if not 0 < size < inf:
            return 0.0
        shares = (inside / size) ** 2
        return self.noise * float(shares.sum()) / float(shares @ self.values)

    def solve(self, v: Floats) -> Floats:
        return self.units * (self.vectors @ ((self.vectors.T @ (self.units * v)) / self.values))

    def times(self, v: Floats) -> Floats:
        return (self.vectors @ ((self.vectors.T @ (v / self.units)) * self.values)) / self.units

    def matrix(self, some: Integers, d: int) -> Floats:
        return self._whole[np.ix_(some, some)]

    @cached_property
    def _whole(self) -> Floats:
        rows = self.vectors / self.units[:, None]
        return np.asarray((rows * self.values) @ rows.T)


@dataclass(frozen=True, eq=False)
class Bent:
    """The memory."""

    pairs: Pairs
    begun: bool = False
    """The first x was not zero."""
    triangle: Model | None = None
    """The mean of the clients' Hessian estimates, its upper triangle; where features are many, their triangles over n."""
    metric: Metric | None = None
    """In force since the last accepted point."""
    newest: Metric | None = None
    """From the last Hessians; in force from the next accepted point on."""
    t: int = 0
    """Rounds so far."""
    since: int = 0
    """Rounds before the last Hessians."""
    exchanges: int = 0
    """Of Hessians, so far."""
    decrements: tuple[tuple[int, float], ...] = field(default=())
    """(round, g'Hg / 2) of the accepted points since the last Hessians."""
    doubt: float = 0.0
    """The share of the curvature along the last direction that is lambda."""
    fine: bool = False
    """Hessians have come in more digits, and do from then on."""


@dataclass(frozen=True)
class Curvature(Direction):
    """`price`: what an exchange of Hessians costs, in rounds; infinite: it is never asked for.

    >>> import errorfeedback as ef
    >>> problem = ef.synthetic(n=10, d=40, m=5, c=4)
    >>> run = ef.solve(problem, ef.DGD(), ef.Armijo(), direction=ef.Curvature(price=0.0), rounds=3)
    >>> bool(run.history["grad_norm2"][-1] < 1e-9 * run.history["grad_norm2"][0])
    True
    """

    adds_penalty: ClassVar[bool] = True
    knows_kinks: ClassVar[bool] = True
    compressor: Contractive = Identity()  # noqa: RUF009  (frozen)
    """Of what is missing from a client's Hessian."""
    price: float = FROM_THE_START
    tolerance: float = 1e-5
    """The share of all progress that may be left at the end: it says how many rounds are to come."""
    memory: int = 20
    """Pairs that are remembered."""
    clients: int | None = None
    """How many clients tell their Hessians, for all; None: all."""
    believed: float = CONDITION
    """The smallest eigenvalue that is, as a share of the largest: 2^-20 where numbers come in up to 16 bits, 9 of them
    digits."""
    every_round: float = EVERY_ROUND
    """The price up to which Hessians come in every round."""
    above: bool = False
    """Clients tell of parabolas above their losses; only where progress is slow."""
    finer: Contractive | None = None
    """In place of `compressor` where lambda is most of the curvature along a step; None: never."""
    finer_price: float = inf
    """What an exchange costs then; to be given with `finer`."""

    def __post_init__(self) -> None:
        check_memory(self.memory)
        whole = isinstance(self.clients, int) and not isinstance(self.clients, bool)
        if self.clients is not None and not (whole and self.clients >= 1):
            raise ValueError(f"clients = {self.clients!r}; a whole number of at least 1 tells its Hessian, or all do (None)")
        if not self.price >= 0:
            raise ValueError(f"price = {self.price}; what Hessians cost in rounds is at least 0")
        if self.finer is None and self.finer_price != inf:
            raise ValueError(f"finer_price = {self.finer_price} without finer; say how Hessians of more digits are told")
        if self.finer is not None and not isinstance(self.finer, Contractive):
            raise ValueError(f"finer = {self.finer!r}; it is a compressor such as ef.Uniform(16), or None")
        if self.finer is not None and not 0 <= self.finer_price < inf:
            raise ValueError(
                f"finer_price = {self.finer_price}; with finer it is what these cost in rounds, at least 0 and finite"
            )
        if not 0 < self.believed < 1:
            raise ValueError(f"believed = {self.believed}; it is a share of the largest eigenvalue, between 0 and 1")
        if not 0 < self.tolerance < 1:
            raise ValueError(f"tolerance = {self.tolerance}; it is a share of all progress, between 0 and 1")

    @property
    def hessians(self) -> Asking | None:
        return Asking(self.compressor, self.clients, self.above, self.finer) if self.price < inf else None

    def start(self, x: Model) -> Bent:
        return Bent(nothing_known(x), begun=bool(x.any()))

    def rehearse(self, x: Model, kinked: bool) -> None:
        rehearse(x, kinked)

    def with_l1(self, state: Bent, l1: Model) -> Bent:
        return replace(state, pairs=replace(state.pairs, l1=l1))

    def asks(self, state: Bent, gained: float | None) -> bool:
        if not state.t:
            return not self.above and self.price <= FROM_THE_START and (state.begun or self.clients is None)
        price, turns = self._price(state), self.finely(state) and not state.fine
        if (turns and price <= FROM_THE_START) or (self._often(price) and state.exchanges < NEWTON):
            return True
        enough = self._enough(state)
        if not gained or gained <= 0 or len(state.decrements) < enough or state.t - state.since < self._patience(state):
            return False
        seen = state.decrements[-enough:] if state.metric is None else state.decrements
        decrement, goal = seen[-1][1], self.tolerance * gained
        return decrement > goal and log(decrement / goal) > (MARGIN * price + FRESH) * _rate(seen)

    def finely(self, state: Bent) -> bool:
        return state.fine or (self.finer is not None and state.doubt > MOSTLY)

    def _price(self, state: Bent) -> float:
        """Of the next exchange."""
        return self.finer_price if self.finely(state) else self.price

    def _often(self, price: float) -> bool:
        """In every round, as Newton's method."""
        return price <= self.every_round and not self.above

    def _enough(self, state: Bent) -> int:
        """Accepted points that say how fast the run is."""
        if state.metric is not None:
            return FEW
        return min(max(FEW, ceil(self.price)), LOOK_BACK) if self.above else LOOK_BACK

    def _patience(self, state: Bent) -> float:
        """Rounds between the last exchange and the next, which double with every one."""
        price = self._price(state)
        if self._often(price):
            return FRESH * 2.0 ** (state.exchanges - NEWTON)
        return price * 2.0**state.exchanges

    def bent(self, state: Bent, answer: Hessians) -> Bent:
        triangle = answer.mean if state.triangle is None else Model(state.triangle + answer.mean)
        smallest = self.believed if state.pairs.l1 is None else max(self.believed, BESIDE_KINKS)
        newest, fine = damped(triangle, answer, noise(answer), smallest), self.finely(state)
        begun = replace(state, triangle=triangle, newest=newest, since=state.t, decrements=(), doubt=0.0, fine=fine)
        return replace(begun, exchanges=1 + state.exchanges * (fine == state.fine))

    def __call__(self, state: Bent, x: Model, g: Model) -> tuple[Model, Bent]:
        pairs = state.pairs.arrived(x, g, _metric(state), self.memory)
        if state.newest is not None:  # older pairs say nothing new
            stands = state.metric is not None and np.array_equal(x, state.pairs.x)
            often = self._often(self._price(state))
            known = None if pairs.known is None or often else pairs.known.newest(KEPT)
            known = None if known is None else known.fitting(state.newest, FITTING)
            pairs = replace(pairs, known=known, scale=pairs.scale if stands else 1.0)
            state = replace(state, metric=state.newest, newest=None)
        direction, pairs = pairs.aimed(_metric(state))
        decrement = pairs.promised.gap
        log_ = (*state.decrements, (state.t, decrement))[-LOOK_BACK:] if decrement > 0 else state.decrements
        doubt = 0.0 if self.finer is None or state.metric is None else state.metric.doubt(direction)
        return direction, replace(state, pairs=pairs, t=state.t + 1, decrements=log_, doubt=doubt)

    def corrected(self, state: Bent, news: Model) -> Bent:
        return replace(state, pairs=state.pairs.corrected(news))

    def refused(self, state: Bent, x: Model, g: Model) -> tuple[Model, Bent]:
        metric = _metric(state)
        direction, pairs = state.pairs.refused(x, g, metric, self.memory).aimed(metric)
        return direction, replace(state, pairs=pairs, t=state.t + 1)

    def length(self, state: Bent) -> float | None:
        return None if state.pairs.scale is None else 1.0

    def promise(self, state: Bent, g: Model, direction: Model) -> Promise:
        return state.pairs.promised

    def quadratic(self, state: Bent) -> Quadratic | None:
        return state.pairs.quadratic(_metric(state))

    @classmethod
    def examples(cls) -> Sequence[Curvature]:
        finer = cls(PowersOfTwo(4), price=0.0, finer=Uniform(16), finer_price=1.0)
        return [cls(), cls(price=0.0), cls(price=0.0, clients=2), cls(price=inf), cls(price=1.0, above=True), finer]


def _metric(state: Bent) -> Metric:
    return PLAIN if state.metric is None else state.metric


def _rate(decrements: Sequence[tuple[int, float]]) -> float:
    """How fast the logarithm falls per round, by least squares; 0 where it does not."""
    t, value = np.array([t for t, _ in decrements], dtype=np.float64), np.log([value for _, value in decrements])
    t -= t.mean()
    return max(float(-(t @ value) / (t @ t)), 0.0)


def times(answer: Hessians) -> Floats:
    """c_j / s_j of every feature; 0 where nobody has told."""
    support, heard = answer.support, ~np.isnan(answer.missing)
    tellers = np.bincount(support.indices[np.repeat(heard, support.sizes)], minlength=support.d)
    return np.where(tellers > 0, support.counts / np.maximum(tellers, 1), 0.0)


def noise(answer: Hessians) -> float:
    """lambda, of the mean that was brought to the size of all clients' (`times`)."""
    support, missing = answer.support, np.nan_to_num(answer.missing)
    squares = support.scatter(support.repeat(PerClient(support.sizes * missing**2)))
    return NOISE * float((times(answer) ** 2 * squares).max()) ** 0.5 / support.n_total


def damped(triangle: Model, answer: Hessians, least: float, smallest: float = CONDITION) -> Metric | None:
    """With lambda = `least`, and no eigenvalue below the `smallest` share of the largest. None where nothing curves (all
    rows of a logistic loss are far from their threshold), or too much to be squared."""
    if not triangle.any():
        return None
    return (_apart if apart(answer.support.d) else _summed)(triangle, answer, least, smallest)


def _summed(triangle: Model, answer: Hessians, least: float, smallest: float) -> Damped | None:
    matrix, grown = symmetric(triangle, answer.support.d), np.sqrt(times(answer))
    matrix *= np.outer(grown, grown)
    if not grown.all():
        unknown, diagonal = np.flatnonzero(grown == 0), np.diag(matrix)
        matrix[unknown, unknown] = np.median(diagonal[grown > 0])
    matrix[np.diag_indices_from(matrix)] += answer.l2 * answer.units**2 + least
    if not np.isfinite(matrix).all():
        return None
    values, vectors = np.linalg.eigh(matrix)
    if not values[-1] > TINY:
        return None
    return Damped(answer.units, np.maximum(values, max(least, smallest * values[-1])), vectors, least)


def _apart(triangles: Model, answer: Hessians, least: float, smallest: float) -> Apart | None:
    """Its eigenvalues are not known, so the smallest share of the largest is added to all."""
    grown = np.sqrt(times(answer))
    bare = Apart(answer.units, grown, np.zeros(len(grown)), answer.tellers, Lifted(triangles))
    diagonal = answer.l2 * answer.units**2 + least
    diagonal[grown == 0] += np.median(bare.own_diagonal[grown > 0])
    made = replace(bare, diagonal=diagonal)
    if not (np.isfinite(triangles).all() and np.isfinite(diagonal).all() and TINY < made.largest < inf):
        return None
    return replace(made, diagonal=diagonal + smallest * made.largest)
