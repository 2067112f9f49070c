"""A step size that the user chose: no theorem is claimed."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import ClassVar

from errorfeedback.methods.base import Method
from errorfeedback.stepsizes.base import Fixed
from errorfeedback.theory.analysis import Theory


@dataclass(frozen=True)
class Constant(Fixed):
    """gamma, for any method."""

    methods: ClassVar[tuple[type[Method], ...]] = (Method,)
    claims: ClassVar[bool] = False
    any_direction: ClassVar[bool] = True
    value: float
    """gamma."""

    def __post_init__(self) -> None:
        if not (isfinite(self.value) and self.value > 0):
            raise ValueError(f"gamma = {self.value}; a step size must be finite and positive")

    def gamma(self, theory: Theory, method: Method | None = None) -> float:
        return self.value
