"""What the parameters of an estimator may be, and the sentence for one that is not: its name, its value, the rule. Those
that all estimators have are written once: an estimator with more of its own takes them as `**shared`, and `show_all` gives
its `__init__` the signature that scikit-learn and `help` look at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import Parameter, signature
from math import isfinite
from numbers import Integral, Real
from typing import Any, Protocol, TypedDict

import numpy as np

from errorfeedback.estimators.training import AUTO, INTERCEPTS


class SharedParameters(TypedDict, total=False):
    """With the meaning and the defaults that they have in `LinearEF21`."""

    n_clients: int
    k: int | str | None
    network: str | list[str] | None
    l1: float
    l2: float
    fit_intercept: bool
    intercept: str
    scale: bool
    own_models: bool
    own_features: bool
    max_iter: int
    tol: float
    budget: float | None
    warm_start: bool
    random_state: Any


def show_all(init: Callable[..., None], shared: Callable[..., None]) -> None:
    """The signature of `init` has those of `shared` in place of its `**shared`."""
    whole = signature(init)
    own = {name: each for name, each in whole.parameters.items() if each.kind is not Parameter.VAR_KEYWORD}
    if len(own) < len(whole.parameters):
        every = {**own, **signature(shared).parameters}
        init.__signature__ = whole.replace(parameters=list(every.values()))  # type: ignore[attr-defined]


class Rule(Protocol):
    """What a value must be."""

    def allows(self, value: Any) -> bool: ...


@dataclass(frozen=True)
class WholeNumber:
    """A whole number.

    >>> WholeNumber(1).allows(0), str(WholeNumber(1))
    (False, 'a whole number of at least 1')
    """

    least: int

    def allows(self, value: Any) -> bool:
        return isinstance(value, Integral) and not _is_truth(value) and int(value) >= self.least

    def __str__(self) -> str:
        return f"a whole number of at least {self.least}"


@dataclass(frozen=True)
class Level:
    """K of TopK: a whole number, "auto" to leave the number to us, or None to leave the method to us."""

    def allows(self, value: Any) -> bool:
        return value is None or (isinstance(value, str) and value == AUTO) or WholeNumber(1).allows(value)

    def __str__(self) -> str:
        return f"a whole number of at least 1, {AUTO!r} or None"


@dataclass(frozen=True)
class AtLeast:
    """A finite number."""

    least: float

    def allows(self, value: Any) -> bool:
        return _is_finite(value) and float(value) >= self.least

    def __str__(self) -> str:
        return f"a finite number of at least {self.least:g}"


@dataclass(frozen=True)
class Above:
    """A finite number."""

    bound: float

    def allows(self, value: Any) -> bool:
        return _is_finite(value) and float(value) > self.bound

    def __str__(self) -> str:
        return f"a finite number above {self.bound:g}"


@dataclass(frozen=True)
class AboveOrNone:
    """A finite number, or None for no limit."""

    bound: float

    def allows(self, value: Any) -> bool:
        return value is None or Above(self.bound).allows(value)

    def __str__(self) -> str:
        return f"a finite number above {self.bound:g}, or None for no limit"


@dataclass(frozen=True)
class OneOf:
    """One of a few values.

    >>> str(OneOf(("topk", "exact")))
    "one of 'topk', 'exact'"
    """

    values: tuple[Any, ...]

    def allows(self, value: Any) -> bool:
        return isinstance(value, (str, bool, np.bool_)) and value in self.values

    def __str__(self) -> str:
        return f"one of {', '.join(map(repr, self.values))}"


RULES: dict[str, Rule] = {
    "n_clients": WholeNumber(1),
    "k": Level(),
    "l1": AtLeast(0),
    "l2": AtLeast(0),
    "fit_intercept": OneOf((True, False)),
    "intercept": OneOf(INTERCEPTS),
    "scale": OneOf((True, False)),
    "own_models": OneOf((True, False)),
    "own_features": OneOf((True, False)),
    "max_iter": WholeNumber(0),
    "tol": AtLeast(0),
    "budget": AboveOrNone(0),
    "warm_start": OneOf((True, False)),
}
"""What the shared parameters may be."""


def check(values: Mapping[str, Any], rules: Mapping[str, Rule]) -> None:
    """Raise for the first value that breaks its rule.

    >>> check({"l2": -1}, {"l2": AtLeast(0)})
    Traceback (most recent call last):
    ValueError: l2 = -1; it must be a finite number of at least 0
    """
    for name, rule in rules.items():
        if not rule.allows(values[name]):
            raise ValueError(f"{name} = {values[name]!r}; it must be {rule}")


def _is_truth(value: Any) -> bool:
    return isinstance(value, (bool, np.bool_))


def _is_finite(value: Any) -> bool:
    return isinstance(value, Real) and not _is_truth(value) and isfinite(value)
