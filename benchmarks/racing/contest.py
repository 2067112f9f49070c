"""Who runs, and what the runs say: for every quantity that users pay (rounds, kB up, kB down, both, seconds on a link) what
it takes to come to a relative gap (f - f*) / (f(0) - f*).

Peers may choose their settings afterwards, for every quantity and level anew. We may not: rounds and bytes are those of one
run made for total bytes, and seconds on a link those of a run made for that link.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from time import perf_counter

import numpy as np

from racing.books import LINKS, Curve, Link
from racing.first_order import agd, gd
from racing.lbfgs import lbfgs
from racing.local_training import cocoa, fedavg
from racing.newton import newton, newton_cg
from racing.objective import Objective
from racing.ours import ours, top1

US, BYTES = "errorfeedback", "bytes"
LEVELS = (1e-2, 1e-3, 1e-5)
Run = Callable[[Objective, float, int], dict[str, Curve]]


@dataclass(frozen=True)
class Peer:
    """A method, and how many exchanges it gets."""

    run: Run
    most: int


PEERS = {
    "L-BFGS": Peer(lbfgs, 500),
    "Newton": Peer(newton, 100),
    "Newton-CG": Peer(newton_cg, 500),
    "AGD": Peer(agd, 500),
    "GD": Peer(gd, 500),
    "FedAvg": Peer(fedavg, 100),
    "CoCoA+": Peer(cocoa, 100),
    "EF21 Top1": Peer(top1, 1000),
}
OURS_MOST = 1000
METHODS = (US, *PEERS)

Quantity = Callable[[Curve], np.ndarray]
QUANTITIES: dict[str, Quantity] = {
    "rounds": lambda curve: curve.exchanges,
    "kB up": lambda curve: curve.up / 1e3,
    "kB down": lambda curve: curve.down / 1e3,
    "kB": lambda curve: curve.total / 1e3,
    **{link.name: partial(lambda curve, link: curve.seconds(link), link=link) for link in LINKS},
}
"""Seconds on a link go by the link's name."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """The curves of one method on one problem, by setting; ours by what a run was made for."""

    method: str
    curves: dict[str, Curve]
    seconds: float
    """On the processor, for all settings."""

    def needed(self, objective: Objective, level: float, quantity: str) -> tuple[float, str]:
        """How much of the quantity it takes, and with which setting; infinity where no run gets there."""
        names: Iterable[str] = self.curves
        if self.method == US:
            names = [quantity if quantity in self.curves else BYTES]
        found = [(_needed(self.curves[name], objective.level(level), QUANTITIES[quantity]), name) for name in names]
        return min((pair for pair in found if np.isfinite(pair[0])), default=(np.inf, ""))


def _needed(curve: Curve, f: float, quantity: Quantity) -> float:
    at = curve.first(f)
    return np.inf if at is None else float(quantity(curve)[at])


def race(objective: Objective, method: str, level: float, *, share: float = 1.0, links: Iterable[Link] = LINKS) -> Outcome:
    """One method until the level; with a share of its exchanges only."""
    began, target = perf_counter(), objective.level(level)
    if method == US:
        most = max(1, round(share * OURS_MOST))
        curves = {BYTES: ours(objective, BYTES, target, most)}
        curves |= {link.name: ours(objective, link, target, most) for link in links}
    else:
        peer = PEERS[method]
        curves = peer.run(objective, target, max(1, round(share * peer.most)))
    return Outcome(method, curves, perf_counter() - began)
