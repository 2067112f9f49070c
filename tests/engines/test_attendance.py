"""Who takes part in a round: hosts that are late, back, late again and refuse to come back, while a quorum has to answer."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np
import pytest
from own_places import CUTS, assert_same_bits, part, whole
from scripted_hosts import InOneProcess, Scripted
from stream_nodes import NODES, joined, needs_stream

import errorfeedback as ef
from errorfeedback.wire.requests import AWAY, DONE, FAILED, ROUND, Request

ROUNDS = 30
TRAIN = {
    "method": ef.EF21(ef.FittedAnswer(block=4), "compressed"),
    "stepsize": ef.Armijo(),
    "downlink": ef.FittedStep(),
    "direction": ef.Curvature(ef.PowersOfTwo(4), price=0.0),
    "rounds": ROUNDS,
    "metrics": False,
}
"""What `train` makes; Hessians are asked for again and again."""


@dataclass(eq=False)
class Fickle(Scripted):
    """At every question a host is late by chance, with the work done or not; back by chance; and refuses by chance."""

    rng: np.random.Generator | None = None
    refuses: float = 0.0
    there: set = field(default_factory=set)
    """(round, host): its answer came in time."""
    busy: set = field(default_factory=set)
    heard: list = field(default_factory=list)
    """(round, host): it was asked."""

    def send(self, requests):
        self.verbs = [Request.unpack(sent).verb if sent else "" for sent in requests]
        self.late = {k for k, verb in enumerate(self.verbs) if verb in ("round", "recall") and self.rng.random() < 0.4}
        self.answers = [self.asked(k, sent) if sent else AWAY for k, sent in enumerate(requests)]

    def asked(self, k, sent):
        request, self.busy = Request.unpack(sent), self.busy - {k}
        if request.verb == "round":
            self.t = ROUND.unpack_from(request.body)[0]
            self.heard.append((self.t, k))
        if request.verb == "recall" and self.rng.random() < self.refuses:
            return FAILED + b"no"
        does = k not in self.late or not self.t or self.rng.random() < 0.5  # who is late may not have heard it at all
        return self.places[k].serve(sent) if does else AWAY

    def receive_in_time(self, least, others=(), deadlines=1):
        """A host that is late can be waited for; or others are free first."""
        late = {k for k in self.late if self.answers[k] != AWAY}
        free = sum(k not in self.busy for k in others)
        in_time = [k for k, answer in enumerate(self.answers) if answer != AWAY and k not in late]
        while len(in_time) + free < least and late:
            in_time.append(late.pop())
        if len(in_time) + free < least:
            self.busy -= set(others)
        self.busy |= {k for k in self.late if k not in in_time and self.rng.random() < 0.5}
        answers = [answer if k in in_time else AWAY for k, answer in enumerate(self.answers)]
        if "round" in self.verbs:
            self.there |= {(self.t, k) for k in in_time if answers[k][:1] == DONE}
        return answers

    def returned(self, away, least):
        free = [k for k in away if k not in self.busy]
        return [*free, *(k for k in away if k in self.busy)][: max(len(free), least)]


@pytest.mark.parametrize("quorum", [1, 2, 3])
def test_however_hosts_come_and_go_it_is_the_run_of_one_process_with_the_same_absences(quorum):
    again = refused = ended = 0
    for seed in range(4):
        refuses = 0.1 if quorum < 3 else 0.0
        transport = Fickle(set(), True, rng=np.random.default_rng([seed, quorum]), refuses=refuses)
        transport.quorum = quorum
        problem, _ = ef.gathered(transport, 3)
        try:
            found = ef.solve(problem, **TRAIN, engine=ef.Elsewhere(transport))
        except RuntimeError as error:
            refused += str(error) in {f"host {k} failed: no" for k in range(3)}  # and without it there is no quorum
            continue
        ended += 1
        every = {(t, k) for t in range(1, ROUNDS + 1) for k in range(3)}
        there = [sum((t, k) in transport.there for k in range(3)) for t in range(1, ROUNDS + 1)]
        assert min(there) >= quorum
        engine = InOneProcess(every - transport.there, CUTS, set(transport.heard))
        assert_same_bits(found, ef.solve(whole(False), **TRAIN, engine=engine))
        again += len(transport.heard) - len(set(transport.heard))
    assert (refused + ended, ended > 0) == (4, True)
    assert again > 3  # somebody was asked twice in a round


class Slow(ef.OwnRows):
    """Never in time."""

    def __init__(self, rows, seconds):
        super().__init__(rows)
        self.seconds = seconds

    def serve(self, sent):
        if sent.startswith(b"round") and ROUND.unpack_from(Request.unpack(sent).body)[0]:
            time.sleep(self.seconds)
        return super().serve(sent)


@needs_stream
def test_two_hosts_that_are_slower_than_the_deadline_do_not_take_each_others_place_for_ever():
    places = {"b": Slow(part(2, 6), 0.25), "c": Slow(part(6, 9), 0.35)}
    listener = ef.Listener(NODES, deadline=0.1, quorum=2, patience=20)
    options = {"method": ef.EF21(ef.TopK(2)), "stepsize": ef.Constant(0.01), "rounds": 4, "metrics": False}
    with joined(listener, places=places, scale=False) as transport:
        problem, _ = ef.gathered(transport, 3)
        found = ef.solve(problem, **options, engine=ef.Elsewhere(transport))
    assert found.history["round"][-1] == 4
    assert any("b (" in note or "c (" in note for note in found.history.notes)


def test_and_nobody_is_asked_for_ever():
    class Never(Scripted):
        """Free again at once, and late again."""

        quorum = 2
        patience = 40.0

        def receive_in_time(self, least, others=(), deadlines=1):
            waited.append(deadlines)
            return [answer if k == 0 or not self.t else AWAY for k, answer in enumerate(self.answers)]

        def returned(self, away, least):
            return list(away)

    waited, transport = [], Never(set(), True)
    problem, _ = ef.gathered(transport, 3)
    with pytest.raises(TimeoutError, match="host 1, host 2 did not answer, however often, for 40 seconds"):
        ef.solve(problem, ef.EF21(ef.TopK(2)), ef.Constant(0.1), engine=ef.Elsewhere(transport), rounds=3, metrics=False)
    assert max(waited) == 32


class Refusing(Scripted):
    """Late in a round, one of them twice; then free at once; some cannot be brought back."""

    quorum = 2
    refusing = (1,)

    def __post_init__(self):
        super().__post_init__()
        self.twice, self.recalls = {(3, 2)}, []

    def asked(self, k, sent):
        if sent.startswith(b"recall"):
            self.recalls.append((self.t, k))
            if k in self.refusing:
                return FAILED + b"no"
        answer = super().asked(k, sent)
        if sent.startswith(b"round"):
            (self.twice if (self.t, k) in self.twice else self.missed).discard((self.t, k))
        return answer

    def returned(self, away, least):
        return list(away)


@pytest.mark.parametrize("late", [False, True], ids=["unheard", "late"])
def test_who_cannot_be_brought_back_does_not_end_the_run_while_others_make_up_for_it(late):
    options = TRAIN | {"rounds": 8}
    transport = Refusing({(3, 1), (3, 2)}, late)
    problem, _ = ef.gathered(transport, 3)
    found = ef.solve(problem, **options, engine=ef.Elsewhere(transport))
    assert [k for t, k in transport.recalls if t == 3][:3] == [1, 2, 2]  # who refuses is not asked again in the round
    away = {(t, 1) for t in range(3, 9)}
    assert_same_bits(found, ef.solve(whole(False), **options, engine=InOneProcess(away)))
    transport = Refusing({(3, 1), (3, 2)}, late)
    transport.refusing = (1, 2)
    problem, _ = ef.gathered(transport, 3)
    with pytest.raises(RuntimeError, match="host 2 failed: no"):
        ef.solve(problem, **options, engine=ef.Elsewhere(transport))
