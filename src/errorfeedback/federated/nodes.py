"""The server's side: nodes with files of their own, reached by any transport. The server has no rows and sees none."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from errorfeedback.clients.order import Setup
from errorfeedback.clients.own_rows import Introduction
from errorfeedback.core import Floats, Integers, Model, PerClient
from errorfeedback.engines.base import Engine, Session, Transport
from errorfeedback.engines.conducting import introduced
from errorfeedback.engines.elsewhere import Elsewhere
from errorfeedback.engines.remote import RemoteSession
from errorfeedback.federated.held_elsewhere import NUMBERS, HeldAtNode, HeldOutElsewhere
from errorfeedback.federated.site import Common, Judgement
from errorfeedback.federated.traffic import Crossed
from errorfeedback.probes.base import Probes
from errorfeedback.problems.base import Problem
from errorfeedback.storage.files import content, value_of
from errorfeedback.wire.requests import AWAY, DONE, Request, new_run, run_digest

LOG = logging.getLogger("errorfeedback")


@dataclass(eq=False)
class Nodes(Engine):
    """So many `Site`s behind a transport."""

    transport: Transport
    count: int
    named: bool = False
    """Clients are called what their nodes call them, and not by their numbers."""
    share: float | None = None
    """Of the rows that nodes were asked to hold out."""
    judgements: list[Judgement | None] = field(default_factory=list, init=False)
    """What every node said of the last model that it was asked about; None: it was not there."""
    held: HeldOutElsewhere | None = field(default=None, init=False)
    """The rows that the nodes hold out, where they do."""
    session: RemoteSession | None = field(default=None, init=False)
    """The last run."""
    validating: Crossed = field(default_factory=lambda: Crossed(0, 0), init=False)
    """Bytes of all that was said about held-out rows."""

    @property
    def observes(self) -> bool:
        return False

    def gather(self) -> Common:
        """What the nodes know when they have prepared, with the problem as a server knows it."""
        problem, common, places = introduced(self.transport, self.count)
        names = np.asarray([name for place in places for name in place.names]) if self.named else common.objective.clients
        self.held = None if self.share is None else self._held(places, self.share)
        return replace(common, objective=replace(common.objective, problem=problem, clients=names))

    def _held(self, places: list[Introduction], share: float) -> HeldOutElsewhere:
        for k, place in enumerate(places):
            if not isinstance(place.more, HeldAtNode) or not place.more.sound:
                self.transport.fail(k, "it does not say what its held-out rows are")
        held = HeldOutElsewhere(tuple(place.more for place in places))
        if not held.rows:
            raise ValueError(f"valid = {share:g} holds out no row of any node; hold out more, or give a file")
        return held.asking(self._validated)

    def check(self, setup: Setup, probes: Probes, metrics: bool) -> None:
        Elsewhere(self.transport).check(setup, probes, metrics)

    def open(self, problem: Problem, setup: Setup) -> Session:
        self.session = Elsewhere(self.transport).open(problem, setup)
        return self.session

    def _validated(self, entries: list[Floats]) -> list[Floats]:
        """The sums of every node's held-out losses, in the middle of a run or outside of one."""
        bodies, session = [each.astype(NUMBERS).tobytes() for each in entries], self.session
        inside = session is not None and session.open
        asked = session.ask("validate", bodies) if session and inside else self._asked("validate", bodies)
        answers = [b"" if answer is None else answer for answer in asked]
        self.validating = self.validating.and_also(sum(map(len, answers)), sum(map(len, bodies)))
        assert self.held is not None, "who asks has heard of them"
        for k, (answer, node) in enumerate(zip(answers, self.held.nodes, strict=True)):
            if len(answer) != NUMBERS.itemsize * len(node.weights):
                self.transport.fail(k, "it does not say one held-out loss for each of its clients")
        return [np.frombuffer(answer, dtype=NUMBERS) for answer in answers]

    def losses(self, problem: Problem, x: Model) -> PerClient:
        """Of the clients whose nodes are there."""
        answers = enumerate(self._asked("judge", [content(x)] * self.count))
        self.judgements = [None if answer is None else value_of(answer, self.transport.name(k)) for k, answer in answers]
        return PerClient(np.concatenate([each.losses for each in self.judgements if each is not None]))

    def own_weights(self, problem: Problem, x: Model) -> tuple[Integers, Floats]:
        """Of the clients whose nodes are there; what others alone have is not known, and stays what it was at the start."""
        answers = self._asked("own", [content(x)] * self.count)
        gone = [self.transport.name(k) for k, answer in enumerate(answers) if answer is None]
        if gone:
            LOG.warning(
                "the weights of features that only clients of %s have are not known; they stay what they were at the start",
                ", ".join(gone),
            )
        taken, parts = np.isin(np.arange(problem.width), problem.columns), []
        for k, answer in enumerate(answers):
            if answer is not None:
                said = value_of(answer, self.transport.name(k))
                if not _are_weights(said, taken):
                    self.transport.fail(k, "it does not say one weight for each feature that only its clients have")
                taken[said[0]] = True
                parts.append(said)
        columns, weights = zip(*parts, strict=True)
        return np.concatenate(columns), np.concatenate(weights)

    def judged(self) -> dict[str, Judgement]:
        """The last judgements, by the names of the nodes that were there."""
        return {self.transport.name(k): each for k, each in enumerate(self.judgements) if each is not None}

    def dismiss(self) -> None:
        """Their work is done."""
        self._asked("dismiss", [b""] * self.count)

    def _asked(self, verb: str, bodies: list[bytes]) -> list[bytes | None]:
        """What every node answers outside of a run, but of the same problem, method and options; None where it is gone, and
        may be."""
        run = new_run(None if self.session is None else run_digest(self.session.run))
        self.transport.send([Request(verb, 0, body, run).pack() for body in bodies])
        return [
            None if answer == AWAY else self._done(k, answer) for k, answer in enumerate(self.transport.receive_if_there())
        ]

    def _done(self, k: int, answer: bytes) -> bytes:
        if answer[:1] != DONE:
            self.transport.fail(k, answer[1:].decode(errors="replace"))
        return answer[1:]


def _are_weights(said: Any, taken: NDArray[np.bool_]) -> bool:
    """Whether these are columns that nobody has spoken for, each once, with a finite number for each."""
    if not (isinstance(said, tuple) and len(said) == 2 and all(isinstance(each, np.ndarray) for each in said)):
        return False
    columns, weights = said
    if columns.ndim != 1 or weights.shape != columns.shape or columns.dtype.kind != "i" or weights.dtype != np.float64:
        return False
    inside = bool(((columns >= 0) & (columns < len(taken))).all()) and len(np.unique(columns)) == len(columns)
    return inside and not taken[columns].any() and bool(np.isfinite(weights).all())
