"""Step sizes of local methods that have a theorem. The clients' own rate is the method's; these rules check it, and say what
it may be.

`ScaffoldStep` (Karimireddy et al. 2020, Theorem III, not convex, all clients): eta_l <= 1/(24 K eta_g L_max) and eta_g >= 1,
that is gamma = 1/(24 L_max) for K rate <= gamma.

`ScaffnewStep` (Mishchenko et al. 2022, Theorem 3.6, all f_i strongly convex with mu): rate <= 1/L_max and gamma = rate/p,
plain averaging. With w_i the clients' models after every local step,
    Psi = sum_i ||w_i - x*||^2 + (rate/p)^2 sum_i ||h_i - grad f_i(x*)||^2,   E Psi+ <= (1 - min(rate mu, p^2)) Psi:
p = sqrt(rate mu) takes sqrt(L_max/mu) log(1/eps) exchanges, and as many steps as gradient descent.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from errorfeedback.methods.base import Method
from errorfeedback.methods.local_steps import LocalSteps
from errorfeedback.methods.scaffnew import Scaffnew
from errorfeedback.methods.scaffold import SCAFFOLD
from errorfeedback.stepsizes.base import Fixed
from errorfeedback.theory.analysis import Theory

ROUNDING = 1e-9


class LocalRule(Fixed):
    """A rule that asks something of the clients' rate."""

    def gamma(self, theory: Theory, method: Method | None = None) -> float:
        assert isinstance(method, LocalSteps), "the step depends on the clients' own"
        method = method.suited(theory.problem)
        longest = self.rate(theory, method)
        if method.pace > longest * (1 + ROUNDING):
            raise ValueError(f"rate = {method.rate}; the theorem of {type(self).__name__} needs at most {longest:.6g}")
        return self.server(theory, method)

    @abstractmethod
    def rate(self, theory: Theory, method: LocalSteps) -> float:
        """The longest steps that clients may take."""

    @abstractmethod
    def server(self, theory: Theory, method: LocalSteps) -> float:
        """The server's step size."""


@dataclass(frozen=True)
class ScaffoldStep(LocalRule):
    """For SCAFFOLD; `rate` is 1/(24 L_max steps).

    >>> import errorfeedback as ef
    >>> theory = ef.analyse(ef.synthetic(n=10, d=20, m=3, c=2))
    >>> round(ef.ScaffoldStep().gamma(theory, ef.SCAFFOLD()) * theory.L_max, 6) == round(1 / 24, 6)
    True
    """

    methods: ClassVar[tuple[type[Method], ...]] = (SCAFFOLD,)

    def rate(self, theory: Theory, method: LocalSteps) -> float:
        assert isinstance(method, SCAFFOLD), "it is a rule for it"
        return self.server(theory, method) / method.steps

    def server(self, theory: Theory, method: LocalSteps) -> float:
        return 1 / (24 * theory.L_max)


@dataclass(frozen=True)
class ScaffnewStep(LocalRule):
    """For Scaffnew; `rate` is 1/L_max.

    >>> import errorfeedback as ef
    >>> theory = ef.analyse(ef.synthetic(n=10, d=20, m=3, c=2))
    >>> round(ef.ScaffnewStep().gamma(theory, ef.Scaffnew(p=0.2)) * theory.L_max, 6)
    5.0
    """

    methods: ClassVar[tuple[type[Method], ...]] = (Scaffnew,)

    def rate(self, theory: Theory, method: LocalSteps) -> float:
        return 1 / theory.L_max

    def server(self, theory: Theory, method: LocalSteps) -> float:
        return method.unit
