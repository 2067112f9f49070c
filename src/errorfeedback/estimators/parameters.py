"""What the parameters of an estimator may be, and the sentence for one that is not: its name, its value, the rule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from numbers import Integral, Real
from typing import Any, Protocol

import numpy as np


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
class WholeNumberOrNone:
    """A whole number, or None to leave the choice to us."""

    least: int

    def allows(self, value: Any) -> bool:
        return value is None or WholeNumber(self.least).allows(value)

    def __str__(self) -> str:
        return f"a whole number of at least {self.least}, or None"


@dataclass(frozen=True)
class AtLeast:
    """A finite number."""

    least: float

    def allows(self, value: Any) -> bool:
        return _is_finite(value) and float(value) >= self.least

    def __str__(self) -> str:
        return f"a finite number of at least {self.least:g}"


@dataclass(frozen=True)
class AboveOrNone:
    """A finite number, or None for no limit."""

    bound: float

    def allows(self, value: Any) -> bool:
        return value is None or (_is_finite(value) and float(value) > self.bound)

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
