"""A linear sketch of the clients' errors: signed sums whose signs are keyed by (seed, round, feature).

Every client of a round uses the same signs, so the sum of the sketches is the sketch of the sum; see `stepsizes.adaptive`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numba
import numpy as np

from errorfeedback.core import Floats, Integers, Lifted, Round
from errorfeedback.keyed import GOLDEN, mix, stream
from errorfeedback.methods.node import Node
from errorfeedback.probes.base import Hearing, Probe
from errorfeedback.probes.errors import error_of
from errorfeedback.sparsity.support import Support
from errorfeedback.wire.truncated import all_digits

SIGNS = -(2**41)
"""Feature j's signs come from the stream SIGNS - j: apart from all other streams."""
WORD = 64
"""Signs per draw."""


@dataclass(frozen=True)
class Sketches(Probe):
    """`size` signed sums of g_i - grad f_i(x), in the precision of the run; the server hears ||g - grad f(x)||^2.

    >>> import errorfeedback as ef
    >>> from errorfeedback.clients.order import Order
    >>> problem = ef.synthetic(n=4, d=6, m=3, c=2)
    >>> setup = ef.Setup(ef.EF21(ef.TopK(1), start="compressed"), ef.Whole(), problem.x0, commands=False)
    >>> probe = ef.Sketches(1000)  # a rule asks for a few; many show what their mean is
    >>> (message,) = ef.Local().open(problem, setup).round(Order(ef.Round(0, 0), setup.x, None, (probe,)))
    >>> missing = problem.support.scatter(problem.gradients_at(setup.x) - message.lifted()) / problem.n
    >>> heard = estimate(message.telemetry.sum(axis=0), problem.n)
    >>> round(heard / float(missing @ missing), 1)
    1.0
    """

    size: int
    of_new_memory: ClassVar[bool] = True
    spares_absent: ClassVar[bool] = True

    def widths(self, value_bits: int) -> tuple[int, ...]:
        return (all_digits(value_bits),) * self.size

    def tell(self, memory: None, node: Node, ctx: Round) -> tuple[Floats, None]:
        return sketches(error_of(node), node.support, self.size, ctx), None

    def hear(self, numbers: Floats, hearing: Hearing) -> float:
        return estimate(numbers.sum(axis=0), hearing.n)


def sketches(error: Lifted, support: Support, size: int, ctx: Round) -> Floats:
    """(n, size): y_i = S u_i of every client of the shard."""
    signs = np.empty((support.d, size))
    out = np.zeros((support.n, size))
    _draw(ctx.seed, ctx.t, signs)
    _project(error, support.indptr, support.indices, signs, out)
    return out


def estimate(total: Floats, n: int) -> float:
    """||(1/n) sum_i u_i||^2 from the sum of all sketches."""
    return float(total @ total) / (n**2 * len(total))


@numba.njit(cache=True, nogil=True)
def _draw(seed: int, t: int, signs: Floats) -> None:
    for j in range(len(signs)):
        state = stream(seed, t, SIGNS - j)
        word = np.uint64(0)
        for k in range(signs.shape[1]):
            if k % WORD == 0:
                state += GOLDEN
                word = mix(state)
            signs[j, k] = 1.0 if word & np.uint64(1) else -1.0
            word >>= np.uint64(1)


@numba.njit(cache=True, nogil=True)
def _project(u: Lifted, indptr: Integers, indices: Integers, signs: Floats, out: Floats) -> None:
    for i in range(len(indptr) - 1):
        for p in range(indptr[i], indptr[i + 1]):
            for k in range(out.shape[1]):
                out[i, k] += u[p] * signs[indices[p], k]
