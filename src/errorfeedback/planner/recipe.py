"""How a model is trained, chosen from what is known before round 0: the clients' |J_i|, and the links where they are given.

Clients send few-bit differences (EF21), the server makes a quasi-Newton step of them, everybody takes the rounded step, and
told losses accept or refuse it. What is chosen:

- *Bits up*, 4, 6, 8, 16 or 24 a number at least. By time: the most whose transfer, both ways, takes at most a tenth of a
  round trip of the slowest client, or a fiftieth for 24, which few problems need. Where a round trip is long beside it,
  rounds are dearer than bits. By bytes: the most that make a round cost at most a fifth more than 4 do, or a fifth of what
  the headers of its two packets take on the internet. Where a client has few features, heads and losses are what a round
  costs. More after steps that needed more (`FittedAnswer`).
- *Bits down*: as few as the step allows (`FittedStep`), and not fewer than that least.
- *Hessians* (`Curvature`): their price in rounds, by bytes or by time, says whether they come in every round, once at the
  start, or only where progress is slow. By time all clients tell theirs, as the slowest decides, alone or not: in 24 bits
  an entry where numbers come in 24 and that takes at most a tenth of a round, in 10 where it is cheap enough for every
  round, elsewhere in 4; in 16 where it turns out that what these leave out is most of the curvature along a step; of more
  than 1,500 features in every round or never. By bytes, up to 1,500 features, as few tell, in 10 bits, as have 5 rows for
  every feature of the model, or as many as cost no more than one round; where all in 4 bits are cheaper, all. Where all do
  not have as many rows, nobody but where progress is slow: then all tell, in 24 bits, of quadratics above their losses in
  place of Hessians. Never without a bound on the curvature: a step that will be refused may end where a loss that grows
  like exp curves 1e19 times more, and few-bit estimates must come back from there.
- *The start*: the mean of the clients' own models, where these have learned something (`estimators.local_models`).
- With an L1 penalty the same, by proximal quasi-Newton steps that can end at exactly 0 (`coordinate_descent`,
  `FittedStep(zeros=True)`); Hessians of up to 1,500 features.
- Who names k gets TopK with the automatic rule: the paper's method. Who asks for TopK and leaves K to us gets
  `planner.top_k_choice`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, inf, isfinite

import numpy as np

from errorfeedback.compressors.base import Contractive
from errorfeedback.compressors.fitted_answer import FORMS, FittedAnswer
from errorfeedback.compressors.powers_of_two import PowersOfTwo
from errorfeedback.compressors.uniform_levels import Uniform
from errorfeedback.core import PerClient
from errorfeedback.directions.base import Direction
from errorfeedback.directions.few_bit_hessians import EVERY_ROUND, FROM_THE_START, Curvature
from errorfeedback.directions.lbfgs import LBFGS
from errorfeedback.directions.quasi_newton import LONG
from errorfeedback.directions.steepest import Steepest
from errorfeedback.downlinks.base import Downlink
from errorfeedback.downlinks.fitted_step import FittedStep
from errorfeedback.downlinks.whole import Whole
from errorfeedback.methods.ef21 import EF21
from errorfeedback.planner.network import Network, Pace
from errorfeedback.problems.base import Bounded, Problem, Twice
from errorfeedback.problems.proximal import ElasticNet
from errorfeedback.runtime.begin import Begin
from errorfeedback.sparsity.pairs import apart
from errorfeedback.sparsity.support import Support
from errorfeedback.stepsizes.armijo import Armijo
from errorfeedback.stepsizes.automatic import Automatic
from errorfeedback.stepsizes.base import StepSize

COARSE, FINE, FINER, FINEST = PowersOfTwo(4), Uniform(10), Uniform(16), Uniform(24)
"""How Hessians are told; few clients' errors have few others to cancel with."""
ROWS_PER_FEATURE = 5.0
"""Of the clients that tell for all."""
BESIDE_UP, BESIDE_DOWN = 32 + 64 + 16, 32 + 2 + 16
"""Bits of a message beside its numbers: its head, a loss (up) or a command (down), and a unit."""
SHARE_OF_TRIP, NEXT_TO_NOTHING, DEARER = 0.1, 0.02, 0.2
PACKETS = 80.0
"""Bytes of the headers of a packet each way, IP's and TCP's: no network sends less."""
TOO_LOW = 10.0
"""Hessians are for rounds to come, which are forecast by g'Hg/2 as it is: it says that the tolerance is reached up to ten
times too early (`EstimatedGap`)."""
PAIRS, PAIRS_OF_LONG = 20, 10
"""What L-BFGS remembers; going through the pairs of a long model is most of what the server does."""
MOST_PAIRS = 5e7
"""Up to which all clients keep theirs."""
OF_MANY = 1.0
"""The price in rounds up to which Hessians of many features come in every round: they save more than half of these."""


@dataclass(frozen=True)
class Recipe:
    """All that `solve` is asked for, and why, in a sentence."""

    method: EF21
    stepsize: StepSize
    direction: Direction
    downlink: Downlink
    why: str
    begin: Begin | None = None


@dataclass(frozen=True, eq=False)
class Tariff:
    """What traffic costs: bytes of a client on average, or seconds of the slowest one."""

    pace: Pace | None

    def of(self, up: PerClient, down: PerClient, rounds: float = 1.0) -> float:
        if self.pace is None:
            return float(np.mean(up + down)) / 8
        return self.pace.slowest(up, down, rounds)


def few_bits(
    problem: Problem,
    networks: Sequence[Network] | None,
    tolerance: float,
    begin: Begin | None = None,
    prox: ElasticNet | None = None,
) -> Recipe:
    """For fewest bytes, or for the shortest time on these networks (one per client)."""
    support = problem.support
    tariff = Tariff(None if networks is None else Pace.of(networks))
    bits = _bits_up(support, tariff)
    kinks = prox is not None and not prox.smooth
    method, downlink = EF21(FittedAnswer(least=bits), start="compressed"), FittedStep(least=bits, zeros=kinks)
    sent = f"every number in {bits} bits up, more after steps that needed more, and as few as the step allows down"
    direction = None if kinks and apart(support.d) else _curvature(problem, bits, tariff, tolerance)
    server = "proximal L-BFGS" if kinks else "L-BFGS"
    goal = "fewest bytes" if networks is None else "the shortest time on this network"
    rule = Armijo()
    begun = begin is not None and bool(begin.x.any())
    if begin is not None and isfinite(begin.since) and begun:
        goal, rule = f"{goal}, from the mean of the clients' own models", Armijo(since=begin.since)
    if direction is None:
        why = f"{sent}, {server} on the server, for {goal}; Hessians are out of the question here"
        return Recipe(method, rule, LBFGS(PAIRS if support.d <= LONG else PAIRS_OF_LONG), downlink, why, begin)
    step = "a proximal quasi-Newton step" if kinks else "a quasi-Newton step"
    why = f"{sent}, {step} on the server, {_in_words(direction, support.n_total, begun)}, for {goal}"
    return Recipe(method, rule, direction, downlink, why, begin)


def _steadily_bent(problem: Problem) -> bool:
    """Whether its Hessians are known, and bounded."""
    return isinstance(problem, Twice) and problem.bends and isinstance(problem, Bounded) and problem.bounded


def top_k(compressor: Contractive) -> Recipe:
    """The paper's method: K numbers per client and round."""
    why = f"{compressor} of what changed up, the client's part of the model down, the automatic rule: as asked for"
    return Recipe(EF21(compressor), Automatic(), Steepest(), Whole(), why)


def _bits_up(support: Support, tariff: Tariff) -> int:
    """The most that cost little more than 4 do."""
    pace = tariff.pace

    def fits(bits: int) -> bool:
        if pace is None:
            least = _round(support, 4, tariff)
            return _round(support, bits, tariff) <= least + DEARER * max(least, PACKETS)
        share = NEXT_TO_NOTHING if bits == FINEST.bits else SHARE_OF_TRIP
        return pace.slowest(*_traffic(support, bits), 0.0) <= share * float(pace.trip.max())

    return max([bits for bits in FORMS if fits(bits)], default=4)


def _traffic(support: Support, bits: int) -> tuple[PerClient, PerClient]:
    """Bits of every client, up and down, in a round of so many a number."""
    up, down = (PerClient(beside + bits * support.sizes.astype(np.float64)) for beside in (BESIDE_UP, BESIDE_DOWN))
    return up, down


def _round(support: Support, bits: int, tariff: Tariff) -> float:
    """What a round costs; a step comes in one bit more than the answers, as a rule."""
    up, down = _traffic(support, bits)
    return tariff.of(up, PerClient(down + support.sizes))


def _curvature(problem: Problem, bits: int, tariff: Tariff, tolerance: float) -> Curvature | None:
    """None where there are no Hessians, or nobody could keep them."""
    support = problem.support
    if not (_steadily_bent(problem) and isinstance(problem, Twice)):
        return None
    sizes, n = support.sizes.astype(np.float64), support.n_total
    pairs, nothing = sizes * (sizes + 1) / 2, PerClient(np.zeros(support.n))
    every = _round(support, bits, tariff)

    def price(width: int) -> float:
        return tariff.of(PerClient(BESIDE_UP + width * pairs), nothing, 0.0) / every

    ends = min(max(tolerance / TOO_LOW, 1e-12), 0.1)
    if apart(support.d):
        fits = tariff.pace is not None and pairs.sum() <= MOST_PAIRS
        return _of_many(price, bits, ends) if fits else None
    words, tellable = COARSE if tariff.pace is None else _words(price, bits), _tellable(bits)
    finer, dearer = (FINER, price(FINER.bits)) if words.bits < FINER.bits else (None, inf)
    of_all = Curvature(words, price(words.bits), ends, believed=tellable, finer=finer, finer_price=dearer)
    whole = of_all if pairs.sum() <= MOST_PAIRS else None
    if tariff.pace is not None or not problem.hessian_rows:
        return whole
    enough = ceil(ROWS_PER_FEATURE * support.d * n / problem.hessian_rows)
    if enough > n:
        above = Curvature(FINEST, price(FINEST.bits), ends, believed=_tellable(FINEST.bits), above=True)
        return None if whole is None else above
    clients = max(enough, int(n / price(FINE.bits)))
    of_some = Curvature(FINE, price(FINE.bits) * clients / n, ends, clients=clients, believed=tellable)
    if clients >= n or clients * pairs.mean() > MOST_PAIRS or (whole is not None and whole.price <= of_some.price):
        return whole
    return of_some


def _of_many(price: Callable[[int], float], bits: int, ends: float) -> Curvature | None:
    """In every round or never: nobody's Hessians at the start say how features curve that only others have."""
    words = FINEST if _finest(price, bits) else FINE
    made = Curvature(words, price(words.bits), ends, believed=_tellable(bits), every_round=OF_MANY)
    return made if made.price <= OF_MANY else None


def _tellable(bits: int) -> float:
    """The smallest eigenvalue that steps can follow where numbers come in up to 16 bits, or more."""
    return 2.0 ** (-2 * (FORMS[max(bits, 16)][1] + 1))


def _words(price: Callable[[int], float], bits: int) -> PowersOfTwo | Uniform:
    """How all tell theirs where time counts."""
    if _finest(price, bits):
        return FINEST
    return FINE if price(FINE.bits) <= EVERY_ROUND else COARSE


def _finest(price: Callable[[int], float], bits: int) -> bool:
    """Whether Hessians can be as fine as anything."""
    return bits == FINEST.bits and price(FINEST.bits) <= SHARE_OF_TRIP


def _in_words(direction: Curvature, n: int, begun: bool) -> str:
    """Who tells Hessians, and when."""
    assert isinstance(direction.compressor, (PowersOfTwo, Uniform)), "how Hessians are told"
    bits = direction.compressor.bits
    who = "" if direction.clients is None else f" from {direction.clients} of {n} clients"
    what = "quadratics above the losses" if direction.above else "Hessians"
    cost = f"{what} of {bits} bits an entry{who}, which cost as much as {direction.price:.2g} rounds"
    if direction.finer is not None:
        cost += f" ({FINER.bits} bits where those say too little)"
    if direction.above:
        return f"{cost}, only where progress is slow"
    if direction.price <= direction.every_round:
        return f"{cost}, in every round"
    at_once = direction.price <= FROM_THE_START and (begun or direction.clients is None)
    return f"{cost}, {'at the start and' if at_once else 'only'} where progress is slow"
