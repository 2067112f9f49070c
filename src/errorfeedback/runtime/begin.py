"""Where a run begins, and what is known of that point."""

from __future__ import annotations

from dataclasses import dataclass
from math import nan

from errorfeedback.core import PerColumn


@dataclass(frozen=True, eq=False)
class Begin:
    """A start that clients were asked about.

    >>> import errorfeedback as ef
    >>> problem = ef.synthetic(n=4, d=6, m=3, c=2)
    >>> start = ef.Begin(problem.x0 + 1.0, bits=4 * 6 * 8)  # a byte for every number, say
    >>> runs = [ef.solve(problem, ef.DGD(), ef.InverseL(), rounds=1, x0=x0) for x0 in (start, start.x)]
    >>> float(runs[0].history["uplink_bits"][0] - runs[1].history["uplink_bits"][0])
    192.0
    """

    x: PerColumn
    """One entry per column of the data."""
    bits: int = 0
    """That all clients together have sent for it."""
    since: float = nan
    """The loss from which progress is counted; nan: that at x."""
