"""Distributed compressed gradient descent (equation 4): x^{t+1} = x^t - (gamma/n) sum_i C_i(grad f_i(x^t)).

With a greedy compressor it may diverge (Beznosikov et al. 2020); it is here to show that.
"""

from __future__ import annotations

from dataclasses import dataclass

from errorfeedback.methods.base import Memoryless


@dataclass(frozen=True)
class DCGD(Memoryless):
    """Compression without error feedback: where clients disagree it stops short of the minimum, or diverges.

    >>> import errorfeedback as ef
    >>> problem = ef.synthetic(n=10, d=20, m=3, c=2)
    >>> methods = ef.DCGD(ef.TopK(1)), ef.EF21(ef.TopK(1))
    >>> left = [ef.solve(problem, m, ef.Constant(0.05), rounds=500).history["grad_norm2"][-1] for m in methods]
    >>> bool(left[1] < left[0] / 100)
    True
    """
