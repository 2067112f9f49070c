"""gamma with which a server takes the mean of its clients' models: what FedAvg, FedProx, SCAFFOLD and Scaffnew are published
with. No theorem is claimed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from errorfeedback.methods.base import Method
from errorfeedback.methods.local_steps import LocalSteps
from errorfeedback.stepsizes.base import Fixed
from errorfeedback.theory.analysis import Theory


@dataclass(frozen=True)
class Averaging(Fixed):
    """For methods whose clients take steps of their own."""

    methods: ClassVar[tuple[type[Method], ...]] = (LocalSteps,)

    def gamma(self, theory: Theory, method: Method | None = None) -> float:
        assert isinstance(method, LocalSteps), "the step is the method's"
        return method.unit
