"""A multiple of the step that a theorem gives: what papers run when they ask how far it is from practice."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import ClassVar

from errorfeedback.methods.base import Method
from errorfeedback.stepsizes.base import Fixed
from errorfeedback.theory.analysis import Theory


@dataclass(frozen=True)
class Multiple(Fixed):
    """factor * gamma of the rule, for any method: no theorem is claimed.

    >>> import errorfeedback as ef
    >>> theory = ef.analyse(ef.synthetic(n=10, d=20, m=3, c=2))
    >>> bool(Multiple(ef.InverseL(), 4.0).gamma(theory) == 4.0 / theory.L)
    True
    """

    methods: ClassVar[tuple[type[Method], ...]] = (Method,)
    claims: ClassVar[bool] = False
    rule: Fixed
    factor: float

    def __post_init__(self) -> None:
        if not (isfinite(self.factor) and self.factor > 0):
            raise ValueError(f"factor = {self.factor}; a multiple of a step size must be finite and positive")

    def gamma(self, theory: Theory, method: Method | None = None) -> float:
        return self.factor * self.rule.gamma(theory, method)
