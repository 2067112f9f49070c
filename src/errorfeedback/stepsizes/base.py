"""How far to go. A rule may look at the theory, the method's own parameters and the telemetry it asked for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar

from errorfeedback.directions.base import Direction
from errorfeedback.downlinks.base import Downlink
from errorfeedback.methods.base import Method
from errorfeedback.probes.base import Probe, Probes
from errorfeedback.probes.losses import KnownLosses, Losses
from errorfeedback.problems.base import Problem
from errorfeedback.theory.analysis import Theory
from errorfeedback.theory.proof import Proof


@dataclass(slots=True, eq=False)
class Telemetry:
    """What a rule hears in a round; first what came from the clients, then what the direction made of it."""

    answers: Mapping[type[Probe], Any]
    """What the probes heard, by their class; what was not asked for is not there."""
    move: Move | None = None
    """The step that led here, where there was one."""
    direction2: float = 0.0
    """||g||^2 of the direction of the step to come."""
    accepted: bool = True
    """False: the rule has refused the step that led here, and the one to come begins where that one began."""
    descent: float = 0.0
    """<gradient, direction> where the step to come begins; for rules that search (`directions.base.Promise`)."""
    gap: float | None = None
    """How far the loss is above the minimum of the direction's model, at an accepted point; None elsewhere."""
    length: float | None = None
    """The step size that the direction is made for, where it knows."""
    surprise: float = 0.0
    """By how much the loss at the point that was kept counts higher now than when it was told: clients that were away then
    have told theirs. -inf where nobody is here who told it there, so that nothing compares. 0 where nobody is ever away."""
    share: float = 1.0
    """Of the clients that have not left, how many told here and there."""
    losses: KnownLosses | None = None
    """Every client's loss, likewise."""

    @property
    def loss(self) -> float | None:
        """f(x) + R(x), in the rounds that asked for it."""
        return self.answers.get(Losses)


@dataclass(frozen=True)
class Move:
    """x - x_last, as the server knows it; g is the direction that it used."""

    norm2: float
    """||x - x_last||^2."""
    predicted: float
    """<g, x - x_last>."""
    gamma: float
    known: float
    """<(1/n) sum_i g_i, x - x_last>; 0 where clients keep no estimates."""
    slope: float = 0.0
    """<gradient, x - x_last>, the gradient as it was estimated at x_last, and what the part of the penalty that is not in it
    rises by; for rules that search."""


class Verdict(Enum):
    """What a rule wants to happen with the point it has just seen.

    >>> [verdict.name for verdict in Verdict if verdict.goes_back]
    ['RESTORE', 'RETRY']
    """

    GO = "step from here"
    KEEP = "remember this point and the clients' memory, then step from here"
    RESTORE = "go back to what was kept, and stand there for a round"
    RETRY = "go back to what was kept, and step from there"

    @property
    def goes_back(self) -> bool:
        return self in (Verdict.RESTORE, Verdict.RETRY)


COMMAND_BITS = 2
"""One of the four things that a `Verdict` can say."""


@dataclass(frozen=True)
class StepSize(ABC):
    """gamma^t for t = 0, 1, ...; memory, if any, is a state that is handed in and out."""

    methods: ClassVar[tuple[type[Method], ...]] = ()
    """The methods for which the rule has a theorem (or, for heuristics, a meaning)."""
    any_direction: ClassVar[bool] = False
    """It has a meaning for directions that are not the estimate itself."""
    commands: ClassVar[bool] = False
    """It may keep a point and go back to it: clients are told in every round what to do (`Verdict`)."""
    searches: ClassVar[bool] = False
    """It refuses steps: directions are made at accepted points only, and the last one is kept and returned."""

    def constant(self, theory: Theory, method: Method) -> float | None:
        """The step size of all rounds, where it is the same in all of them."""
        return None

    def setup_bits(self, problem: Problem) -> int:
        """Bits up per client, once, before round 0: what the rule must know to begin."""
        return 0

    @property
    def tells_loss(self) -> bool:
        """Whether the server hears f(x) in some rounds."""
        return False

    def ask(self, state: Any) -> Probes:
        """What the rule needs to hear in the coming round."""
        return ()

    def accepts(self, state: Any, telemetry: Telemetry) -> bool:
        """Whether the step that led here is taken; for rules that search."""
        return True

    def verdict(self, state: Any) -> Verdict:
        """What is to be done with the point that `next` has just seen."""
        return Verdict.GO

    def notes(self, theory: Theory, method: Method) -> tuple[str, ...]:
        """What a reader of the history must know about this rule."""
        return ()

    def proof(self, theory: Theory, method: Method) -> Proof | None:
        """The Lyapunov function of the rule's theorem, where it has one."""
        return None

    @classmethod
    def speaks_of(cls, method: Method) -> bool:
        """Whether it is a rule for the method."""
        return isinstance(method, cls.methods)

    def check(self, method: Method, direction: Direction) -> None:
        """Raise where the rule says nothing about the method or the direction."""
        if not (direction.is_estimate or self.any_direction):
            raise ValueError(
                f"{type(self).__name__} is a rule for steps along the estimate, and says nothing about {direction}; "
                "use ef.Constant(gamma) to choose a step size yourself"
            )
        if method.reads_steps and not direction.is_estimate:
            raise ValueError(
                f"clients of {type(method).__name__} read the estimate off the steps, and those of {direction} are others; "
                "use ef.Steepest()"
            )
        if not self.speaks_of(method):
            names = " and ".join(m.__name__ for m in self.methods)
            raise ValueError(
                f"{type(self).__name__} is a rule for {names}, and has no theorem for {type(method).__name__}; "
                "use ef.Constant(gamma) to choose a step size yourself"
            )

    def check_downlink(self, downlink: Downlink) -> None:  # noqa: B027  (most rules speak of none)
        """Raise where the rule is about another way down."""

    def start(self, theory: Theory, method: Method) -> Any:
        """The rule's memory before round 0."""
        return None

    @abstractmethod
    def next(self, state: Any, theory: Theory, method: Method, telemetry: Telemetry | None) -> tuple[float, Any]:
        """gamma^t and the memory for the next round."""


class Fixed(StepSize):
    """The same gamma in every round."""

    claims: ClassVar[bool] = True
    """It is the step of a theorem."""

    @abstractmethod
    def gamma(self, theory: Theory, method: Method | None = None) -> float: ...

    def constant(self, theory: Theory, method: Method) -> float:
        return self.gamma(theory, method)

    def start(self, theory: Theory, method: Method) -> float:
        return self.gamma(theory, method)

    def next(self, state: float, theory: Theory, method: Method, telemetry: Telemetry | None) -> tuple[float, float]:
        return state, state
