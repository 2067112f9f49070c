"""Links between clients and server, and the time that bits take on them. A round lasts as long as its slowest client."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from math import inf, isfinite
from typing import Any, Self

import numpy as np

from errorfeedback.core import VALUE_BITS, Floats, PerClient
from errorfeedback.storage.history import History
from errorfeedback.theory.analysis import Theory

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
    """What one client's link can do: bits per second `up` and `down`, and the seconds that any message takes on top
    (`latency`); numbers, or texts with a unit.

    Where only one of the two rates is given, the other is the same; where none is, only the latency takes time.

    >>> Network(up="1Mbit/s", down="10Mbit/s", latency="250ms").seconds(up=1e6, down=5e6)
    2.0
    >>> Network(up="1Mbit/s").seconds(up=1e6, down=5e6)
    6.0
    """

    up: float | str | None = None
    down: float | str | None = None
    latency: float | str = 0.0
    assumed: str = field(default="", init=False, compare=False)
    """The rate that was not given, and is taken from the other."""

    def __post_init__(self) -> None:
        rates = {name: _given_rate(name, getattr(self, name)) for name in ("up", "down")}
        missing = [name for name, rate in rates.items() if rate is None]
        if len(missing) == 1:
            object.__setattr__(self, "assumed", missing[0])
        known = next((rate for rate in rates.values() if rate is not None), inf)
        for name, rate in rates.items():
            object.__setattr__(self, name, known if rate is None else rate)
        object.__setattr__(self, "latency", quantity("latency", self.latency, TIMES))

    def seconds(self, up: float, down: float) -> float:
        """One round: x down, the message up, each after the latency."""
        return 2 * float(self.latency) + up / self.rate("up") + down / self.rate("down")

    def rate(self, way: str) -> float:
        """Bits per second "up" or "down"."""
        return float(getattr(self, way))

    @classmethod
    def parse(cls, text: str) -> Self:
        """From "up=1Mbit/s,down=10Mbit/s,latency=50ms".

        >>> str(Network.parse("up=1Mbit/s,latency=50ms"))
        'up 1 Mbit/s, down 1 Mbit/s (not given: same as up), latency 50 ms'
        """
        given: dict[str, str] = {}
        for part in filter(None, text.split(",")):
            name, equals, value = (word.strip() for word in part.partition("="))
            if not equals or name not in ("up", "down", "latency"):
                raise ValueError(f"{part!r} is not one of up=RATE, down=RATE, latency=TIME, as in up=1Mbit/s,latency=50ms")
            if name in given:
                raise ValueError(f"{name} is given twice in {text!r}")
            given[name] = value
        if not given:
            raise ValueError(f"the network {text!r} says nothing; give up=RATE, down=RATE, latency=TIME or some of them")
        return cls(given.get("up"), given.get("down"), given.get("latency", 0.0))

    def json(self) -> dict[str, Any]:
        """For machines; a rate without limit is null."""
        rates = {way: None if self.rate(way) == inf else self.rate(way) for way in ("up", "down")}
        return {**rates, "latency": self.latency, "assumed": self.assumed, "text": str(self)}

    def __str__(self) -> str:
        if self.rate("up") == self.rate("down") == inf:
            return f"rates without limit, latency {1000 * float(self.latency):g} ms"
        other = {"up": "down", "down": "up"}
        rates = [
            f"{way} {_rate(self.rate(way))}" + f" (not given: same as {other[way]})" * (way == self.assumed) for way in other
        ]
        return ", ".join([*rates, f"latency {1000 * float(self.latency):g} ms"])


@dataclass(frozen=True)
class Links:
    """Networks of classes of clients: by name, or by a pattern of names ("phone-*"); the first that fits counts.

    >>> links = Links({"phone-*": Network(up="1kbit/s"), "*": Network(up="1Mbit/s")})
    >>> [link.up for link in links.of(["desk", "phone-7"])]
    [1000000.0, 1000.0]
    """

    classes: Mapping[str, Network]
    """Name or pattern, and the network of such clients."""

    def of(self, names: Sequence[Any]) -> list[Network]:
        """The network of every client."""
        return [self._of(str(name)) for name in names]

    def _of(self, name: str) -> Network:
        for pattern, network in self.classes.items():
            if fnmatchcase(name, pattern):
                return network
        raise ValueError(
            f"client {name!r} has no network; the classes are {', '.join(self.classes)} ('*' fits all the rest)"
        )

    @classmethod
    def parse(cls, texts: Sequence[str]) -> Self:
        """From "up=1Mbit/s" for all clients, or one "CLASS: up=1Mbit/s" for every class.

        >>> str(Links.parse(["phone-*: up=1kbit/s,down=2kbit/s", "latency=9ms"]))
        'phone-*: up 1 kbit/s, down 2 kbit/s, latency 0 ms; *: rates without limit, latency 9 ms'
        """
        classes: dict[str, Network] = {}
        for text in texts:
            name, colon, rest = text.rpartition(":")
            pattern = name.strip() if colon else "*"
            if pattern in classes:
                raise ValueError(f"the network of {pattern!r} is given twice; give one per class of clients")
            classes[pattern] = Network.parse(rest)
        return cls(classes)

    def json(self) -> dict[str, Any]:
        """For machines: the network of every class."""
        return {name: network.json() for name, network in self.classes.items()}

    def __str__(self) -> str:
        if list(self.classes) == ["*"]:
            return str(self.classes["*"])
        return "; ".join(f"{name}: {network}" for name, network in self.classes.items())


def networks_of(given: str | Sequence[str] | None, clients: Sequence[Any]) -> tuple[Network, ...] | None:
    """The link of every client, by its name; None where nothing is given."""
    if given is None:
        return None
    return tuple(Links.parse([given] if isinstance(given, str) else list(given)).of(clients))


@dataclass(frozen=True, eq=False)
class Pace:
    """What the links of all clients can do: (n,) arrays."""

    trip: PerClient
    """Seconds that the latency takes in a round: once down, once up."""
    up_rate: PerClient
    down_rate: PerClient

    @classmethod
    def of(cls, networks: Sequence[Network]) -> Self:
        paces = [(2 * float(each.latency), each.rate("up"), each.rate("down")) for each in networks]
        return cls(*np.array(paces).T)

    def slowest(self, up: PerClient, down: PerClient, rounds: float = 1.0) -> float:
        """Seconds of the slowest client for that many rounds, in which the clients send and receive so many bits in all."""
        return float(np.max(rounds * self.trip + up / self.up_rate + down / self.down_rate))


@dataclass(frozen=True, eq=False)
class Wire:
    """The links of all clients, and which part of the traffic goes over each."""

    up: PerClient
    """What every client sends in a round, in any unit: bits are shared out in this proportion; `down` likewise."""
    down: PerClient
    pace: Pace

    @property
    def n(self) -> int:
        return len(self.up)

    @cached_property
    def _shares(self) -> tuple[PerClient, PerClient]:
        return self.up / self.up.sum(), self.down / self.down.sum()

    def seconds(self, rounds: float, up: float, down: float, curvature: float = 0.0, tellers: int = 0) -> float:
        """That many rounds, in which all clients together send and receive so many bits, and so many of Hessians, which grow
        with the square of what a client receives. Where some clients tell these for all (`tellers`; 0: all do), every client
        is taken for one of them: the slowest may be."""
        up_share, down_share = self._shares
        sent = up * up_share
        if curvature:
            sent += curvature * (self.n / tellers if tellers else 1.0) * down_share**2 / (down_share @ down_share)
        return self.pace.slowest(PerClient(sent), PerClient(down * down_share), rounds)


def elapsed(
    history: History, up: PerClient, down: PerClient, networks: Sequence[Network], after: PerClient | None = None
) -> Floats:
    """Seconds on the wire until every recorded round: between two of them, those of the slowest client.

    `up` and `down`: what the clients send and receive in a round, in any unit. What comes before round 0 travels with it.
    `after`: bits that they send in an exchange after the last round, which are on the books from the first one on.
    """
    wire = Wire(up, down, Pace.of(networks))
    last = PerClient(np.zeros(wire.n)) if after is None else after
    curvature = np.diff(history["curvature_bits"], prepend=0)
    steps = zip(
        np.diff(history["round"], prepend=-1),
        np.diff(history["uplink_bits"], prepend=last.sum()) - curvature,
        np.diff(history["downlink_bits"], prepend=0),
        curvature,
        history["tellers"],
        strict=True,
    )
    seconds = np.cumsum([wire.seconds(*step) for step in steps])
    if last.any():
        seconds[-1] += wire.pace.slowest(last, PerClient(np.zeros(wire.n)))
    return seconds


def traffic(theory: Theory) -> tuple[PerClient, PerClient]:
    """Bits of every client's message up (on average, where it varies) and of its part of x down, in a round."""
    return theory.compressor.message_bits(theory.support), PerClient(VALUE_BITS * theory.sizes.astype(np.float64))


def _given_rate(name: str, given: float | str | None) -> float | None:
    """Bits per second; None where nothing is said."""
    if given is None or given == inf:
        return None if given is None else inf
    value = quantity(name, given, RATES)
    if value <= 0:
        raise ValueError(f"{name} = {given!r}; a rate must be above 0")
    return value


def _rate(bits: float) -> str:
    if bits == inf:
        return "without limit"
    unit = next((u for u in ("Gbit/s", "Mbit/s", "kbit/s") if bits >= RATES[u]), "bit/s")
    return f"{bits / RATES[unit]:g} {unit}"
