"""What a run would have cost elsewhere: its rounds and bits, on links that it did not have.

A round lasts as long as its slowest client: the latency down and up, its bits down, its bits up (`planner.network`). The
same rounds with every number in full (64 bits, up and down) are what few bits and sparse messages are to be held against.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any

from errorfeedback.core import PerClient
from errorfeedback.planner.network import Links, Network, Pace, Wire, elapsed
from errorfeedback.storage.history import History

LINKS = {
    "sensor (NB-IoT)": Network(up="20kbit/s", down="60kbit/s", latency="1.5s"),
    "phone (3G)": Network(up="1Mbit/s", down="5Mbit/s", latency="100ms"),
    "satellite (geostationary)": Network(up="3Mbit/s", down="25Mbit/s", latency="300ms"),
    "home (DSL)": Network(up="10Mbit/s", down="50Mbit/s", latency="20ms"),
    "office (fibre)": Network(up="1Gbit/s", down="1Gbit/s", latency="5ms"),
    "data centre": Network(up="10Gbit/s", down="10Gbit/s", latency="50us"),
}
"""Links of a kind that clients have; the figures are round ones."""


@dataclass(frozen=True)
class LinkCost:
    """Seconds of a run on some links; `waiting`, `up`, `down`: were the rest free."""

    name: str
    links: str
    seconds: float
    waiting: float
    up: float
    down: float
    in_full: float
    """The same rounds with every number in 64 bits."""

    @property
    def most(self) -> str:
        """What takes the most of it."""
        parts = {"waiting": self.waiting, "sending": self.up, "receiving": self.down}
        return max(parts, key=lambda name: parts[name])


@dataclass(frozen=True, eq=False)
class Journey:
    """A run, its clients' names, and bits of their messages up, and of their part of the model in full, in a round."""

    history: History
    names: Sequence[Any]
    up: PerClient
    down: PerClient
    after: PerClient | None = None
    """Bits of what each says after the last round."""

    def on(self, name: str, links: Links) -> LinkCost:
        """What it takes there."""
        alone = {
            "waiting": {each: Network(inf, inf, network.latency) for each, network in links.classes.items()},
            "up": {each: Network(network.up, inf) for each, network in links.classes.items()},
            "down": {each: Network(inf, network.down) for each, network in links.classes.items()},
        }
        parts = {part: self._seconds(replace(links, classes=classes)) for part, classes in alone.items()}
        rounds, full = float(self.history["round"][-1]) + 1, float(self.down.sum())
        in_full = Wire(self.down, self.down, Pace.of(links.of(self.names))).seconds(rounds, rounds * full, rounds * full)
        return LinkCost(name, str(links), self._seconds(links), **parts, in_full=in_full)

    def _seconds(self, links: Links) -> float:
        return float(elapsed(self.history, self.up, self.down, links.of(self.names), self.after)[-1])
