"""Curves with known numbers, for checking the checkers."""

from __future__ import annotations

import numpy as np

from errorfeedback.experiments.curves import Trace
from errorfeedback.experiments.jobs import Record

N = 10


def trace(
    label: str = "x", *, rate: float = 0.1, gamma: float = 1.0, bits: int = 70, finished: bool = True, **facts
) -> Trace:
    """f = ||grad f||^2 = exp(-rate t) over 200 rounds; every client sends `bits` per round."""
    t = np.arange(201)
    columns = {
        "round": t,
        "f": np.exp(-rate * t),
        "grad_norm2": np.exp(-rate * t),
        "gamma": np.full(len(t), gamma),
        "uplink_bits": N * bits * t,
        "authors_bits": N * 32 * t,
    }
    return Trace(label, Record(columns, {"n": N, "finished": finished, "rounds_per_second": 1.0, **facts}))


def constants(**changed) -> Record:
    """An instance for table-1 on which condition (ii) holds."""
    facts = {
        "n": 100,
        "d": 500,
        "c": 1,
        "r": 10,
        "fill": 0.1,
        "L": 1.0,
        "L_max": 10.0,
        "L_tilde": 8.0,
        "L_plus": 5.0,
        "xi": 19.0,
    }
    return Record({}, facts | changed)
