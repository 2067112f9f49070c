"""gamma with which a server takes the mean of its clients' models: what FedAvg, FedProx, SCAFFOLD and Scaffnew are published
with. No theorem is claimed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from errorfeedback.methods.base import Method
from errorfeedback.methods.local_steps import LocalSteps
from errorfeedback.stepsizes.base import StepSize, Telemetry
from errorfeedback.theory.analysis import Theory


@dataclass(frozen=True)
class Averaging(StepSize):
    """For methods whose clients take steps of their own.

    >>> import errorfeedback as ef
    >>> problem = ef.synthetic(n=10, d=20, m=3, c=2)
    >>> ef.solve(problem, ef.FedAvg(steps=5, rate=0.01), ef.Averaging(), rounds=1).history["gamma"].tolist()
    [0.05, 0.05]
    """

    methods: ClassVar[tuple[type[Method], ...]] = (LocalSteps,)
    claims: ClassVar[bool] = False

    def constant(self, theory: Theory, method: Method) -> float:
        assert isinstance(method, LocalSteps), "the step is the method's"
        return method.suited(theory.problem).unit

    def start(self, theory: Theory, method: Method) -> float:
        return self.constant(theory, method)

    def next(self, state: float, theory: Theory, method: Method, telemetry: Telemetry | None) -> tuple[float, float]:
        return state, state
