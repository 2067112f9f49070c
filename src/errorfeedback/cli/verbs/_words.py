"""What several verbs say about the same option."""

from __future__ import annotations

NETWORK = (
    '"up=1Mbit/s,down=10Mbit/s,latency=50ms": time on that link; a rate that is left out is that of the other way. '
    'Give it once per class of clients where they differ: "phone-*: up=100kbit/s", then "up=1Mbit/s" for all others.'
)
TIMEOUT = "With mpi: end the job when a rank has not been heard of for that many seconds (default: 120)."
