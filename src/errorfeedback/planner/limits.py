"""The limits of a contest, the same for every method: bytes of a client up and down, or seconds on the network."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from errorfeedback.planner.network import Wire
from errorfeedback.planner.units import human_bytes, human_seconds
from errorfeedback.runtime.stopping import Progress, Stop


@dataclass(frozen=True, eq=False)
class Limit(Stop):
    """At most that many bytes per client, up and down, or seconds on the network. Both count from the end of round 0 on: no
    method stops before its set-up is paid."""

    bytes: float = inf
    seconds: float = inf
    wire: Wire | None = None

    def __post_init__(self) -> None:
        for name in ("bytes", "seconds"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} = {getattr(self, name)}; a limit must be above 0")
        if self.wire is None and self.seconds < inf:
            raise ValueError(f"a limit of {self.seconds:g} seconds on the network needs a network")

    def start(self) -> tuple[float, float]:
        return 0.0, 0.0

    def next(self, state: tuple[float, float], seen: Progress) -> tuple[str, tuple[float, float]]:
        """state: bits up and down at the end of round 0."""
        if seen.t == 0:
            return "", (seen.bits, seen.down_bits)
        up, down = seen.bits - state[0], seen.down_bits - state[1]
        if up + down >= 8 * self.bytes:
            return f"{human_bytes(self.bytes)} per client, up and down, spent at round {seen.t}", state
        if self.wire is not None and self.wire.seconds(seen.t, up * self.wire.n, down * self.wire.n) >= self.seconds:
            return f"{human_seconds(self.seconds)} on the network spent at round {seen.t}", state
        return "", state
