"""Sizes and durations as people read them."""

from __future__ import annotations


def human_bytes(size: float) -> str:
    """A size with a unit.

    >>> human_bytes(12_345_678)
    '12.3 MB'
    """
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= scale:
            return f"{size / scale:.3g} {unit}"
    return f"{size:.0f} B"


def human_seconds(seconds: float) -> str:
    """A duration with a unit.

    >>> human_seconds(5400.0), human_seconds(0.25)
    ('1.5 h', '0.25 s')
    """
    for unit, scale in (("days", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds:.3g} s"
