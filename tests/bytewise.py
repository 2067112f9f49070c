"""An engine whose shards are hosts in this process that are asked by bytes, with an account of what crosses."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import errorfeedback as ef
from errorfeedback.wire.requests import DONE, ROUND, Request


@dataclass(eq=False)
class Bytewise(ef.Engine, ef.Transport):
    """As many hosts as told; `up` and `down`: bytes of the frames that crossed."""

    hosts: int = 2
    twice: bool = False
    """Every request is sent twice."""
    up: int = field(default=0, init=False)
    down: int = field(default=0, init=False)

    def open(self, problem, setup):
        cuts = [problem.n * k // self.hosts for k in range(self.hosts + 1)]
        self.places = [ef.host(problem, setup, lo, hi) for lo, hi in pairwise(cuts)]
        return ef.RemoteSession(self, problem, setup, cuts)

    def send(self, requests):
        for sent in requests:
            request = Request.unpack(sent)
            if request.verb == "round":
                self.down += len(request.body) - ROUND.size - ROUND.unpack_from(request.body)[-1]
        self.answers = [place.serve(sent) for place, sent in zip(self.places, requests, strict=True)]
        if Request.unpack(requests[0]).verb in ("round", "values"):
            self.up += sum(len(answer) - len(DONE) for answer in self.answers)
        if self.twice:
            again = [place.serve(sent) for place, sent in zip(self.places, requests, strict=True)]
            assert again == self.answers

    def receive(self):
        return self.answers
