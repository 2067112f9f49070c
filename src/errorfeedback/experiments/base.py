"""An experiment of the paper, or of one that it builds on: which jobs it needs, and what the stored numbers show.

`jobs` says what to compute; `findings` looks at stored results only, so that a figure can be redrawn, and a claim
checked again, without running anything.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from errorfeedback.experiments.jobs import Job
from errorfeedback.experiments.store import Store
from errorfeedback.plots.figure import Figure
from errorfeedback.report.page import Claim, Table


@dataclass(frozen=True)
class Options:
    """What the user may change."""

    rounds: int | None = None
    """Rounds of every curve; None: the authors' horizons."""
    quick: bool = False
    """Short horizons and no MNIST: the shape of the figures in about a minute."""
    authors: bool = False
    """alpha = K/d, their start, their precision (FP32 on data sets), their way of counting bits: the published curves."""
    seed: int = 0
    images: tuple[str, ...] = ("digits",)
    """What figure-1 is trained on."""

    def __post_init__(self) -> None:
        if self.rounds is not None and self.rounds < 1:
            raise ValueError(f"rounds = {self.rounds}; a curve needs at least 1")
        if self.seed < 0:
            raise ValueError(f"seed = {self.seed}; it must be at least 0")

    def horizon(self, full: int, quick: int) -> int:
        """How many rounds a curve gets: the user's number, else the quick or the authors' one."""
        return self.rounds or (quick if self.quick else full)

    @property
    def points(self) -> int:
        """About how many rounds of a long curve are recorded: recording costs about as much as a round."""
        return 200 if self.quick else 1_000


@dataclass(frozen=True)
class Findings:
    """What an experiment shows."""

    figures: Sequence[Figure]
    claims: Sequence[Claim]
    tables: Sequence[Table] = ()
    """Shown when the reader opens them."""
    open_tables: Sequence[Table] = ()
    """Shown at once."""
    notes: Sequence[str] = ()


PAPER = "Richtárik, Gasanov, Burlachenko 2023"


class Experiment(ABC):
    """One figure or table of a paper."""

    name: ClassVar[str]
    title: ClassVar[str]
    says: ClassVar[str]
    """What the paper says about it, in its words where they are short."""
    needs: ClassVar[str] = "nothing"
    """The files it needs."""
    source: ClassVar[str] = PAPER
    """Where it was published."""
    differs: ClassVar[str] = ""
    """What is not as it was published, whatever the options."""

    @abstractmethod
    def jobs(self, options: Options) -> Sequence[Job]: ...

    @abstractmethod
    def findings(self, options: Options, store: Store) -> Findings:
        """From what is stored; jobs that are not there leave a gap, never an error."""
