"""A node's whole life as bytes, from files that nobody else ever sees to the model that all of them trained.

prepare, prepared   the columns that the files of all nodes have in common, the classes, who owns which feature, what
                    scaling needs, every L_i: what `fit` says to other processes
start, round, ...   the run (`clients.serving`)
validate            z on the features of the node's held-out rows -> the sums of their losses, client by client (f64 each)
own                 the final model (packed) -> the weights of the features that were left to this node's clients (packed)
judge               the final model (packed) -> f_i there, rows and measures of this node (packed)
dismiss             -> nothing: the node's work is done
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from errorfeedback.clients.joined_problem import spread_over
from errorfeedback.clients.own_rows import Introduction, PreparedPlace
from errorfeedback.clients.own_weights import own_weights
from errorfeedback.core import Model, PerClient, Point
from errorfeedback.data.encoding import Encoding
from errorfeedback.data.parts import files_of, read_parts
from errorfeedback.data.rows import Data
from errorfeedback.estimators.held_out import HeldOutRows, held_out
from errorfeedback.estimators.objective import Objective
from errorfeedback.estimators.scores import measured
from errorfeedback.federated.assignment import Assignment
from errorfeedback.federated.held_elsewhere import NO_ROWS, NUMBERS, HeldAtNode
from errorfeedback.problems.conversation import Conversation, Seat
from errorfeedback.problems.spread import Spread
from errorfeedback.storage.files import content, value_of


@dataclass(frozen=True, eq=False)
class Common:
    """What all nodes know at the end of their preparation, and the server hears: nobody's rows."""

    objective: Objective
    encoding: Encoding
    learned: dict[str, Any]
    """The attributes of a fitted model that do not depend on the run: classes, frequencies, features."""
    notes: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Judgement:
    """What a node says of a model."""

    losses: PerClient
    rows: int
    scores: dict[str, float]
    held_rows: int = 0
    held_scores: dict[str, float] = field(default_factory=dict)


class Site(PreparedPlace):
    """The clients of one node: the files of `folder`, each a client, unless a column names the clients in it."""

    def __init__(self, assignment: Assignment, folder: Path) -> None:
        self.assignment, self.folder, self.model = assignment, folder, assignment.model()
        self.data: Data | None = None
        self.held: Data | None = None
        self.judging: HeldOutRows | None = None
        """The rows that are held out, where there are some: as they were read, and as they are judged."""
        self.called: tuple[Any, ...] = ()
        self.dismissed = False
        super().__init__({"validate": self._validate, "own": self._own, "judge": self._judge, "dismiss": self._dismiss})

    @property
    def ended(self) -> bool:
        return self.dismissed or bool(self.speaker.reason) or (self.host is not None and bool(self.host.reason))

    def _prepare(self, seat: Seat) -> Conversation[tuple[Spread, Common]]:
        files = files_of(str(self.folder))
        if not files:
            raise ValueError(f"{self.folder} has no files; every node needs at least one, which is a client")
        self.held = self.judging = None
        read = yield from read_parts(files, self.assignment.reading, seat, str(self.folder))
        data = yield from self._divided(read, seat)
        rows, whole = (data.A, np.asarray(data.y), data.clients, data.weights), self.assignment.whole
        objective = yield from self.model.objective_of_all(*rows, whole, seat)
        problem = objective.problem
        if not isinstance(problem, Spread):  # the only node
            problem = yield from spread_over(problem)
        self.data, objective = data, replace(objective, problem=problem)
        mine = objective.clients[problem.part.support.first :][: problem.part.n] - int(np.asarray(read.clients).min())
        self.called = tuple(read.called[int(number)] for number in mine)
        if self.held is not None and self.held.A.shape[0]:
            rows = (self.held.A, np.asarray(self.held.y), self.held.weights, np.asarray(self.held.clients))
            held = self.model.held_rows(rows, objective.models)
            self.judging = held.at(problem, objective.model(np.ones(problem.d)))
        return problem, Common(objective, data.encoding, self.model.learned, data.notes)

    def _divided(self, data: Data, seat: Seat) -> Conversation[Data]:
        """The rows to train with; the others are kept aside."""
        share = self.assignment.share
        if share is None:
            return data
        labels = np.asarray(data.y) if is_classifier(self.model) else np.zeros(data.A.shape[0])
        mask = yield from held_out(labels, np.asarray(data.clients), share, self.model.random_state, seat)
        self.held = data.take(mask)
        return data.take(~mask)

    def introduction(self) -> Introduction:
        if self.held is None:
            return Introduction(list(self.called))
        known = NO_ROWS if self.judging is None else HeldAtNode.of(self.judging, self.model.constant_)
        return Introduction(list(self.called), known)

    def _validate(self, body: bytes) -> bytes:
        if self.judging is None:
            return b""
        problem, _ = self.prepared
        z = Model(np.zeros(problem.d))
        z[self.judging.features] = np.frombuffer(body, dtype=NUMBERS)
        return self.judging.sums(z).astype(NUMBERS).tobytes()

    def _own(self, body: bytes) -> bytes:
        problem, _ = self.prepared
        return content(own_weights(problem.part, value_of(body, "the request")))

    def _judge(self, body: bytes) -> bytes:
        (problem, common), z = self.prepared, value_of(body, "the request")
        assert self.data is not None, "who is prepared has read its rows"
        x = common.objective.model(z)
        columns, weights = own_weights(problem.part, z)
        x[columns] = weights
        self.model.become(x, common.objective.models)
        losses, scores = problem.part.values(Point(shared=z)), self._scores(self.data)
        if self.judging is None or self.held is None:
            return content(Judgement(losses, self.data.A.shape[0], scores))
        held = self.held.A.shape[0], self._scores(self.held)
        return content(Judgement(losses, self.data.A.shape[0], scores, *held))

    def _scores(self, data: Data) -> dict[str, float]:
        return measured(self.model, self.model.decision(data.A), np.asarray(data.y), data.weights)

    def _dismiss(self, body: bytes) -> bytes:
        self.dismissed = True
        return b""
