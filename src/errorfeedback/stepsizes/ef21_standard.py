"""The step size of EF21's own paper (Richtarik, Sokolov, Fatkhullin 2021, Theorem 1): gamma = 1/(L + L_tilde xi(alpha))."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from errorfeedback.compressors.base import Sparsifier
from errorfeedback.core import PerClient
from errorfeedback.methods.base import Method
from errorfeedback.methods.ef21 import EF21
from errorfeedback.stepsizes.proved import Proved
from errorfeedback.theory.analysis import Theory, xi


def published_alpha(theory: Theory) -> float:
    """min_i min(K_i, d)/d, the contraction on R^d; a compressor without K keeps its own alpha."""
    compressor = theory.compressor
    if not isinstance(compressor, Sparsifier):
        return theory.alpha
    smallest = compressor.k if isinstance(compressor.k, int) else min(compressor.k)
    return min(smallest, theory.d) / theory.d


ALPHAS: dict[str, Callable[[Theory], float]] = {"K/d": published_alpha, "K/|J_i|": lambda theory: theory.alpha}


@dataclass(frozen=True)
class EF21Standard(Proved):
    """1/(L + L_tilde xi(alpha)), alpha = K/d as published, or the contraction K/|J_i| that Lemma 3 allows."""

    methods: ClassVar[tuple[type[Method], ...]] = (EF21,)
    alpha: str = "K/d"
    """Which contraction: "K/d" or "K/|J_i|"."""

    def __post_init__(self) -> None:
        if self.alpha not in ALPHAS:
            raise ValueError(f"alpha = {self.alpha!r}; it must be one of {', '.join(ALPHAS)}")

    def gamma(self, theory: Theory, method: Method | None = None) -> float:
        return 1.0 / (theory.L + theory.L_tilde * xi(ALPHAS[self.alpha](theory)))

    def weights(self, theory: Theory) -> PerClient:
        return PerClient(np.full(theory.n, 1 / (theory.n * (1 - np.sqrt(1 - ALPHAS[self.alpha](theory))))))  # q_i = 1/n
