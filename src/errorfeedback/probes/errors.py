"""G_i = ||g_i - grad f_i(x)||^2 of the estimates after this round's update."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from errorfeedback.core import Floats, Lifted, PerClient, Round
from errorfeedback.methods.node import Node
from errorfeedback.probes.base import Hearing, Probe
from errorfeedback.wire.truncated import all_digits


@dataclass(frozen=True)
class Errors(Probe):
    """One number per client, with all digits of the run's precision.

    >>> import errorfeedback as ef
    >>> from errorfeedback.clients.order import Order
    >>> problem = ef.synthetic(n=4, d=6, m=3, c=2)
    >>> setup = ef.Setup(ef.EF21(ef.TopK(1), start="compressed"), ef.Whole(), problem.x0, commands=False)
    >>> (message,) = ef.Local().open(problem, setup).round(Order(ef.Round(0, 0), setup.x, None, (ef.Errors(),)))
    >>> missing = problem.gradients_at(setup.x) - message.lifted()
    >>> bool((message.telemetry[:, 0] == problem.support.norms2(missing)).all())
    True
    """

    of_new_memory: ClassVar[bool] = True
    spares_absent: ClassVar[bool] = True

    def widths(self, value_bits: int) -> tuple[int, ...]:
        return (all_digits(value_bits),)

    def tell(self, memory: None, node: Node, ctx: Round) -> tuple[Floats, None]:
        return node.support.norms2(error_of(node))[:, None], None

    def hear(self, numbers: Floats, hearing: Hearing) -> PerClient:
        return PerClient(numbers[:, 0])


def error_of(node: Node) -> Lifted:
    """g_i - grad f_i(x)."""
    error = node.error()
    assert error is not None, "rules that ask for errors are for methods with gradient estimates"
    return error
