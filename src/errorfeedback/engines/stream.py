"""Nodes that call this process and stay on the line: one TLS connection each, on which requests go down and answers come up.

    with ef.Listener({"a": range(0, 4), "b": range(4, 9)}) as listener:
        ...                                     # node a gets listener.invitation("a") and calls ef.join(invitation, place)
        transport = listener.transport()        # all are there
        problem, scale = ef.gathered(transport, 2)
        result = ef.solve(problem, ..., engine=ef.Elsewhere(transport), metrics=False)

A node is known by its token, and speaks for its own clients alone. Nobody is listened to for long who does not say who he
is. A connection that breaks is waited for; what was asked is asked again, and done once (`clients.exactly_once`).
"""

from __future__ import annotations

import logging
import os
import selectors
import socket
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from hmac import compare_digest
from pathlib import Path
from secrets import token_hex
from time import monotonic
from typing import Any, Self

from errorfeedback.certificates.self_signed import SelfSigned, self_signed
from errorfeedback.clients.invitation import Invitation
from errorfeedback.engines.allow_list import AllowList
from errorfeedback.engines.base import Transport
from errorfeedback.engines.member import Member
from errorfeedback.storage.files import read, value_of, write
from errorfeedback.wire.link import GOODBYE, HELLO, REFUSED, Link
from errorfeedback.wire.requests import AWAY

LOG = logging.getLogger("errorfeedback")
FIRST_WORDS = 4096
"""Bytes of the longest frame before a caller has said who it is."""
INTRODUCTION = 10.0
"""Seconds until then."""
STRANGERS = 32
"""Callers that have not said who they are; the oldest has to go for another."""
FAREWELL = 5.0
"""Seconds for the last words."""
SAY_AGAIN = 60.0
"""Seconds between two lines that say who is waited for."""
POLL = 0.1
"""Seconds between two looks at who is still there."""
LEAST = 5.0
"""Seconds that a node may be silent, at the least: it says once a second that it is at work."""


class Listener:
    """Where nodes join a run.

    `nodes`: which clients every node may speak for, in the order of the clients (`engines.allow_list`): ranges (how many)
    or lists of what their nodes call them. `folder`: where the listener's key, port and tokens are kept, so that one
    that is started again after a kill is the same to its nodes; they wait for it. `patience`: seconds that a node may be
    silent or gone. `host` and `port`: where nodes call (0: a free port). `largest`: bytes of the longest answer. `deadline`:
    seconds that a node has for a round, if it may miss one (`engines.absences`), while at least `quorum` nodes answer
    (more than half of them by default). `wait`: seconds after which a run may begin without some, where the quorum is
    there; who comes later is among the `latecomers`.

    >>> import errorfeedback as ef
    >>> with ef.Listener({"a": range(0, 4), "b": range(4, 9)}) as listener:
    ...     invitation = listener.invitation("b")  # goes to b, where `ef.join` takes it (with an example of a whole run)
    >>> invitation.node, invitation.host, invitation.port > 0
    ('b', '127.0.0.1', True)
    """

    def __init__(
        self,
        nodes: Mapping[str, Sequence[Any]],
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        folder: str | Path | None = None,
        patience: float = 600.0,
        deadline: float | None = None,
        quorum: int | None = None,
        wait: float | None = None,
        largest: int = 2**28,
    ) -> None:
        self.allowed = AllowList(nodes)
        self.quorum = len(nodes) // 2 + 1 if quorum is None else quorum
        if not patience >= LEAST:
            raise ValueError(f"patience = {patience}; it must be at least {LEAST:g} seconds")
        if deadline is not None and not 0 < deadline <= patience:
            raise ValueError(
                f"deadline = {deadline}; a round has more than 0 seconds, and not more than patience = {patience}"
            )
        if not 1 <= self.quorum <= len(nodes):
            raise ValueError(f"quorum = {quorum}; it must be 1 to {len(nodes)}, the number of nodes")
        if wait is not None and not 0 <= wait <= patience:
            raise ValueError(f"wait = {wait}; it must be 0 to patience = {patience} seconds")
        self.host, self.patience, self.deadline, self.largest, self.wait = host, patience, deadline, largest, wait
        self.folder = None if folder is None else Path(folder)
        self._known = self._remembered(list(nodes))
        self._context = SelfSigned(self._known["pem"]).context()
        self.members = [Member(name, self._known["tokens"][name]) for name in nodes]
        self.seated: list[Member] = []
        """Who is in the run."""
        self._links: dict[Link, Member | float] = {}  # whose, or since when it is a stranger's
        self._selector = selectors.DefaultSelector()
        self._door = socket.create_server((host, port or self._known["port"]), backlog=128)
        self._door.setblocking(False)
        self._selector.register(self._door, selectors.EVENT_READ)
        self._remember()

    def _remembered(self, names: list[str]) -> dict[str, Any]:
        """What nodes know this listener by."""
        if self.folder is None or not (self.folder / "listener.ef").exists():
            tokens = {name: token_hex(32) for name in names}
            return {"pem": self_signed().pem, "tokens": tokens, "run": int.from_bytes(os.urandom(7)), "port": 0}
        known: dict[str, Any] = read(self.folder / "listener.ef")
        if list(known["tokens"]) != names:
            raise ValueError(f"{self.folder} is of a listener for {', '.join(known['tokens'])}, not for {', '.join(names)}")
        return known

    def _remember(self) -> None:
        self._known["port"] = self._door.getsockname()[1]
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
            self.folder.chmod(0o700)  # whoever reads it is the server
            write(self.folder / "listener.ef", self._known)

    def invitation(self, node: str) -> Invitation:
        """What a node needs to join; nobody else may see it."""
        token, fingerprint = self._known["tokens"][node], SelfSigned(self._known["pem"]).fingerprint
        return Invitation(self.host, self._known["port"], fingerprint, token, self._known["run"], node)

    def transport(self) -> Streams:
        """The way to all nodes, once all are there; to those who are, where that is enough and others have been waited for.
        A second one has who is there by then."""
        end = monotonic() + self.patience
        enough = None if self.wait is None else monotonic() + (0 if self.seated else self.wait)
        while missing := [member.name for member in self.members if member.link is None]:
            if enough is not None and monotonic() >= enough and len(self.members) - len(missing) >= self.quorum:
                LOG.warning("the run begins without %s", ", ".join(missing))
                break
            if monotonic() > end:
                raise TimeoutError(f"{', '.join(missing)} did not join within {self.patience:g} seconds")
            self.turn(end - monotonic())
        self.seated = [member for member in self.members if member.link is not None]
        return Streams(self)

    def latecomers(self) -> list[str]:
        """Who is there and not in the run."""
        return [member.name for member in self.members if member.link is not None and member not in self.seated]

    def traffic(self) -> dict[str, tuple[int, int]]:
        """Bytes sent to every node and received from it, at the socket, with all that TLS adds."""
        return {member.name: member.traffic for member in self.members}

    def turn(self, seconds: float) -> None:
        """Wait that long for something to happen, and see to it."""
        for link in self._links:
            events = selectors.EVENT_READ | selectors.EVENT_WRITE * link.has_more
            if self._selector.get_key(link.raw).events != events:
                self._selector.modify(link.raw, events, link)
        for key, _ in self._selector.select(min(max(seconds, 0), 1)):
            if key.data is None:
                self._open_door()
            elif key.data in self._links:  # nobody has dropped it in this turn
                self._listen(key.data)
        for link, since in list(self._links.items()):
            if isinstance(since, float) and monotonic() - since > INTRODUCTION:
                self._drop(link)

    def _open_door(self) -> None:
        try:
            raw, _ = self._door.accept()
        except OSError:  # it has gone away again
            return
        strangers = [link for link, whose in self._links.items() if isinstance(whose, float)]
        if len(strangers) >= STRANGERS:
            self._drop(strangers[0])
        link = Link(raw, self._context, serving=True, largest=FIRST_WORDS)
        self._links[link] = monotonic()
        self._selector.register(raw, selectors.EVENT_READ, link)

    def _listen(self, link: Link) -> None:
        try:
            for frame in link.frames():
                whose = self._links[link]
                if isinstance(whose, Member):
                    whose.hear(frame)
                else:
                    self._introduce(link, frame)
        except OSError as error:
            LOG.info("a connection ended: %s", error)
            self._drop(link)

    def _introduce(self, link: Link, frame: bytes) -> None:
        """Somebody says who it is."""
        member = self._recognised(frame)
        if member is None:
            link.put(REFUSED, b"it has no valid token for this run")
            raise ConnectionRefusedError("a caller without a token")
        if member.link is not None:
            self._drop(member.link)
        link.largest, self._links[link] = self.largest, member
        member.connect(link)

    def _recognised(self, frame: bytes) -> Member | None:
        try:
            name, token = value_of(frame[1:], "the introduction")
            known = {member.name: member for member in self.members}[name]
        except (ValueError, LookupError, TypeError):
            return None
        return known if frame[:1] == HELLO and isinstance(token, str) and compare_digest(token, known.token) else None

    def _drop(self, link: Link) -> None:
        self._selector.unregister(link.raw)
        whose = self._links.pop(link)
        link.close()
        if isinstance(whose, Member):
            whose.drop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        """The nodes leave; they wait where the run ends early and can go on from this listener's folder."""
        try:
            if kind is None or self.folder is None:
                self._say_goodbye()
        finally:
            for link in list(self._links):
                self._drop(link)
            self._selector.close()
            self._door.close()

    def _say_goodbye(self) -> None:
        end = monotonic() + FAREWELL
        for member in self.members:
            if member.link is not None:
                with suppress(OSError):  # it has gone before
                    member.link.put(GOODBYE)
        while monotonic() < end and any(member.link is not None for member in self.members):
            self.turn(end - monotonic())  # nodes close the connection when they have heard it


class Streams(Transport):
    """The way to the nodes of a listener."""

    def __init__(self, listener: Listener) -> None:
        self.listener, self.members = listener, listener.seated
        self._said = -SAY_AGAIN

    @property
    def deadline(self) -> float | None:
        return self.listener.deadline

    @property
    def quorum(self) -> int:
        return self.listener.quorum

    @property
    def patience(self) -> float:
        return self.listener.patience

    def send(self, requests: list[bytes]) -> None:
        for member, request in zip(self.members, requests, strict=True):
            member.ask(request)

    def receive(self) -> list[bytes]:
        while waiting := self._waiting():
            self._check(waiting)
            self.listener.turn(1.0)
        return [member.answer for member in self.members]

    def receive_in_time(self, least: int, others: Collection[int] = (), deadlines: int = 1) -> list[bytes]:
        if self.deadline is None:
            return self.receive()
        end = monotonic() + deadlines * self.deadline
        while self._waiting() and monotonic() < end:
            self.listener.turn(end - monotonic())
        while self._answered() + sum(self.members[k].is_free for k in others) < least:
            names = self._names([*self._waiting(), *(self.members[k] for k in others)])
            if monotonic() > end + self.patience:
                raise TimeoutError(f"{names} did not answer for {self.patience:g} seconds, and a round needs {self.quorum}")
            self._say(names)
            self.listener.turn(1.0)
        for member in self.members:
            member.give_up()
        return [member.answer for member in self.members]

    def receive_if_there(self) -> list[bytes]:
        if self.deadline is None:
            return self.receive()
        end = monotonic() + self.deadline
        while any(monotonic() < end or self._is_at_work(member) for member in self._waiting()):
            self.listener.turn(max(end - monotonic(), POLL))
        for member in self.members:
            member.give_up()
        return [member.answer for member in self.members]

    def _is_at_work(self, member: Member) -> bool:
        return member.link is not None and monotonic() - member.heard <= self.patience

    def returned(self, away: Collection[int], least: int) -> list[int]:
        end = monotonic() + self.patience
        self.listener.turn(0)
        while len(back := [k for k in away if self.members[k].is_free]) < least:
            names = self._names([self.members[k] for k in away if k not in back])
            if monotonic() > end:
                raise TimeoutError(
                    f"{names} did not come back for {self.patience:g} seconds, and a round needs {self.quorum}"
                )
            self._say(names)
            self.listener.turn(1.0)
        return back

    def _say(self, names: str) -> None:
        """Who is waited for, now and then."""
        if monotonic() > self._said + SAY_AGAIN:
            LOG.warning("a round needs %d nodes; waiting for %s", self.quorum, names)
            self._said = monotonic()

    def _answered(self) -> int:
        return sum(member.answer[:1] not in (b"", AWAY) for member in self.members)

    @staticmethod
    def _names(members: list[Member]) -> str:
        return ", ".join(member.name for member in members)

    def _waiting(self) -> list[Member]:
        return [member for member in self.members if member.asked is not None]

    def _check(self, waiting: list[Member]) -> None:
        """Nobody is waited for without end."""
        for member in waiting:
            if monotonic() - member.heard > self.listener.patience:
                where = "is silent" if member.link is not None else "is gone"
                raise TimeoutError(f"{member.name} {where} for more than {self.listener.patience:g} seconds")

    def admit(self, clients: Sequence[Sequence[Any]]) -> None:
        self.listener.allowed.among([member.name for member in self.members]).admit(clients)

    def name(self, host: int) -> str:
        return self.members[host].name
