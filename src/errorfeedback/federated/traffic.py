"""Bytes that crossed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, eq=False)
class Crossed:
    """Between nodes and the server."""

    up: int
    down: int

    def and_also(self, up: int, down: int) -> Crossed:
        return Crossed(self.up + up, self.down + down)
