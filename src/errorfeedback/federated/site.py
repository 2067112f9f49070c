"""A node's whole life as bytes, from files that nobody else ever sees to the model that all of them trained.

prepare, prepared   the columns that the files of all nodes have in common, the classes, who owns which feature, what
                    scaling needs, every L_i: what `fit` says to other processes
start, round, ...   the run (`clients.serving`)
judge               the final model (packed) -> f_i there, rows and measures of this node (packed)
dismiss             -> nothing: the node's work is done
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from errorfeedback.clients.joined_problem import spread_over
from errorfeedback.clients.own_rows import PreparedPlace
from errorfeedback.core import PerClient, Point
from errorfeedback.data.encoding import Encoding
from errorfeedback.data.parts import files_of, read_parts
from errorfeedback.data.rows import Data
from errorfeedback.estimators.objective import Objective
from errorfeedback.estimators.scores import measured
from errorfeedback.federated.assignment import Assignment
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


class Site(PreparedPlace):
    """The clients of one node: the files of `folder`, each a client, unless a column names the clients in it."""

    def __init__(self, assignment: Assignment, folder: Path) -> None:
        self.assignment, self.folder, self.model = assignment, folder, assignment.model()
        self.data: Data | None = None
        self.dismissed = False
        super().__init__({"judge": self._judge, "dismiss": self._dismiss})

    @property
    def ended(self) -> bool:
        return self.dismissed or bool(self.speaker.reason) or (self.host is not None and bool(self.host.reason))

    def _prepare(self, seat: Seat) -> Conversation[tuple[Spread, Common]]:
        files = files_of(str(self.folder))
        if not files:
            raise ValueError(f"{self.folder} has no files; every node needs at least one, which is a client")
        data = yield from read_parts(files, self.assignment.reading, seat, str(self.folder))
        objective = yield from self.model.objective_of_all(data.A, np.asarray(data.y), data.clients, data.weights, seat)
        problem = objective.problem
        if not isinstance(problem, Spread):  # the only node
            problem = yield from spread_over(problem)
        self.data, common = data, Common(replace(objective, problem=problem), data.encoding, self.model.learned, data.notes)
        return problem, common

    def _judge(self, body: bytes) -> bytes:
        (problem, common), z = self.prepared, value_of(body, "the request")
        assert self.data is not None, "who is prepared has read its rows"
        self.model.become(common.objective.model(z), common.objective.models)
        scores = measured(self.model, self.model.decision(self.data.A), np.asarray(self.data.y), self.data.weights)
        return content(Judgement(problem.part.values(Point(shared=z)), self.data.A.shape[0], scores))

    def _dismiss(self, body: bytes) -> bytes:
        self.dismissed = True
        return b""
