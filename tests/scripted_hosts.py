"""Hosts that miss the rounds that they are told to miss, and one process in which the same clients are away."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import inf

import numpy as np
from own_places import CUTS, part

import errorfeedback as ef
from errorfeedback.clients.exactly_once import ExactlyOnce
from errorfeedback.clients.shard import shards_of
from errorfeedback.clients.shards import LocalSession
from errorfeedback.probes.losses import Losses
from errorfeedback.probes.slopes import Slopes
from errorfeedback.wire.frames import Frames
from errorfeedback.wire.message import Message, Presence
from errorfeedback.wire.requests import AWAY, ROUND, Request


@dataclass(eq=False)
class Scripted(ef.Transport):
    """Hosts that miss the rounds that they are told to miss: they never hear of them, or do them and answer too late."""

    missed: set
    late: bool
    gone: set = field(default_factory=set)
    """(round, host): it cannot be asked before this one."""
    spoiled: object = None
    parts: list | None = None
    """The rows of every host."""
    deadline = 1.0
    quorum = 0
    patience = 1e9

    def __post_init__(self):
        parts = [part(lo, hi) for lo, hi in pairwise(CUTS)] if self.parts is None else self.parts
        self.places = [ExactlyOnce(ef.OwnRows(rows)) for rows in parts]
        self.t = 0

    def send(self, requests):
        self.answers = [self.asked(k, sent) if sent else AWAY for k, sent in enumerate(requests)]

    def asked(self, k, sent):
        request = Request.unpack(sent)
        if request.verb != "round":
            return self.places[k].serve(sent)
        self.t = ROUND.unpack_from(request.body)[0]
        if (self.t, k) not in self.missed:
            return self.places[k].serve(sent)
        if self.late:
            answer = self.places[k].serve(sent)
            return AWAY if self.spoiled is None else self.spoiled(answer)
        return AWAY

    def receive(self):
        return self.answers

    def receive_in_time(self, least, others=(), deadlines=1):
        return self.answers

    def returned(self, away, least):
        return [k for k in away if (self.t + 1, k) not in self.missed]


def silent_clients(missed, cuts=CUTS):
    return {(t, i) for t, k in missed for i in range(cuts[k], cuts[k + 1])}


@dataclass(frozen=True)
class InOneProcess(ef.Engine):
    """No wire, no mirror of anybody's memory, nobody to be brought back: what a client counts as in a round that it misses
    comes from its own memory."""

    missed: set
    cuts: tuple = CUTS
    told: set = frozenset()
    """(round, host): who was away before, was asked to come back, and heard of the round, though it missed this one too."""

    def open(self, problem, setup):
        shards = [shards_of(problem, setup, lo, hi, 1)[0] for lo, hi in pairwise(self.cuts)]
        return Muted(shards, missed=self.missed, told=self.told)


@dataclass(frozen=True, eq=False)
class Muted(LocalSession):
    missed: set = frozenset()
    told: set = frozenset()

    def round(self, order):
        kinds, kept, t = [type(probe) for probe in order.probes], order.kept, order.ctx.t
        at = kinds.index(Losses) if Losses in kinds and kept is not None else None
        guesses = [self.guess(shard, order) if at is not None else None for shard in self.shards]
        there = [(t, k) not in self.missed for k in range(len(self.shards))]
        both = [is_there and not self.was_away(shard, kept) for is_there, shard in zip(there, self.shards, strict=True)]
        messages = [shard.round(order) if is_there else None for is_there, shard in zip(there, self.shards, strict=True)]
        rest = 0.0
        if at is not None and any(both):
            each = zip(messages, guesses, both, strict=True)
            rest = np.concatenate([m.telemetry[:, at] - guess for m, guess, told in each if told]).mean()
        for k in range(len(self.shards)):
            if there[k] and not both[k]:
                surprise = 0.0 if at is None else (messages[k].telemetry[:, at] - guesses[k] - rest).sum()
                messages[k].presence = Presence(back=True, surprise=surprise)
        told = [m.telemetry for m in messages if m is not None and order.probes]
        for k, shard in enumerate(self.shards):
            if not there[k]:
                numbers = np.tile(np.concatenate(told).mean(axis=0), (shard.problem.n, 1)) if told else None
                if at is not None:
                    numbers[:, at] = guesses[k] + rest
                informed = (t - 1, k) not in self.missed or (t, k) in self.told
                messages[k] = self.missing(shard, order, numbers, informed)
        if at is not None and order.broadcast is not None and not any(both):
            messages[0].presence = replace(messages[0].presence, surprise=-inf)
        return messages

    @staticmethod
    def guess(shard, order):
        support, kept = shard.problem.support, order.kept
        g = shard.kept if order.verdict.goes_back else shard.state
        known = kept.losses.values[support.first : support.first + support.n]
        return known + support.sums(g * support.gather(order.x - kept.place[0]))

    @staticmethod
    def was_away(shard, kept):
        return kept is not None and kept.losses is not None and not kept.losses.heard[shard.problem.support.first]

    @staticmethod
    def missing(shard, order, numbers, informed):
        shard.obey(order.verdict)
        support = shard.problem.support
        if Slopes in map(type, order.probes):
            shard.notes["Slopes"] = support.gather(order.x)
        nothing, away = np.zeros((2, support.n), dtype=np.int64), Presence(there=False, informed=informed)
        return Message(support, nothing[0, :0], np.zeros(0), Frames(*nothing), telemetry=numbers, presence=away)
