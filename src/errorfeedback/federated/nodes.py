"""The server's side: nodes with files of their own, reached by any transport. The server has no rows and sees none."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from errorfeedback.clients.order import Setup
from errorfeedback.core import Model, PerClient
from errorfeedback.engines.base import Engine, Session, Transport
from errorfeedback.engines.conducting import gathered
from errorfeedback.engines.elsewhere import Elsewhere
from errorfeedback.engines.remote import new_run
from errorfeedback.federated.site import Common, Judgement
from errorfeedback.probes.base import Probes
from errorfeedback.problems.base import Problem
from errorfeedback.storage.files import content, value_of
from errorfeedback.wire.requests import AWAY, DONE, Request


@dataclass(eq=False)
class Nodes(Engine):
    """So many `Site`s behind a transport."""

    transport: Transport
    count: int
    judgements: list[Judgement | None] = field(default_factory=list, init=False)
    """What every node said of the last model that it was asked about; None: it was not there."""

    @property
    def observes(self) -> bool:
        return False

    def gather(self) -> Common:
        """What the nodes know when they have prepared, with the problem as a server knows it."""
        problem, common = gathered(self.transport, self.count)
        return replace(common, objective=replace(common.objective, problem=problem))

    def check(self, setup: Setup, probes: Probes, metrics: bool) -> None:
        Elsewhere(self.transport).check(setup, probes, metrics)

    def open(self, problem: Problem, setup: Setup) -> Session:
        return Elsewhere(self.transport).open(problem, setup)

    def losses(self, problem: Problem, x: Model) -> PerClient:
        """Of the clients whose nodes are there."""
        answers = enumerate(self._asked("judge", content(x)))
        self.judgements = [None if answer is None else value_of(answer, self.transport.name(k)) for k, answer in answers]
        return PerClient(np.concatenate([each.losses for each in self.judgements if each is not None]))

    def judged(self) -> dict[str, Judgement]:
        """The last judgements, by the names of the nodes that were there."""
        return {self.transport.name(k): each for k, each in enumerate(self.judgements) if each is not None}

    def dismiss(self) -> None:
        """Their work is done."""
        self._asked("dismiss", b"")

    def _asked(self, verb: str, body: bytes) -> list[bytes | None]:
        """What every node answers; None where it is gone, and may be."""
        self.transport.send([Request(verb, 0, body, new_run()).pack()] * self.count)
        return [
            None if answer == AWAY else self._done(k, answer) for k, answer in enumerate(self.transport.receive_if_there())
        ]

    def _done(self, k: int, answer: bytes) -> bytes:
        if answer[:1] != DONE:
            self.transport.fail(k, answer[1:].decode(errors="replace"))
        return answer[1:]
