"""Certificates: did the theorem behind the step size hold along the run?

A proved rule comes with Psi and the round `first` from which on Psi^{t+1} <= Psi^t - (gamma/2)||grad f(x^t)||^2
(Theorem 1, or the rule's own theorem; see `stepsizes.proved`). Added up from a recorded round s >= first,
    (1/(T - s)) sum_{s <= t < T} ||grad f(x^t)||^2 <= 2 Psi^s / (gamma (T - s)),
which for s = 0 and Theorem 1's Psi is the theorem's bound.

Where every round was recorded (`every=1`, the default), both are checked as they stand. Otherwise the gradients in between
are not known, nor is their mean, and what is checked is weaker: from a recorded round t to the next one, t + k, Psi must
have fallen by (gamma/2)||grad f(x^t)||^2, one of the k terms that the theorem takes off. A theorem that holds in
expectation only (random compressors) cannot be checked on one run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from errorfeedback.compressors.base import Contractive
from errorfeedback.core import Floats
from errorfeedback.methods.base import Method
from errorfeedback.storage.history import History
from errorfeedback.theory.proof import Proof

SLACK = 1e-9
"""Rounding in Psi, relative to the first Psi; at least UNITS units in the last place of the data's precision."""
UNITS = 64


@dataclass(frozen=True)
class Certificate:
    """The verdict; `str()` says it in a sentence."""

    rule: str
    reason: str = ""
    """Why the theorem says nothing about this run; empty where it was checked."""
    complete: bool = False
    """Every round was recorded, so that the theorem was checked as it stands."""
    bound: float = float("nan")
    """The right-hand side of the theorem."""
    mean_grad_norm2: float = float("nan")
    """The mean over the recorded rounds s <= t < T: the left-hand side of the theorem where `complete`, else a sample of
    it, which the bound says nothing about."""
    recorded: int = 0
    """How many rounds that mean is over."""
    length: int = 0
    """How many rounds T - s the bound is over."""
    violated_at: int | None = None
    """The first recorded round whose step broke the descent of Psi, or the last round where only the bound is broken."""

    @property
    def applicable(self) -> bool:
        return not self.reason

    @property
    def holds(self) -> bool:
        """The theorem applies and held."""
        return self.applicable and self.violated_at is None

    @property
    def verdict(self) -> str:
        """held / violated at round t / not applicable."""
        if not self.applicable:
            return "not applicable"
        return "held" if self.holds else f"violated at round {self.violated_at}"

    def __str__(self) -> str:
        if not self.applicable:
            return f"not applicable: {self.reason}"
        mean = f"mean ||grad f||^2 = {self.mean_grad_norm2:.6g}"
        if self.complete:
            return f"{self.rule} {self.verdict} over every round: {mean}, bound {self.bound:.6g}"
        return (
            f"{self.rule} {self.verdict} between the {self.recorded} recorded rounds of {self.length}, whose gradients "
            f"alone are known (every=1 checks all): {mean} over these; the bound {self.bound:.6g} is on the mean over all"
        )


UNBOUNDED = (
    "nothing bounds the curvature of the f_i, so that the theorem names no step size; give smoothness= bounds on them"
)
GUESSED = "the L_i were estimated, and no theorem speaks of guesses; give smoothness= bounds on them"


def certify(
    history: History, method: Method, rule: str, proof: Proof | None, dtype: np.dtype[Any], *, estimated: bool = False
) -> Certificate:
    """Check a rule's theorem on the history that it made; `estimated`: its constants are guesses."""
    reason = GUESSED if estimated else _silent(history, method, rule, proof)
    if proof is None or reason:
        return Certificate(rule, reason)
    start = int(np.searchsorted(history["round"], proof.first))
    psi, grad2, rounds = (history[name][start:] for name in ("lyapunov", "grad_norm2", "round"))
    if len(rounds) < 2:
        return Certificate(rule, f"fewer than two rounds were recorded from round {proof.first} on")
    return checked(proof.rule, proof.gamma, psi, grad2, rounds, dtype)


def _silent(history: History, method: Method, rule: str, proof: Proof | None) -> str:
    """Why no theorem speaks about the run."""
    if proof is None:
        return f"{rule} claims no theorem; ef.verify(result) checks Theorem 1 all the same"
    if method.unproved:
        return method.unproved
    if isinstance(method.compressor, Contractive) and not method.compressor.deterministic:
        return f"with {method.compressor} the theorem holds in expectation, which one run cannot show"
    if method.in_expectation:
        return f"the theorem of {method} holds in expectation, which one run cannot show"
    if np.isnan(history["lyapunov"]).all():
        return "no Lyapunov function was recorded; run with metrics=True"
    return ""


def checked(rule: str, gamma: float, psi: Floats, grad2: Floats, rounds: Floats, dtype: np.dtype[Any]) -> Certificate:
    """Check the descent of Psi and the bound on recorded rounds."""
    slack = max(SLACK, UNITS * float(np.finfo(dtype).eps))
    rises = np.flatnonzero(~(psi[1:] <= psi[:-1] - gamma / 2 * grad2[:-1] + slack * abs(psi[0])))
    recorded, length = len(rounds) - 1, int(rounds[-1] - rounds[0])
    bound = 2 * float(psi[0]) / (gamma * length)
    violated = None
    if len(rises):
        violated = int(rounds[rises[0]])
    elif not grad2[:-1].sum() / length <= bound * (1 + slack):  # some of the terms, where not every round was recorded
        violated = int(rounds[-1])
    return Certificate(rule, "", recorded == length, bound, float(grad2[:-1].mean()), recorded, length, violated)
