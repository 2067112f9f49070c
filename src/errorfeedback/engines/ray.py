"""Shards in the actors of a Ray cluster: solve(..., engine=ef.Ray(8), metrics=False).

An actor has a part of the clients and answers bytes with bytes; Ray carries them. An actor that dies is started again, on
another machine if need be, and only its constructor runs: its journal brings it back (`clients.exactly_once`), and where
that is gone the server says again what led there. Ray repeats the call that was under way, which is done once.
`pip install errorfeedback[ray]`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from shutil import rmtree
from typing import Any

from errorfeedback.clients.exactly_once import EVERY, ExactlyOnce
from errorfeedback.clients.order import Setup
from errorfeedback.clients.serving import Answering, host
from errorfeedback.engines.base import Engine, Transport
from errorfeedback.engines.elsewhere import refuse_metrics
from errorfeedback.engines.remote import RemoteSession
from errorfeedback.extras import import_extra
from errorfeedback.probes.base import Probes
from errorfeedback.problems.base import Problem
from errorfeedback.storage.journal import Journal
from errorfeedback.wire.request_log import RequestLog
from errorfeedback.wire.requests import BEHIND, Position, Request


@dataclass(frozen=True)
class Ray(Engine):
    """So many `actors`. `folder`: where their journals are, on a disk that all machines of the cluster see; by default a
    temporary one, which is enough on one machine. `timeout`: seconds that an actor has for an answer.

    It joins the cluster that the environment names (RAY_ADDRESS) or that the program has joined, or starts one here.

    >>> Ray(8)
    Ray(actors=8, folder=None, timeout=600.0)
    """

    actors: int = 2
    folder: str | Path | None = None
    timeout: float = 600.0

    def __post_init__(self) -> None:
        if self.actors < 1:
            raise ValueError(f"actors = {self.actors}; there must be at least 1")
        if not self.timeout > 0:
            raise ValueError(f"timeout = {self.timeout}; it must be above 0 seconds")

    @property
    def observes(self) -> bool:
        return False

    def check(self, setup: Setup, probes: Probes, metrics: bool) -> None:
        refuse_metrics(metrics)

    def open(self, problem: Problem, setup: Setup) -> RemoteSession:
        if self.actors > problem.n:
            raise ValueError(f"actors = {self.actors}, but there are only {problem.n} clients to share out")
        cuts = [problem.n * k // self.actors for k in range(self.actors + 1)]
        parts = [problem.shard(lo, hi) for lo, hi in pairwise(cuts)]
        makers = [partial(host, part, setup, 0, part.n) for part in parts]
        names = [f"actor {k} (clients {lo} to {hi - 1})" for k, (lo, hi) in enumerate(pairwise(cuts))]
        return RemoteSession(Actors(makers, names, self.folder, self.timeout), problem, setup, cuts)


class Actors(Transport):
    """Places that actors make in their constructors: hosts, or with rows of their own (`ef.OwnRows`) for `ef.gathered`.

    `makers`: functions without arguments that make them. `names`: what errors call them. `folder` and `timeout` as in `Ray`;
    `every`: requests between two snapshots of a journal.
    """

    def __init__(
        self,
        makers: Sequence[Callable[[], Answering]],
        names: Sequence[str],
        folder: str | Path | None = None,
        timeout: float = 600.0,
        every: int = EVERY,
    ) -> None:
        self.ray, self.names, self.timeout = import_extra("ray", "ef.Ray"), names, timeout
        self.joined = not self.ray.is_initialized()
        if self.joined:
            self.ray.init(include_dashboard=False, log_to_driver=False, configure_logging=False)
        self.temporary = folder is None
        self.folder = Path(tempfile.mkdtemp() if folder is None else folder)
        kind = self.ray.remote(max_restarts=-1, max_task_retries=-1)(Actor)
        self.makers = [self.ray.put(maker) for maker in makers]  # a restart needs them: they must not go out of scope
        self.actors = [kind.remote(maker, self.folder / f"actor-{k}.journal", every) for k, maker in enumerate(self.makers)]
        self.logs = [RequestLog() for _ in makers]
        self.requests: list[bytes] = []
        self.answers: list[Any] = []

    def send(self, requests: list[bytes]) -> None:
        for log, request in zip(self.logs, requests, strict=True):
            log.add(Request.unpack(request))
        self.requests = requests
        self.answers = [actor.serve.remote(request) for actor, request in zip(self.actors, requests, strict=True)]

    def receive(self) -> list[bytes]:
        return [self._answer(k, answer) for k, answer in enumerate(self.answers)]

    def _answer(self, k: int, promised: Any) -> bytes:
        answer, stable = self._get(k, promised)
        if answer[:1] == BEHIND:
            missing = self.logs[k].after(Position.unpack(answer[1:]) if answer[1:] else None)
            if missing is None:
                self.fail(k, "its journal is gone, and so is what led there; give ef.Ray a folder that survives")
            for request in missing:
                answer, stable = self._get(k, self.actors[k].serve.remote(request.pack()))
        self.logs[k].forget(stable)
        return answer

    def _get(self, k: int, promised: Any) -> tuple[bytes, int]:
        try:
            answer: tuple[bytes, int] = self.ray.get(promised, timeout=self.timeout)
        except self.ray.exceptions.RayError as error:
            self.fail(k, f"{type(error).__name__}: {error}")
        return answer

    def name(self, host: int) -> str:
        return self.names[host]

    def close(self) -> None:
        for actor in self.actors:
            self.ray.kill(actor)
        if self.temporary:
            rmtree(self.folder)
        if self.joined:
            self.ray.shutdown()


class Actor:
    """A place in a process of the cluster."""

    def __init__(self, maker: Callable[[], Answering], journal: Path, every: int) -> None:
        journal.parent.mkdir(parents=True, exist_ok=True)
        self.place = ExactlyOnce(maker(), Journal(journal), every)

    def serve(self, request: bytes) -> tuple[bytes, int]:
        """The answer, and before which number of the run nothing has to be said again."""
        return self.place.serve(request), self.place.stable
