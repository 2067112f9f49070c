"""Processes that end with whoever started them, in whatever way that ends.

Each has a session of its own, whose processes are all told to end, and killed where they do not. What they start may leave
the session, and outlive its parent; so every one carries a mark in its environment, by which it is found (where there is a
/proc).
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from types import FrameType
from typing import Any, Self

GRACE = 5.0
"""Seconds to end in."""
LAST_LINES = 15
POLL = 0.05
MARK = "ERRORFEEDBACK_STARTED_BY"
KILL = getattr(signal, "SIGKILL", signal.SIGTERM)
"""Windows has no SIGKILL: there SIGTERM ends a process at once,"""
TO_SESSION = getattr(os, "killpg", os.kill)
"""and no sessions: the process alone is told."""


class Processes:
    """What runs, by name; every output goes to a file of that name in `logs`."""

    def __init__(self, logs: Path, environment: Mapping[str, str]) -> None:
        self.logs, self.environment = logs, dict(environment)
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self._former: Any = None
        self._marks: dict[int, str] = {}

    def __enter__(self) -> Self:
        self.logs.mkdir(parents=True, exist_ok=True)
        self._former = signal.signal(signal.SIGTERM, _terminated)
        return self

    def __exit__(self, *error: object) -> None:
        try:
            self.end(list(self.running))
        finally:
            signal.signal(signal.SIGTERM, self._former)

    def start(self, name: str, command: Sequence[str], **more: str) -> None:
        """`more`: of the environment."""
        mark = token_hex(16)
        with (self.logs / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=self.environment | more | {MARK: mark},
            )
        self._marks[self.running[name].pid] = mark

    def end(self, names: Sequence[str], number: signal.Signals = signal.SIGTERM) -> None:
        """Tell them to end, with all that they have started, and see that they do."""
        ending = [self.running.pop(name) for name in reversed(names)]
        marks = [self._marks.pop(each.pid) for each in ending]
        for each in ending:
            _tell(each.pid, number)
        deadline = time.monotonic() + GRACE
        for each in ending:
            with suppress(subprocess.TimeoutExpired):
                each.wait(max(0.0, deadline - time.monotonic()))
            _tell(each.pid, KILL)
            each.wait()
        while strays := _marked(marks):
            for stray in strays:
                with suppress(ProcessLookupError):
                    os.kill(stray, KILL)
            time.sleep(POLL)

    def wait(self, name: str) -> None:
        """Until that one has ended well; raises where it, or any other, has not."""
        while (code := self.running[name].poll()) is None:
            for other, process in self.running.items():
                if process.poll() is not None and other != name:
                    self._fail(other, process.returncode)
            time.sleep(POLL)
        if code:
            self._fail(name, code)

    def until(self, name: str, done: Callable[[], bool], seconds: float, what: str) -> None:
        """Until that process has done what it is to do first."""
        end = time.monotonic() + seconds
        while not done():
            if (code := self.running[name].poll()) is not None:
                self._fail(name, code)
            if time.monotonic() > end:
                raise RuntimeError(f"{name} did not {what} within {seconds:g} seconds; {self._said(name)}")
            time.sleep(POLL)

    def _fail(self, name: str, code: int) -> None:
        raise RuntimeError(f"{name} ended with code {code}; {self._said(name)}")

    def _said(self, name: str) -> str:
        log = self.logs / f"{name}.log"
        last = log.read_text(encoding="utf-8", errors="replace").splitlines()[-LAST_LINES:]
        return "\n".join([f"the last lines of {log}:", *last])


def free_ports(count: int) -> list[int]:
    """Ports of the loopback interface that nobody listens on."""
    doors = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [door.getsockname()[1] for door in doors]
    for door in doors:
        door.close()
    return ports


def is_open(port: int) -> bool:
    """Whether somebody listens on the port."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def _tell(session: int, number: signal.Signals) -> None:
    with suppress(OSError):  # it has ended; each system has its own word for that
        TO_SESSION(session, number)


def _marked(marks: Sequence[str]) -> list[int]:
    """Processes that were started by those with one of these marks."""
    wanted = [f"{MARK}={mark}".encode() for mark in marks]
    strays = []
    for place in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):  # another user's, or it has just ended
            environment = place.read_bytes()
            strays += [int(place.parent.name)] if any(each in environment for each in wanted) else []
    return strays


def _terminated(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)
