"""Engines: where the shards live. One that is not within this process carries bytes (`Transport`)."""

from __future__ import annotations

import signal
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from math import inf
from typing import Any, NoReturn, Protocol, TypeVar

import numpy as np

from errorfeedback.clients.order import Order, Place, Setup
from errorfeedback.clients.own_weights import own_weights
from errorfeedback.clients.shard import Observation
from errorfeedback.core import Floats, Integers, Model, PerClient, Point
from errorfeedback.probes.base import Probes
from errorfeedback.problems.base import Problem
from errorfeedback.problems.conversation import Begin, Conversation, alone
from errorfeedback.problems.spread import Spread
from errorfeedback.wire.message import Message

T = TypeVar("T")
SIGNALS = (signal.SIGINT, signal.SIGTERM)
"""What ends a run after the round it is in."""


class Interrupted(SystemExit):
    """SIGINT or SIGTERM: the checkpoint is written; the exit code is 130 or 143."""


class Engine(ABC):
    """Where the shards live. Everything comes back in client order."""

    @property
    def leads(self) -> bool:
        """Whether this process is the server."""
        return True

    @property
    def observes(self) -> bool:
        """Whether a simulation may look at what the clients have: their gradients never leave other people's machines."""
        return True

    def converse(self, begin: Begin[T]) -> T:
        """What a conversation comes to in this process, where every process of the engine has its side of it."""
        return alone(begin)

    def losses(self, problem: Problem, x: Model) -> PerClient:
        """f_i of all clients at x."""
        return self.converse(lambda seat: _losses(problem, x))

    def own_weights(self, problem: Problem, x: Model) -> tuple[Integers, Floats]:
        """The columns and weights of the features that were left to their clients, where the solver has come to x."""
        return self.converse(lambda seat: _own_weights(problem, x))

    def guard(self) -> AbstractContextManager[None]:
        """An error in here on one process ends all of them: the others would wait for it."""
        return nullcontext()

    def check(self, setup: Setup, probes: Probes, metrics: bool) -> None:  # noqa: B027  (most carry every run)
        """Raise where the engine cannot carry such a run, whose rule begins by asking for these `probes`."""

    @abstractmethod
    def open(self, problem: Problem, setup: Setup) -> Session:
        """Place the shards."""


def _losses(problem: Problem, x: Model) -> Conversation[PerClient]:
    """What every process says of its own clients."""
    part = problem.part if isinstance(problem, Spread) else problem
    return PerClient(np.concatenate((yield part.values(Point(x)))))


def _own_weights(problem: Problem, x: Model) -> Conversation[tuple[Integers, Floats]]:
    part = problem.part if isinstance(problem, Spread) else problem
    columns, weights = zip(*(yield own_weights(part, x)), strict=True)
    return np.concatenate(columns), np.concatenate(weights)


class Session(Protocol):
    """Open shards of one run.

    >>> import errorfeedback as ef
    >>> problem = ef.synthetic(n=4, d=6, m=3, c=2)
    >>> setup = ef.Setup(ef.EF21(ef.TopK(1)), ef.Whole(), problem.x0, commands=False)
    >>> sessions: list[ef.Session] = [engine.open(problem, setup) for engine in (ef.Local(), ef.Threads(2))]
    >>> one, two = [session.values(setup.x).tolist() for session in sessions]
    >>> one == two
    True
    >>> for session in sessions:
    ...     session.close()
    """

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the history must know about how it went."""

    def carry(self, job: Callable[[], T]) -> T:
        """Do the server's job where the server is; its result is returned everywhere."""

    def round(self, order: Order) -> list[Message]: ...

    def observe(self, x: Model, losses: bool = True) -> Observation:
        """What a simulation may look at, at the x of this round."""

    def values(self, x: Model, kept: bool = False) -> PerClient:
        """f_i at x, which is where the clients are, or the point that they kept."""

    def memory(self) -> Any:
        """All clients' memory (`clients.memory`)."""

    def recall(self, memory: Any, here: Place, kept: Place | None) -> None:
        """Give the clients the memory that a session of any engine had, and bring them where the server is."""

    def close(self) -> None: ...


class Transport(ABC):
    """An engine carries bytes and knows nothing of optimisation."""

    @abstractmethod
    def send(self, requests: list[bytes]) -> None:
        """One request to every host, in client order."""

    @abstractmethod
    def receive(self) -> list[bytes]:
        """Their answers."""

    @property
    def deadline(self) -> float | None:
        """Seconds that a host has for a round; None: everybody is waited for."""
        return None

    @property
    def quorum(self) -> int:
        """How many hosts must answer a round."""
        return 0

    @property
    def patience(self) -> float:
        """Seconds after which a host that is away has left for good."""
        return inf

    def receive_in_time(self, least: int, others: Collection[int] = (), deadlines: int = 1) -> list[bytes]:
        """Their answers when so many deadlines have passed, or as soon after that as `least` hosts have answered, or those
        of the `others`, which were not asked, that could be asked by now make up for it: `AWAY` for a host that has not
        answered, or was not asked (its request was b"")."""
        return self.receive()

    def receive_if_there(self) -> list[bytes]:
        """The answers of all who are there, however long they take; `AWAY` for a host that is gone, where hosts may be."""
        return self.receive()

    def returned(self, away: Collection[int], least: int) -> list[int]:
        """Which of the hosts that are away can be asked again; there are at least so many, or it raises after a while."""
        return list(away)

    def admit(self, clients: Sequence[Sequence[Any]]) -> None:  # noqa: B027  (most have no list)
        """Raise where a host may not speak for its clients; of every host it is said what they are called there."""

    def name(self, host: int) -> str:
        """What people call a host."""
        return f"host {host}"

    def fail(self, host: int, reason: str) -> NoReturn:
        """A host cannot go on: end the others, and say so."""
        raise RuntimeError(f"{self.name(host)} failed: {reason}")

    def running(self) -> AbstractContextManager[None]:
        """While the server works."""
        return nullcontext()

    def before_round(self) -> None:  # noqa: B027  (most have nothing to look after)
        """Between two rounds: may raise to end the run."""

    def failing(self) -> None:  # noqa: B027  (most have nothing to prepare)
        """The run ends without a result; the hosts are about to be told why."""

    def close(self) -> None:  # noqa: B027
        """The run is over."""
