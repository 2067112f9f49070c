"""One run as curves: any columns of its history over kB, time on the network, rounds or seconds of computing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from errorfeedback.core import Floats
from errorfeedback.plots.figure import Axis, Curve, Figure, Lines
from errorfeedback.storage.history import History

UNITS = {"hours": 3600.0, "minutes": 60.0}


@dataclass(frozen=True, eq=False)
class RunCurves:
    """A run of n clients, and the seconds that its bits take on a network, where one is given."""

    history: History
    n: int
    network: str = ""
    seconds: Floats | None = None

    @property
    def _unit(self) -> tuple[str, float]:
        """What the time on the network is read in."""
        last = 0.0 if self.seconds is None else float(self.seconds[-1])
        return next(((name, size) for name, size in UNITS.items() if last >= 2 * size), ("seconds", 1.0))

    @property
    def axes(self) -> dict[str, Axis]:
        """kB first, then time where it is known."""
        time = {} if self.seconds is None else {"time": Axis(f"{self._unit[0]} on the network")}
        sent = {"up": Axis("kB up per client"), **time, "total": Axis("kB per client, up and down")}
        return {**sent, "rounds": Axis("rounds"), "seconds": Axis("seconds of computing")}

    def places(self) -> dict[str, Floats]:
        """Where the recorded rounds stand on every axis."""
        h = self.history
        up, down = (h[name] / 8e3 / self.n for name in ("uplink_bits", "downlink_bits"))
        coordinates = {"up": up, "total": up + down, "rounds": h["round"].astype(float), "seconds": h["seconds"]}
        return coordinates if self.seconds is None else {**coordinates, "time": self.seconds / self._unit[1]}

    def figure(self, name: str, columns: dict[str, str], axis: Axis) -> Figure:
        """Columns of the history by label, over all axes, where they have values."""
        curves = [self._curve(label, self.history[column], k) for k, (label, column) in enumerate(columns.items())]
        timed = f"Time on the network: {self.network}; a round lasts as long as its slowest client."
        caption = "" if self.seconds is None else timed
        return Figure(name, [Lines("", curves, axis, legend=len(curves) > 1)], self.axes, columns=1, caption=caption)

    def panels(self, columns: Sequence[str]) -> Figure:
        """Columns of the history side by side; what is always above 0 and changes tenfold, on a logarithmic axis."""
        unknown = [name for name in columns if name not in self.history]
        if unknown:
            raise ValueError(f"the history has no column {unknown[0]!r}; it has {', '.join(self.history)}")
        curves = [self._curve(name, self.history[name], 0) for name in columns]
        lines = [Lines("", [curve], Axis(curve.label, log=_falls_far(curve.y)), legend=False) for curve in curves]
        return Figure("run", lines, self.axes, columns=len(lines))

    def _curve(self, label: str, values: Floats, colour: int) -> Curve:
        known = np.isfinite(values)
        return Curve(label, {name: place[known] for name, place in self.places().items()}, values[known], colour)


def _falls_far(values: Floats) -> bool:
    return bool(len(values)) and float(values.min()) > 0 and float(values.max()) > 10 * float(values.min())
