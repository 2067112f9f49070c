"""Gradients over a few rows of every client: which ones is keyed by (seed, round, client), the same on every engine."""

from __future__ import annotations

from dataclasses import dataclass

from errorfeedback.core import Round, Sample
from errorfeedback.methods.base import Method


@dataclass(frozen=True)
class Minibatched(Method):
    """`batch`: rows of a client that a gradient is taken over, all where it has fewer; None: always all."""

    batch: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.batch is not None:
            Sample(self.batch, Round(0, 0))  # which says what is wrong with it

    def rows(self, ctx: Round) -> Sample | None:
        """The rows of this round."""
        return None if self.batch is None else Sample(self.batch, ctx)
