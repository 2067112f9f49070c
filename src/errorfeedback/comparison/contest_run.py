"""One run of a comparison as a job: stored, and used again by every later comparison that asks for it.

What a run is, its fingerprint says: the data and the penalty, the contestant, the seed and the limits. Its rounds are not
part of it: a stored run serves whoever asks for no more rounds than it has, and one that ended by itself serves everybody;
more rounds go on from the state that is kept of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import ceil, inf
from pathlib import Path
from typing import Any

import numpy as np

from errorfeedback.experiments.jobs import Job, Record, Watch
from errorfeedback.experiments.recipes import ProblemRecipe, made
from errorfeedback.planner.contest import Contestant
from errorfeedback.planner.network import Network
from errorfeedback.problems.base import Problem
from errorfeedback.problems.proximal import ElasticNet
from errorfeedback.problems.ridged import ridged
from errorfeedback.runtime.checkpointing import data_of
from errorfeedback.storage.history import History
from errorfeedback.storage.packing import fingerprint

DENSELY, EVERY = 100, 5
"""The first rounds are all recorded, then every fifth, or the next that is an iterate: looking costs about half as much as
a round."""


@dataclass(frozen=True)
class Given(ProblemRecipe):
    """A problem that is there, with the server's penalty; known by a hash of its data."""

    name: str
    data: str
    problem: Problem = field(repr=False, compare=False)
    prox: ElasticNet | None = field(default=None, repr=False, compare=False)

    @classmethod
    def of(cls, name: str, problem: Problem, prox: ElasticNet | None) -> Given:
        penalty = "none" if prox is None else fingerprint([prox.l1, prox.l2])
        return cls(name, f"{data_of(problem)} {penalty}", problem, prox)

    @property
    def slug(self) -> str:
        return self.name

    def make(self) -> Problem:
        return self.problem


@dataclass(frozen=True)
class PenaltyInside(ProblemRecipe):
    """The same objective with its penalty within f, for who knows nothing of one that the server adds."""

    given: Given

    @property
    def slug(self) -> str:
        return self.given.slug

    def make(self) -> Problem:
        assert self.given.prox is not None, "who has no penalty needs none inside"
        return ridged(made(self.given), np.asarray(self.given.prox.l2))


@dataclass(frozen=True)
class Limits:
    """What ends a run early: bytes of a client up and down, or seconds on these networks."""

    bytes: float = inf
    seconds: float = inf
    networks: tuple[Network, ...] | None = None
    """The link of every client, where seconds are limited."""


@dataclass(frozen=True)
class ContestRun(Job):
    """One contestant with one seed."""

    problem: Given
    contestant: Contestant
    seed: int
    limits: Limits
    rounds: int = field(repr=False)

    @property
    def label(self) -> str:
        return self.contestant.label

    @property
    def work(self) -> int:
        return self.rounds

    def execute(self, watch: Watch, state: Path | None = None) -> Record:
        method, prox = self.contestant.method, self.problem.prox
        inside = prox is not None and prox.smooth and not (method.adds_penalty or self.contestant.knows(prox))
        result = self.contestant.run(
            made(PenaltyInside(self.problem) if inside else self.problem),
            rounds=self.rounds,
            seed=self.seed,
            every=method.turn * ceil(EVERY / method.turn),
            densely=DENSELY,
            prox=None if inside else prox,
            networks=self.limits.networks,
            max_bytes=self.limits.bytes,
            max_seconds=self.limits.seconds,
            watch=lambda row: watch(int(row["round"])),
            state=state,
        )
        ended = result.rounds < self.rounds
        return Record(dict(result.history), {"stopped": result.stopped, "rounds": result.rounds, "ended": ended})

    def served_by(self, facts: Mapping[str, Any]) -> bool:
        return bool(facts["ended"] or facts["rounds"] >= self.rounds)

    def history(self, record: Record) -> History:
        """The recorded rounds that were asked for, as far as they are iterates."""
        rounds = record.columns["round"]
        names, kept = list(record.columns), (rounds <= self.rounds) & (rounds % self.contestant.method.turn == 0)
        rows = zip(*(record.columns[name][kept].tolist() for name in names), strict=True)
        return History([dict(zip(names, row, strict=True)) for row in rows])

    def with_seed(self, seed: int) -> ContestRun:
        return replace(self, seed=seed)


def score(history: History) -> tuple[float, float]:
    """How well a constant step did, less is better: the median loss over the last tenth of the recorded rounds, to ten
    digits; then the mean loss over all, which says who was there first. A run that left the numbers is infinitely bad."""
    losses = history["f"]
    if not np.isfinite(losses).all():
        return inf, inf
    tail = float(np.median(losses[-max(1, len(losses) // 10) :]))
    return float(f"{tail:.9e}"), float(np.mean(losses))
