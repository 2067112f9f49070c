"""One process at a time: a lock that the system takes back when its process ends, however it ends."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

try:
    from fcntl import LOCK_EX, LOCK_NB, flock
except ImportError:  # a system without them
    flock = None  # type: ignore[assignment]

LOG = logging.getLogger("errorfeedback")


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of this file; refused where another process (or another run in this one) has it.

    The file stays, with the holder's name in it: to remove it would let two processes hold two files of one name.
    """
    with open(path, "a+b") as file:
        _take(file, path)
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}".encode())
        file.flush()
        yield


def _take(file: IO[bytes], path: Path) -> None:
    try:
        if flock is None:
            raise OSError("this system has no flock")
        flock(file, LOCK_EX | LOCK_NB)
    except BlockingIOError as error:
        file.seek(0)
        holder = file.read().decode(errors="replace") or "another process"
        raise ValueError(f"{path.parent} is in use by {holder}; wait for its end, or choose another folder") from error
    except OSError as error:  # some network file systems
        LOG.warning("%s cannot be locked (%s): see to it that no other run writes into it", path.parent, error)
