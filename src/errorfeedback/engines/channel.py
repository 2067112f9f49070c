"""Bytes between the ranks of an MPI job."""

from __future__ import annotations

import sys
import time
from array import array
from typing import Any

import numpy as np

LAST_WORDS = 0.3
"""Seconds that mpiexec gets to pass on what a rank said before it ends the job."""
PATIENCE = 10.0
"""Seconds that it may take to read it."""


def receive(world: Any, rank: int) -> bytes:
    """What a rank sent, whatever its length."""
    from mpi4py.MPI import Status  # noqa: PLC0415  (optional)

    status = Status()
    world.until(lambda: world.Iprobe(rank, status=status))
    answer = np.empty(status.Get_count(), dtype=np.uint8)
    world.Recv(answer, rank)
    return answer.tobytes()


def end_job(world: Any, reason: str) -> None:
    """Say why, and end all ranks once mpiexec has read it."""
    print(f"errorfeedback: {reason}; the job ends", file=sys.stderr, flush=True)
    end = time.monotonic() + PATIENCE
    while _unread() and time.monotonic() < end:
        time.sleep(0.01)
    time.sleep(LAST_WORDS)
    world.Abort(1)


def _unread() -> int:
    """Bytes of what was said that nobody has taken out of the pipe yet; 0 where it is no pipe."""
    count = array("i", [0])
    try:
        from fcntl import ioctl  # noqa: PLC0415  (not on every system)
        from termios import FIONREAD  # noqa: PLC0415

        ioctl(sys.stderr.fileno(), FIONREAD, count, True)
    except (ImportError, OSError):
        return 0
    return count[0]
