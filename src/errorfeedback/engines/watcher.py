"""Somebody who can still speak when a rank is killed: a small process beside each rank that waits for the rank's end.

It reads from a pipe that closes when the rank dies, however it dies. The first to notice says which rank it was; MPI then
ends the job, and the watchers of the ranks that die of that stay silent (they share a file that only one can create).
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

DONE, QUIET = b"d", b"q"
WATCH = """
import os, sys, time
words, once = sys.argv[1], sys.argv[2]
word = os.read(0, 1)
if word != b"d":
    try:
        os.close(os.open(once, os.O_CREAT | os.O_EXCL))
    except OSError:
        sys.exit()
    if not word:
        os.write(2, words.encode())
    for number in (0, 1, 2):
        os.close(number)
    time.sleep(5)
    os.unlink(once)
    os._exit(0)
"""


class Watcher:
    """Watches this process until it says that all is well."""

    def __init__(self, message: str, job: str) -> None:
        once = Path(tempfile.gettempdir()) / f"errorfeedback-{job}"
        command = [sys.executable, "-I", "-S", "-c", WATCH, f"errorfeedback: {message}\n", str(once)]
        self._process: subprocess.Popen[bytes] | None = subprocess.Popen(
            command, stdin=subprocess.PIPE, start_new_session=True
        )

    def done(self) -> None:
        """This rank ends well."""
        self._say(DONE)

    def quiet(self) -> None:
        """The job ends for a reason that was told; nobody need say more."""
        self._say(QUIET)

    def _say(self, word: bytes) -> None:
        process, self._process = self._process, None
        if process is None or process.stdin is None:
            return
        process.stdin.write(word)
        process.stdin.close()
        if word == DONE:
            process.wait()
        else:
            process.returncode = 0  # it outlives this process
