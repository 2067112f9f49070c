"""Distributed gradient descent (equation 2): x^{t+1} = x^t - (gamma/n) sum_i grad f_i(x^t)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from errorfeedback.compressors.base import Compressor
from errorfeedback.compressors.identity import Identity
from errorfeedback.methods.base import Memoryless


@dataclass(frozen=True)
class DGD(Memoryless):
    """Every client sends its whole gradient, |J_i| numbers, every round."""

    compressor: Compressor = field(default=Identity(), init=False)

    @classmethod
    def examples(cls, compressors: Sequence[Compressor]) -> Sequence[DGD]:
        return [cls()]

    def __str__(self) -> str:
        return "DGD"
