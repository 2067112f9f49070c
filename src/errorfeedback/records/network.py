"""A link between clients and server, and the time that bits take on it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import inf, isfinite
from typing import Self

RATES = {"bit/s": 1.0, "kbit/s": 1e3, "Mbit/s": 1e6, "Gbit/s": 1e9, "B/s": 8.0, "kB/s": 8e3, "MB/s": 8e6, "GB/s": 8e9}
TIMES = {"s": 1.0, "ms": 1e-3, "us": 1e-6}
NUMBER = re.compile(r"\s*([0-9.]+(?:[eE][-+]?[0-9]+)?)\s*(\S*)\s*")


def quantity(name: str, text: str | float, units: dict[str, float]) -> float:
    """A number with a unit, in the first unit of `units`; a bare number is in that unit.

    >>> quantity("up", "2.5 Mbit/s", RATES), quantity("latency", "50ms", TIMES)
    (2500000.0, 0.05)
    """
    match = NUMBER.fullmatch(str(text))
    unit = (match[2] if match else "") or next(iter(units))
    try:
        value = float(match[1]) * units[unit] if match else None
    except (KeyError, ValueError):
        value = None
    if value is None or not isfinite(value):
        raise ValueError(f"{name} = {text!r}; it must be a number and one of {', '.join(units)}")
    return value


@dataclass(frozen=True)
class Network:
    """What one client's link can do: bits per second up and down, and the seconds that any message takes on top.

    >>> Network(up="1Mbit/s", down="10Mbit/s", latency="250ms").seconds(up=1e6, down=5e6)
    2.0
    """

    up: float | str = inf
    down: float | str = inf
    latency: float | str = 0.0

    def __post_init__(self) -> None:
        for name, units in (("up", RATES), ("down", RATES), ("latency", TIMES)):
            given = getattr(self, name)
            value = inf if given == inf and name != "latency" else quantity(name, given, units)
            if value <= 0 and name != "latency":
                raise ValueError(f"{name} = {given!r}; a rate must be above 0")
            object.__setattr__(self, name, value)

    def seconds(self, up: float, down: float) -> float:
        """One round: x down, the message up, each after the latency."""
        return 2 * float(self.latency) + up / float(self.up) + down / float(self.down)

    @classmethod
    def parse(cls, text: str) -> Self:
        """From "up=1Mbit/s,down=10Mbit/s,latency=50ms"; what is left out costs no time.

        >>> Network.parse("up=1Mbit/s,latency=50ms").seconds(up=1e6, down=1e9)
        1.1
        """
        given: dict[str, str] = {}
        for part in filter(None, text.split(",")):
            name, equals, value = (word.strip() for word in part.partition("="))
            if not equals or name not in ("up", "down", "latency"):
                raise ValueError(f"{part!r} is not one of up=RATE, down=RATE, latency=TIME, as in up=1Mbit/s,latency=50ms")
            if name in given:
                raise ValueError(f"{name} is given twice in {text!r}")
            given[name] = value
        return cls(**given)

    def __str__(self) -> str:
        rates = [f"{name} {_rate(float(rate))}" for name, rate in (("up", self.up), ("down", self.down)) if rate != inf]
        return ", ".join([*rates, f"latency {1000 * float(self.latency):g} ms"])


def _rate(bits: float) -> str:
    unit = next((u for u in ("Gbit/s", "Mbit/s", "kbit/s") if bits >= RATES[u]), "bit/s")
    return f"{bits / RATES[unit]:g} {unit}"
