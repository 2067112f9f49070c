"""The largest step that is proved: the maximum over all rules of this folder that apply to the problem at hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from errorfeedback import stepsizes
from errorfeedback.methods.base import Method
from errorfeedback.methods.dgd import DGD
from errorfeedback.methods.ef21 import EF21
from errorfeedback.registry import members
from errorfeedback.stepsizes.base import Fixed
from errorfeedback.stepsizes.proved import Proved
from errorfeedback.theory.analysis import Theory
from errorfeedback.theory.proof import Proof


@dataclass(frozen=True, eq=False)
class Choice:
    """What was chosen from what."""

    rule: Proved
    gammas: dict[str, float]
    """Every rule that applies, largest first."""
    missing: dict[str, str]
    """Every rule for this method that does not apply, and why."""

    def __str__(self) -> str:
        name, *others = self.gammas
        lines = [f"{name}: gamma = {self.gammas[name]:.6g}, the largest of {len(self.gammas)} proved steps"]
        lines += [f"  {other}: {self.gammas[other]:.6g}" for other in others]
        lines += [f"  {other} does not apply: {reason}" for other, reason in self.missing.items()]
        return "\n".join(lines)


def rules(method: Method) -> list[Proved]:
    """One of every proved rule for the method."""
    proved = members(stepsizes, Proved)  # type: ignore[type-abstract]
    return [rule() for rule in proved.values() if rule.speaks_of(method)]


@dataclass(frozen=True)
class Best(Fixed):
    """The largest of all proved steps; `history.notes` says which it was and why others do not apply."""

    methods: ClassVar[tuple[type[Method], ...]] = (EF21, DGD)

    def choose(self, theory: Theory, method: Method | None = None) -> Choice:
        """The rule with the largest gamma."""
        return theory.memo(
            (self, method), lambda theory: _choose(theory, EF21(theory.compressor) if method is None else method)
        )

    def gamma(self, theory: Theory, method: Method | None = None) -> float:
        choice = self.choose(theory, method)
        return choice.gammas[type(choice.rule).__name__]

    def proof(self, theory: Theory, method: Method) -> Proof:
        return self.choose(theory, method).rule.proof(theory, method)

    def notes(self, theory: Theory, method: Method) -> tuple[str, ...]:
        return (str(self.choose(theory, method)),)


def _choose(theory: Theory, method: Method) -> Choice:
    candidates = rules(method)
    missing = {type(rule).__name__: rule.missing(theory) for rule in candidates}
    gammas = {rule: rule.gamma(theory, method) for rule in candidates if not missing[type(rule).__name__]}
    ordered = sorted(gammas, key=lambda rule: -gammas[rule])
    return Choice(
        ordered[0],
        {type(rule).__name__: gammas[rule] for rule in ordered},
        {name: reason for name, reason in missing.items() if reason},
    )
