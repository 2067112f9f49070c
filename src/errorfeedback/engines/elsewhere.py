"""Clients in places of their own, with rows that nobody else sees: an engine over any transport that reaches them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from errorfeedback.clients.order import Setup
from errorfeedback.engines.absences import Absences, check_absences
from errorfeedback.engines.base import Engine, Transport
from errorfeedback.engines.remote import RemoteSession
from errorfeedback.probes.base import Probes
from errorfeedback.problems.base import Problem
from errorfeedback.problems.spread import Spread


def refuse_metrics(metrics: bool) -> None:
    """Raise where gradients would have to be looked at that stay where they are."""
    if metrics:
        raise ValueError(
            "metrics=True looks at every client's gradients, which do not leave the nodes of this engine; give "
            "metrics=False (f is recorded where the rule hears it, as ef.Armijo() does)"
        )


@dataclass(frozen=True)
class Elsewhere(Engine):
    """The problem is what `ef.gathered(transport, hosts)` gave.

    >>> import numpy as np
    >>> import errorfeedback as ef
    >>> class Here(ef.Transport):  # in this very process; a connection of your own carries the same bytes
    ...     def __init__(self, places):
    ...         self.places = places
    ...
    ...     def send(self, requests):
    ...         self.answers = [place.serve(request) for place, request in zip(self.places, requests)]
    ...
    ...     def receive(self):
    ...         return self.answers
    >>> A, y = np.eye(8, 4) + np.eye(8, 4, -4), [0, 1, 1, 0, 1, 1, 0, 0]
    >>> halves = [ef.logistic(A[rows], y[rows], clients=2) for rows in (slice(0, 4), slice(4, 8))]
    >>> transport = Here([ef.OwnRows(rows) for rows in halves])
    >>> problem, _ = ef.gathered(transport, 2)
    >>> engine = ef.Elsewhere(transport)
    >>> there = ef.solve(problem, ef.EF21(ef.TopK(1)), ef.Automatic(), rounds=20, engine=engine, metrics=False)
    >>> here = ef.solve(ef.logistic(A, y, clients=4), ef.EF21(ef.TopK(1)), ef.Automatic(), rounds=20)
    >>> bool((here.x == there.x).all())
    True
    """

    transport: Transport

    def check(self, setup: Setup, probes: Probes, metrics: bool) -> None:
        refuse_metrics(metrics)
        if self.transport.deadline is not None:
            check_absences(setup, probes)

    def open(self, problem: Problem, setup: Setup) -> RemoteSession:
        if not isinstance(problem, Spread):
            raise ValueError(f"{type(problem).__name__} has its rows here; give the problem that ef.gathered made")
        if self.transport.deadline is None:
            return RemoteSession(self.transport, problem, setup, problem.cuts, start=True)
        supports = [problem.support.shard(lo, hi) for lo, hi in pairwise(problem.cuts)]
        names = [self.transport.name(k) for k in range(len(supports))]
        absences = Absences(setup, supports, names, problem.dtype, self.transport.patience)
        return RemoteSession(self.transport, problem, setup, problem.cuts, start=True, absences=absences)
