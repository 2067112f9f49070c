"""K of TopK where nobody names it, from what is known before round 0: |J_i|, how common features are, and the links.

Every client sends the fewest numbers that hold a share of what its gradient has changed by (`TopShare`), so that K is found
anew by every client in every round, from what the rounds before have left to send. The share is

    s = LAG + (1 - q)(FRESH - LAG) rho/(1 + rho),

    q    the mean over all entries (i, j) of |I_j|/n: 1 where every client has every feature,
    rho  what a round costs beside numbers (a round trip, heads, the step down), in prices of a message with all numbers.

Where features are common (q near 1), g follows the mean gradient with a lag of 1/s rounds, and x - gamma g is a ball with
friction s: a lag of some rounds is momentum, and sending more than LAG takes *more* rounds (a9a with 300 clients: 56 at 0.2,
107 at 0.45, 237 with all numbers). Where features are rare their few owners send them all at once or not at all; there is no
momentum to lose, and where rounds are dear (rho above 1) more is sent, up to FRESH. The step goes down in as few bits as it
allows (`FittedStep`); with an L1 penalty, whose zeros must be exact, as what has changed. docs/theory.md, section 25.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from errorfeedback.compressors.top_share import TopShare
from errorfeedback.core import VALUE_BITS, PerClient
from errorfeedback.directions.steepest import Steepest
from errorfeedback.downlinks.changed import Changed
from errorfeedback.downlinks.fitted_step import FittedStep
from errorfeedback.methods.ef21 import EF21
from errorfeedback.planner.network import Network, Pace
from errorfeedback.planner.recipe import BESIDE_DOWN, BESIDE_UP, Recipe, Tariff
from errorfeedback.sparsity.support import Support
from errorfeedback.stepsizes.automatic import Automatic

LAG, FRESH = 0.2, 0.5
STEP_BITS = 5
"""Of a number of the step down, about (`FittedStep`)."""


def chosen_top_k(support: Support, networks: Sequence[Network] | None, smooth: bool) -> Recipe:
    """For fewest bytes, or for the shortest time on these networks (one per client); `smooth`: there is no L1 penalty."""
    tariff = Tariff(None if networks is None else Pace.of(networks))
    common, dear = commonness(support), price_of_a_round(support, tariff)
    share = share_for(common, dear)
    goal = "fewest bytes" if networks is None else "the shortest time on this network"
    down = "as few bits as the step allows" if smooth else "what has changed"
    why = (
        f"the fewest numbers that hold {100 * share:.0f}% of what changed up, found anew by every client in every round, "
        f"{down} down, the automatic rule, for {goal}: a client's feature is one of {100 * common:.0f}% of all, and "
        f"a round costs as much beside its numbers as {dear:.2g} messages with all of them"
    )
    return Recipe(EF21(TopShare(share)), Automatic(), Steepest(), FittedStep() if smooth else Changed(), why)


def share_for(common: float, dear: float) -> float:
    """s, to two digits.

    >>> share_for(common=1.0, dear=0.1), share_for(common=0.0, dear=9.0)
    (0.2, 0.47)
    """
    return round(LAG + (1.0 - common) * (FRESH - LAG) * dear / (1.0 + dear), 2)


def commonness(support: Support) -> float:
    """q = sum_j |I_j|^2 / (n sum_j |I_j|).

    >>> from errorfeedback.sparsity.support import full_support
    >>> commonness(full_support(3, 5))
    1.0
    """
    owners = support.counts.astype(np.float64)
    return float((owners @ owners) / (support.n_total * owners.sum()))


def price_of_a_round(support: Support, tariff: Tariff) -> float:
    """rho."""
    sizes = support.sizes.astype(np.float64)
    beside = tariff.of(PerClient(np.full(support.n, float(BESIDE_UP))), PerClient(BESIDE_DOWN + STEP_BITS * sizes))
    return beside / tariff.of(PerClient(VALUE_BITS * sizes), PerClient(np.zeros(support.n)), 0.0)
