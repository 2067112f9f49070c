"""A node's whole life in a run: it calls the server, answers until the server says goodbye, and calls again when the
connection breaks. The server never calls a node, so that a firewall in front of it need not open a port.

Nobody but the holder of the invited certificate is told the token, and nothing is said before. While the node works it says
once a second that it is there.
"""

from __future__ import annotations

import logging
import selectors
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from hmac import compare_digest
from pathlib import Path
from threading import Event, Lock, Thread
from time import monotonic, sleep

from errorfeedback.certificates.self_signed import fingerprint_of
from errorfeedback.clients.exactly_once import EVERY, ExactlyOnce
from errorfeedback.clients.invitation import Invitation, node_context
from errorfeedback.clients.serving import Answering
from errorfeedback.storage.files import content
from errorfeedback.storage.journal import Journal
from errorfeedback.storage.lock import locked
from errorfeedback.wire.link import ALIVE, ANSWER, ANSWERED, GOODBYE, HELLO, REFUSED, REQUEST, Link
from errorfeedback.wire.requests import Request

LOG = logging.getLogger("errorfeedback")
BEAT = 1.0
"""Seconds between two signs of life."""
WAITS = (0.05, 5.0)
"""Seconds before the node calls again: the first time, and at most."""
SHAKE = 10.0
"""Seconds for a handshake."""
LARGEST = 2**31 - 1


class NotInvitedError(ValueError):
    """The server does not want this node.

    >>> from concurrent.futures import ThreadPoolExecutor
    >>> from dataclasses import replace
    >>> import numpy as np
    >>> import errorfeedback as ef
    >>> place = ef.OwnRows(ef.least_squares(np.eye(2), [1.0, 2.0], clients=2))
    >>> with ef.Listener({"a": range(2)}) as listener, ThreadPoolExecutor() as pool:
    ...     guess = pool.submit(ef.join, replace(listener.invitation("a"), token="a guess"), place)
    ...     while not guess.done():
    ...         listener.turn(0.1)
    >>> type(guess.exception()) is ef.NotInvitedError
    True
    """


def join(
    invitation: Invitation, place: Answering, folder: Path | None = None, *, patience: float = 600.0, every: int = EVERY
) -> None:
    """Answer the server of the `invitation` until the run ends; `place` is who answers (`ef.OwnRows`).

    `folder` is where the journal is kept that brings the node back when it is killed and started again (with a snapshot
    every `every` requests); without one the server has to send again what it still has. `patience`: seconds without
    a server before the node gives up.

    >>> from threading import Thread
    >>> import numpy as np
    >>> import errorfeedback as ef
    >>> place = ef.OwnRows(ef.least_squares(np.eye(2), [1.0, 2.0], clients=2))
    >>> with ef.Listener({"a": range(2)}) as listener:
    ...     node = Thread(target=ef.join, args=(listener.invitation("a"), place))  # on the machine that has the rows
    ...     node.start()
    ...     transport = listener.transport()
    ...     problem, _ = ef.gathered(transport, 1)
    ...     engine = ef.Elsewhere(transport)
    ...     result = ef.solve(problem, ef.DGD(), ef.Armijo(), rounds=5, engine=engine, metrics=False)
    >>> node.join()  # the listener has said goodbye
    >>> result.x.round(6).tolist()
    [1.0, 2.0]
    """
    if folder is None:
        _Node(invitation, ExactlyOnce(place, None, every), patience).live()
        return
    folder.mkdir(parents=True, exist_ok=True)
    name = f"run-{invitation.run:016x}-{invitation.node}"
    with locked(folder / f"{name}.lock"):
        journal = Journal(folder / f"{name}.journal")
        _Node(invitation, ExactlyOnce(place, journal, every), patience).live()
        journal.path.unlink()


class _Node:
    """Calls, answers, calls again."""

    def __init__(self, invitation: Invitation, asked: ExactlyOnce, patience: float) -> None:
        self.invitation, self.asked, self.patience = invitation, asked, patience
        self.context, self.lock = node_context(), Lock()
        self.last = monotonic()
        """When the server was last there."""
        self.works = False

    def live(self) -> None:
        wait, longest = WAITS
        while True:
            try:
                with closing(self._called()) as link, self._beating(link):
                    wait = WAITS[0]
                    self._answer_all(link)
                return
            except OSError as error:
                if monotonic() - self.last > self.patience:
                    raise TimeoutError(f"nobody has been at {self.where} for {self.patience:g} seconds: {error}") from error
                LOG.info("%s: no server at %s (%s); calling again", self.invitation.node, self.where, error)
            sleep(wait)
            wait = min(2 * wait, longest)

    @property
    def where(self) -> str:
        return f"{self.invitation.host}:{self.invitation.port}"

    def _called(self) -> Link:
        """A connection to the holder of the certificate, who has been told who calls."""
        host, port, wanted = self.invitation.host, self.invitation.port, self.invitation.certificate
        link = Link(socket.create_connection((host, port), SHAKE), self.context, serving=False, largest=LARGEST)
        try:
            link.start()
            until = monotonic() + SHAKE
            while not link.shaken:
                self._wait(link, until - monotonic())
                link.frames()
            if not compare_digest(fingerprint_of(link.certificate), wanted):
                raise ConnectionRefusedError("whoever is there has another certificate than the invitation says")
            link.put(HELLO, content((self.invitation.node, self.invitation.token)))
        except BaseException:
            link.close()
            raise
        return link

    @staticmethod
    def _wait(link: Link, seconds: float | None) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(link.raw, selectors.EVENT_READ | selectors.EVENT_WRITE * link.has_more)
            if not selector.select(seconds):
                raise TimeoutError("the other side says nothing")

    def _answer_all(self, link: Link) -> None:
        """Until the server says goodbye."""
        while True:
            self._wait(link, None)
            with self.lock:
                frames = link.frames()
            self.last = monotonic()
            for frame in frames:
                kind, body = frame[:1], frame[1:]
                if kind == GOODBYE:
                    return
                if kind == REFUSED:
                    raise NotInvitedError(f"{self.where} refuses {self.invitation.node}: {body.decode(errors='replace')}")
                if kind == REQUEST:
                    self._answer(link, body)

    def _answer(self, link: Link, sent: bytes) -> None:
        self.works = True
        answer = self.asked.serve(sent)
        self.works = False
        with self.lock:
            link.put(ANSWER, ANSWERED.pack(*Request.unpack(sent).position, self.asked.stable) + answer)

    @contextmanager
    def _beating(self, link: Link) -> Iterator[None]:
        """A sign of life every second in which the node works."""
        over = Event()

        def beat() -> None:
            while not over.wait(BEAT):
                if self.works:
                    with self.lock, suppress(OSError):  # whoever answers will notice
                        link.put(ALIVE)

        thread = Thread(target=beat, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
