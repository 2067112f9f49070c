"""Distributed compressed gradient descent (equation 4): x^{t+1} = x^t - (gamma/n) sum_i C_i(grad f_i(x^t)).

With a greedy compressor it may diverge (Beznosikov et al. 2020); it is here to show that.
"""

from __future__ import annotations

from dataclasses import dataclass

from errorfeedback.methods.base import Memoryless


@dataclass(frozen=True)
class DCGD(Memoryless):
    """Compression without error feedback."""
