"""Which runs a comparison needs, as far as can be known from those that are there.

The best constant step is sought on the grid 2^k, from the power of two next to 1/L on: a step is tried until both its
neighbours are worse. It is sought with the first seed and then run with the others. A contestant that gives the same curve
with a second seed draws nothing, and is not run with a third.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, log2

import numpy as np

from errorfeedback.comparison.contest_run import ContestRun, Given, Limits, score
from errorfeedback.experiments.jobs import Job
from errorfeedback.experiments.store import Store
from errorfeedback.planner.contest import Contestant, Entry
from errorfeedback.planner.field import Entrant
from errorfeedback.planner.network import Network
from errorfeedback.problems.base import Problem, is_bounded
from errorfeedback.storage.history import History
from errorfeedback.theory.analysis import analyse

FURTHEST = 24
"""Doublings or halvings of 1/L after which the search gives up."""


@dataclass
class Schedule:
    """The contestants, the seeds, and what is stored of them."""

    problem: Given
    contestants: Sequence[Contestant]
    """With a step of their own."""
    climbers: Sequence[Entrant]
    """Whose best constant step is sought."""
    rounds: int
    seeds: Sequence[int]
    limits: Limits
    store: Store
    histories: dict[str, History | None] = field(default_factory=dict)
    """By fingerprint; None where nothing is stored."""
    failed: dict[Job, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.first = middle(self.problem.problem)
        self.grid = {each: dict(self._steps(each)) for each in self.climbers}

    def run(self, contestant: Contestant, seed: int) -> ContestRun:
        return ContestRun(self.problem, contestant, seed, self.limits, self.rounds)

    def _steps(self, entrant: Entrant) -> Iterator[tuple[int, ContestRun]]:
        """The exponents of the grid, as far as the method takes such steps."""
        for k in range(self.first - FURTHEST, self.first + FURTHEST + 1):
            try:
                yield k, self.run(entrant.constant(k), self.seeds[0])
            except ValueError:
                continue

    def wanted(self) -> list[Job]:
        """All runs that are known to be needed and are not there, the searches last: they are begun first."""
        every = [run for each in self.contestants for run in self._seeds(each)]
        for climber in self.climbers:
            every += self._climb(climber)
        return [run for run in reversed(every) if self.history(run) is None]

    def then(self, job: Job) -> Sequence[Job]:
        """What is needed after a job is done."""
        self.histories.pop(job.fingerprint, None)
        return self.wanted()

    def history(self, run: ContestRun) -> History | None:
        """What is stored of a run; read once."""
        if run.fingerprint not in self.histories:
            record = self.store.load(run)
            self.histories[run.fingerprint] = None if record is None else run.history(record)
        return self.histories[run.fingerprint]

    def _seeds(self, contestant: Contestant) -> Iterator[ContestRun]:
        first, *others = [self.run(contestant, seed) for seed in self.seeds]
        yield first
        yield from others[:1]
        if others and not self._alike(first, others[0]):
            yield from others[1:]

    def _alike(self, one: ContestRun, other: ContestRun) -> bool:
        """Whether both are there, or nothing is known yet, and they do not differ."""
        a, b = self.history(one), self.history(other)
        return a is None or b is None or np.array_equal(a["f"], b["f"], equal_nan=True)

    def _climb(self, entrant: Entrant) -> list[ContestRun]:
        best = self.best(entrant)
        tried = [self.grid[entrant][k] for k in self._next(entrant)]
        return tried if best is None else list(self._seeds(entrant.constant(best)))

    def scores(self, entrant: Entrant) -> dict[int, tuple[float, float]]:
        """Of every exponent that was tried."""
        stored = {k: self.history(run) for k, run in self.grid[entrant].items()}
        return {k: score(history) for k, history in stored.items() if history is not None}

    def best(self, entrant: Entrant) -> int | None:
        """The exponent whose neighbours on the grid are both worse; None while it is not known, or where every step
        diverged."""
        scores = self.scores(entrant)
        if not scores:
            return None
        k = min(scores, key=lambda k: (scores[k], k))
        return k if scores[k] < (inf, inf) and {k - 1, k + 1} & set(self.grid[entrant]) <= set(scores) else None

    def _next(self, entrant: Entrant) -> list[int]:
        """The exponents to try next."""
        scores = self.scores(entrant)
        if not scores:
            return sorted(sorted(self.grid[entrant], key=lambda k: abs(k - self.first))[:3])
        k = min(scores, key=lambda k: (scores[k], k))
        near = [k - 1, k + 1] if scores[k] < (inf, inf) else [min(scores) - 2, min(scores) - 3]
        return [each for each in near if each not in scores and each in self.grid[entrant]]

    def chosen(self) -> list[Contestant]:
        """Everybody, with the best constant steps that are known."""
        best = {entrant: self.best(entrant) for entrant in self.climbers}
        return [*self.contestants, *(entrant.constant(k) for entrant, k in best.items() if k is not None)]

    def entries(self, networks: Sequence[Network] | None) -> Iterator[Entry]:
        """The stored runs of every contestant."""
        for each in self.chosen():
            runs = {run: self.history(run) for run in self._seeds(each)}
            stored = [history for history in runs.values() if history is not None]
            if len(runs) < len(self.seeds) and len(stored) == len(runs):
                stored += stored[:1] * (len(self.seeds) - len(runs))  # it draws nothing: every seed is the same curve
            if stored:
                record = self.store.load(next(run for run, history in runs.items() if history is not None))
                assert record is not None, "it is stored"
                yield each.entry(self.problem.problem, stored, record.facts["stopped"], networks)

    def left_out(self) -> Mapping[str, str]:
        """Who could not take part, and why: with no step at all where that is the method's own, else with which."""
        ran = {each.entrant for each in self.chosen() if self.history(self.run(each, self.seeds[0])) is not None}
        reasons: dict[str, str] = {}
        for job, reason in self.failed.items():
            assert isinstance(job, ContestRun), "a comparison has no other jobs"
            who = job.contestant.entrant
            reasons[job.label if who in ran or not who else who] = reason
        for entrant in self.climbers:
            scores = self.scores(entrant).values()
            if scores and self.best(entrant) is None:
                worst = all(value == (inf, inf) for value in scores)
                reasons[f"{entrant.name}, 2^k"] = "every step diverged" if worst else "its best step is outside the grid"
        return reasons


def middle(problem: Problem) -> int:
    """The exponent of the power of two next to 1/L; 0 where nothing bounds L."""
    return round(-log2(analyse(problem).L)) if is_bounded(problem) else 0
