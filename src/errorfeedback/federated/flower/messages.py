"""The path of plain Flower messages: one message to every node for each request, and its reply is the answer.

A message whose node died is never delivered again, so a request that stays without an answer is sent once more: nodes do it
once (`clients.exactly_once`), and answer with the same bytes. Whichever answer comes first counts: a node that was slow, and
not dead, does one message after the other.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from flwr.serverapp import Grid

from errorfeedback.engines.allow_list import AllowList
from errorfeedback.engines.base import Transport
from errorfeedback.federated.flower.records import QUERY, heard, message_to
from errorfeedback.wire.request_log import RequestLog
from errorfeedback.wire.requests import BEHIND, Position, Request

POLL = 0.1
AGAIN = 120.0
"""Seconds without an answer before a request is sent once more."""
TRIES = 10


class Messages(Transport):
    """Nodes by their numbers at the SuperLink; what they need to begin travels with every request.

    `allowed`: by the names of the nodes, which clients each may speak for.
    """

    def __init__(self, grid: Grid, nodes: Sequence[int], allowed: AllowList, assignment: bytes) -> None:
        self.grid, self.nodes, self.allowed, self.assignment = grid, nodes, allowed, assignment
        self.names = list(allowed.nodes)
        self.logs = [RequestLog() for _ in nodes]
        self.requests: list[bytes] = []

    def send(self, requests: list[bytes]) -> None:
        for log, request in zip(self.logs, requests, strict=True):
            log.add(Request.unpack(request))
        self.requests = requests

    def receive(self) -> list[bytes]:
        answers = self._asked(dict(enumerate(self.requests)))
        behind = {k: answer[1:] for k, answer in answers.items() if answer[:1] == BEHIND}
        answers |= {k: self._replayed(k, position) for k, position in behind.items()}
        return [answers[k] for k in range(len(self.requests))]

    def _replayed(self, host: int, position: bytes) -> bytes:
        """The answer of a node whose journal is gone: it hears again what led here."""
        missing = self.logs[host].after(Position.unpack(position) if position else None)
        if not missing:
            self.fail(host, "its state is gone, and what led there is no longer kept; start the run again")
        return [self._asked({host: request.pack()})[host] for request in missing][-1]

    def _asked(self, waiting: dict[int, bytes]) -> dict[int, bytes]:
        """The answers to these requests, by host."""
        answers: dict[int, bytes] = {}
        reasons: dict[int, str] = {}
        hosts: dict[str, int] = {}  # by the messages that they have not answered yet
        for _ in range(TRIES):
            self._ask(waiting, hosts, answers, reasons)
            if not waiting:
                break
        for late in waiting:
            self.fail(late, reasons.get(late, f"no answer to {TRIES} messages, {AGAIN:g} seconds each"))
        return answers

    def _ask(
        self, waiting: dict[int, bytes], hosts: dict[str, int], answers: dict[int, bytes], reasons: dict[int, str]
    ) -> None:
        """Send what is without an answer, and take the answers that come in time, to whichever message."""
        fields = {k: {"assignment": self.assignment, "request": request} for k, request in waiting.items()}
        sent = self.grid.push_messages([message_to(self.nodes[k], QUERY, each) for k, each in fields.items()])
        hosts |= dict(zip(sent, fields, strict=True))
        end = time.monotonic() + AGAIN
        while any(hosts.get(name) in waiting for name in sent) and time.monotonic() < end:
            for reply in self.grid.pull_messages(set(hosts)):
                k = hosts.pop(reply.metadata.reply_to_message_id)
                if reply.has_error():
                    reasons[k] = reply.error.reason or f"Flower's error {reply.error.code}"
                elif k in waiting:
                    answers[k] = heard(reply, "answer")
                    del waiting[k]
            time.sleep(POLL)

    def admit(self, clients: Sequence[Sequence[Any]]) -> None:
        self.allowed.admit(clients)

    def name(self, host: int) -> str:
        return self.names[host]
