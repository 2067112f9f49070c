"""How far to go. A rule may look at the theory, the method's own parameters and the telemetry it asked for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from errorfeedback.core import PerClient
from errorfeedback.methods.base import Method
from errorfeedback.stepsizes.theory import Theory


@dataclass(frozen=True, eq=False)
class Telemetry:
    """What the clients told beyond their messages in this round."""

    G_i: PerClient
    """||g_i - grad f_i(x)||^2, one number per client, on the wire."""
    error2: float
    """||g - grad f(x)||^2. It needs the full gradient: only a simulation has it, and it is on no wire."""


@dataclass(frozen=True)
class StepSize(ABC):
    """gamma^t for t = 0, 1, ...; memory, if any, is a state that is handed in and out."""

    methods: ClassVar[tuple[type[Method], ...]] = ()
    """The methods for which the rule has a theorem (or, for heuristics, a meaning)."""
    telemetry: ClassVar[bool] = False
    """Whether the rule asks for telemetry every round."""
    note: ClassVar[str] = ""
    """What a reader of the history must know about this rule."""

    def check(self, method: Method) -> None:
        """Raise where the rule says nothing about the method."""
        if not isinstance(method, self.methods):
            names = " and ".join(m.__name__ for m in self.methods)
            raise ValueError(
                f"{type(self).__name__} is a rule for {names}, and has no theorem for {type(method).__name__}; "
                "use ef.Constant(gamma) to choose a step size yourself"
            )

    def start(self, theory: Theory, method: Method) -> Any:
        """The rule's memory before round 0."""
        return None

    @abstractmethod
    def next(self, state: Any, theory: Theory, method: Method, telemetry: Telemetry | None) -> tuple[float, Any]:
        """gamma^t and the memory for the next round."""


class Fixed(StepSize):
    """The same gamma in every round."""

    @abstractmethod
    def gamma(self, theory: Theory, method: Method | None = None) -> float: ...

    def start(self, theory: Theory, method: Method) -> float:
        return self.gamma(theory, method)

    def next(self, state: float, theory: Theory, method: Method, telemetry: Telemetry | None) -> tuple[float, float]:
        return state, state
