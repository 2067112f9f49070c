"""What is computed and stored: a curve, a sparsity pattern, or the constants of a problem.

A job is a frozen description. Its fingerprint is a hash of everything it depends on, so that a stored result is used
again exactly when nothing has changed.
"""

from __future__ import annotations

import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from errorfeedback import __version__
from errorfeedback import api as ef
from errorfeedback.experiments.recipes import ProblemRecipe, made
from errorfeedback.methods.base import Method
from errorfeedback.methods.ef21 import EF21
from errorfeedback.stepsizes.base import StepSize
from errorfeedback.stepsizes.rare_features import RareFeatures

FORMAT = 2
"""Raised when what a job stores changes."""

Watch = Callable[[int], None]
"""Told the number of finished rounds from time to time; may raise to stop the job."""


@dataclass(frozen=True)
class Record:
    """What a job found: columns of numbers of equal length, and facts."""

    columns: Mapping[str, np.ndarray]
    facts: Mapping[str, Any]


@dataclass(frozen=True)
class Job(ABC):
    """One unit of work on one problem."""

    problem: ProblemRecipe

    @property
    @abstractmethod
    def label(self) -> str:
        """What a legend calls it."""

    @property
    def work(self) -> int:
        """Rounds to run."""
        return 0

    @cached_property
    def fingerprint(self) -> str:
        text = f"{FORMAT} {__version__} {self!r}"
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @property
    def file(self) -> str:
        """The stem of its files."""
        words = re.sub(r"[^a-z0-9]+", "-", f"{self.problem.slug} {self.label}".lower()).strip("-")
        return f"{words}-{self.fingerprint}"

    @abstractmethod
    def execute(self, watch: Watch, state: Path | None = None) -> Record:
        """Do it. `state`: the file in which it may keep what a longer job of the same fingerprint goes on from."""

    def served_by(self, facts: Mapping[str, Any]) -> bool:
        """Whether a stored result with these facts is what the job asks for."""
        return True


@dataclass(frozen=True)
class Run(Job):
    """One curve."""

    name: str
    method: Method
    rule: StepSize
    rounds: int
    seed: int
    points: int
    """About how many rounds are recorded."""

    @property
    def label(self) -> str:
        return self.name

    @property
    def work(self) -> int:
        return self.rounds

    @property
    def every(self) -> int:
        return max(1, self.rounds // self.points)

    def execute(self, watch: Watch, state: Path | None = None) -> Record:
        problem = made(self.problem)
        result = ef.solve(
            problem,
            self.method,
            self.rule,
            rounds=self.rounds,
            x0=self.problem.start(problem),
            seed=self.seed,
            every=self.every,
            watch=lambda row: watch(int(row["round"])),
        )
        gamma = result.history["gamma"]
        facts = {
            "gamma": float(gamma[0]),
            "method": str(result.method),
            "rule": str(self.rule),
            "stopped": result.stopped,
            "finished": result.rounds == self.rounds and bool(np.isfinite(result.history["f"][-1])),
            "rounds_per_second": result.rounds / max(float(result.history["seconds"][-1]), 1e-9),
            "notes": list(result.history.notes),
            "theorem_1": _certificate(result),
        }
        return Record(dict(result.history), facts | constants(self.problem, self.method))


@dataclass(frozen=True)
class Pattern(Job):
    """Which client has which feature: the complement of Z, as pairs."""

    @property
    def label(self) -> str:
        return "pattern"

    def execute(self, watch: Watch, state: Path | None = None) -> Record:
        support = made(self.problem).support
        pairs = {"client": np.repeat(np.arange(support.n), support.sizes), "feature": support.indices}
        return Record(pairs, constants(self.problem, ef.DGD()))


@dataclass(frozen=True)
class Constants(Job):
    """All a theorem may look at, with K = 1; the columns are per client."""

    @property
    def label(self) -> str:
        return "constants"

    def execute(self, watch: Watch, state: Path | None = None) -> Record:
        theory = ef.analyse(made(self.problem), ef.TopK(1))
        columns = {"client": np.arange(theory.n), "features": theory.sizes, "L_i": theory.L_i}
        return Record(columns, constants(self.problem, ef.EF21(ef.TopK(1))))


def constants(recipe: ProblemRecipe, method: Method) -> dict[str, Any]:
    """The problem in numbers."""
    problem = made(recipe)
    support = problem.support
    facts: dict[str, Any] = {
        "problem": str(problem),
        "n": problem.n,
        "d": problem.d,
        "c": support.c,
        "r": support.r,
        "fill": support.size / (problem.n * problem.d),
    }
    if recipe.smooth:
        theory = ef.analyse(problem, method.compressor)
        names = ("L", "L_max", "L_tilde", "L_plus")
        facts |= {name: float(getattr(theory, name)) for name in names} | {"how": dict(theory.how)}
        if isinstance(method, EF21):
            facts |= {"alpha": theory.alpha, "xi": theory.xi}
    return facts


def _certificate(result: ef.Result) -> dict[str, Any] | None:
    """Theorem 1 along the run, where it says something about it."""
    proved = isinstance(result.method, EF21) and not result.method.unproved and isinstance(result.stepsize, RareFeatures)
    if not proved or result.rounds < 1:
        return None
    certificate = ef.verify(result)
    return {"holds": bool(certificate.holds), "text": str(certificate)}
