"""What a run recorded: one row per recorded round, columns as numpy arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from errorfeedback.core import Floats
from errorfeedback.notebook import shown, table
from errorfeedback.storage.pandas_frame import frame

if TYPE_CHECKING:
    import pandas

COLUMNS = (
    "round",
    "f",
    "grad_norm2",
    "residual2",
    "gamma",
    "G",
    "c_t",
    "lyapunov",
    "uplink_bits",
    "payload_bits",
    "downlink_bits",
    "authors_bits",
    "curvature_bits",
    "tellers",
    "seconds",
    "validation",
    "estimated_gap",
)
WHOLE = frozenset({"round", "uplink_bits", "payload_bits", "downlink_bits", "authors_bits", "curvature_bits", "tellers"})
TOTALS = (*(WHOLE - {"tellers"}), "seconds")
"""Columns that count on from row to row."""
MISSING = {"curvature_bits": 0, "tellers": 0}
"""What a column holds where a run says nothing of it; NaN otherwise."""
SHOWN = ("f", "grad_norm2", "gamma", "uplink_bits", "downlink_bits")
"""Columns that say at a glance how a run went."""
ENDS = 3
"""Rows of the beginning, and of the end, in a notebook."""


class History(dict[str, Floats]):
    """Columns by name; row k describes (x^t, g^t) at t = round[k], before the step with gamma[k] is taken.

    round, f, grad_norm2 = ||grad f(x^t)||^2, residual2 = the least ||v||^2 in the subdifferential of f + R at x^t (the same
    number without a penalty R), gamma, G = (1/n) sum ||g_i - grad f_i||^2, c_t = n ||g - grad f||^2 / G,
    lyapunov (the Psi of the rule's own theorem, Theorem 1's where it has none); uplink_bits and downlink_bits: what all
    clients together sent (whole frames, with head and padding) and received so far; payload_bits: the values, indices and
    telemetry in the frames, which is what theory counts; authors_bits: the uplink as the paper's plots count it;
    curvature_bits: the part of uplink_bits that is Hessians; tellers: how many clients told theirs when last asked;
    seconds: without metrics and compilation; validation: the loss on held-out data, where the run had some; estimated_gap:
    what the loss is above its minimum, as a rule that stops by it estimates. Columns that a method has no meaning for, and
    metrics that were switched off, are NaN.
    """

    notes: tuple[str, ...]

    def __init__(self, rows: list[dict[str, float]], notes: tuple[str, ...] = ()) -> None:
        super().__init__(
            {
                name: np.array(
                    [row.get(name, MISSING.get(name, np.nan)) for row in rows],
                    dtype=np.int64 if name in WHOLE else np.float64,
                )
                for name in COLUMNS
            }
        )
        self.notes = notes

    def followed_by(self, later: History) -> History:
        """With the rows of a run that went on from where this one ended: rounds, bits and seconds are counted on.

        >>> run = History([dict.fromkeys(COLUMNS, 8 * t) | {"round": t} for t in range(3)])
        >>> both = run.followed_by(run)
        >>> both["round"].tolist(), both["uplink_bits"].tolist()
        ([0, 1, 2, 3, 4, 5], [0, 8, 16, 16, 24, 32])
        """
        before = {name: self[name][-1] for name in TOTALS} | {"round": self["round"][-1] + 1}
        joined = History([], tuple(dict.fromkeys((*self.notes, *later.notes))))
        joined.update({name: np.concatenate([self[name], later[name] + before.get(name, 0)]) for name in COLUMNS})
        return joined

    @property
    def rows(self) -> int:
        """How many rounds were recorded."""
        return len(self["round"])

    def __repr__(self) -> str:
        if not self.rows:
            return "<History: no round was recorded>"
        known = {name: self[name] for name in ("round", *SHOWN) if not np.isnan(self[name]).all()}
        columns = ", ".join(f"{name} {shown(h[0].item())} -> {shown(h[-1].item())}" for name, h in known.items())
        return f"<History: {self.rows:,} recorded rounds: {columns}>"

    def _repr_html_(self) -> str:
        """The first and the last rows."""
        every = range(self.rows)
        few = every if self.rows <= 2 * ENDS else [*every[:ENDS], *every[-ENDS:]]
        rows = [[self[name][k].item() for name in ("round", *SHOWN)] for k in few]
        return table(f"{len(few)} of {self.rows:,} recorded rounds", rows, ("round", *SHOWN))

    def to_pandas(self) -> pandas.DataFrame:
        """The history as a pandas frame."""
        return frame(self)
