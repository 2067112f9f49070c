"""Clients in places of their own, with rows that nobody else sees: an engine over any transport that reaches them."""

from __future__ import annotations

from dataclasses import dataclass

from errorfeedback.clients.order import Setup
from errorfeedback.engines.base import Engine, Transport
from errorfeedback.engines.remote import RemoteSession
from errorfeedback.methods.base import Method
from errorfeedback.problems.base import Problem
from errorfeedback.problems.spread import Spread
from errorfeedback.stepsizes.base import StepSize


def refuse_metrics(metrics: bool) -> None:
    """Raise where gradients would have to be looked at that stay where they are."""
    if metrics:
        raise ValueError(
            "metrics=True looks at every client's gradients, which do not leave the nodes of this engine; give "
            "metrics=False (f is recorded where the rule hears it, as ef.Armijo() does)"
        )


@dataclass(frozen=True)
class Elsewhere(Engine):
    """The problem is what `ef.gathered(transport, hosts)` gave."""

    transport: Transport

    def check(self, method: Method, stepsize: StepSize, metrics: bool) -> None:
        refuse_metrics(metrics)

    def open(self, problem: Problem, setup: Setup) -> RemoteSession:
        if not isinstance(problem, Spread):
            raise ValueError(f"{type(problem).__name__} has its rows here; give the problem that ef.gathered made")
        return RemoteSession(self.transport, problem, setup, problem.cuts, start=True)
