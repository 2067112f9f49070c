"""Rounds that nodes miss: the run is that of Algorithm 1 in which their clients sent nothing, bit for bit."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from unittest.mock import patch

import numpy as np
import pytest
from discovery import METHODS
from own_places import CUTS, N, assert_same_bits, part, rows, whole
from reference.compressors import top_k
from reference.methods import ef21, ef21_bc
from reference.problems import Client, Reference
from scripted_hosts import Scripted, silent_clients
from stream_nodes import NODES, joined, needs_stream

import errorfeedback as ef
from errorfeedback.clients.exactly_once import ExactlyOnce
from errorfeedback.clients.order import Order
from errorfeedback.compressors import participating
from errorfeedback.engines.absences import Absences, check_absences
from errorfeedback.probes.losses import Losses
from errorfeedback.wire.frames import frame_bits
from errorfeedback.wire.requests import DONE, ROUND, Request

GAMMA, ROUNDS = 0.01, 40
METHOD = ef.EF21(ef.TopK(2))
OPTIONS = {"method": METHOD, "stepsize": ef.Constant(GAMMA), "rounds": ROUNDS, "every": 1, "metrics": False}
MISSED = {(3, 0), (4, 0), (4, 1), (5, 1), (9, 2), (10, 2), (11, 2), (12, 2), (20, 0), (22, 0), (ROUNDS, 1)}
"""(round, host)"""


def solved(transport, **changes):
    problem, _ = ef.gathered(transport, len(CUTS) - 1)
    return ef.solve(problem, **OPTIONS | changes, engine=ef.Elsewhere(transport))


def by_the_book(missed, monkeypatch, **changes):
    """One process, with the coins of `Participating` falling as told."""
    silent = silent_clients(missed)

    def toss(seed, t, number, p, answers):
        for i in range(len(p)):
            answers[i] = (t, participating.ANSWERS - number + i) not in silent

    monkeypatch.setattr(participating, "toss", toss)
    method = changes.pop("method", METHOD)
    partly = ef.EF21(ef.Participating(method.compressor, 0.5), method.start)
    return ef.solve(whole(False), **OPTIONS | {"method": partly} | changes)


@pytest.mark.parametrize("late", [False, True], ids=["unheard", "late"])
@pytest.mark.parametrize("start", ["zero", "compressed", "gradient", "authors"])
def test_a_run_with_absences_is_the_run_in_which_these_clients_sent_nothing(start, late, monkeypatch):
    method = ef.EF21(ef.TopK(2), start)
    found = solved(Scripted(MISSED, late), method=method)
    expected = by_the_book(MISSED, monkeypatch, method=method)
    assert np.array_equal(found.x, expected.x)
    assert np.array_equal(found.history["uplink_bits"], expected.history["uplink_bits"])
    assert not np.array_equal(found.x, solved(Scripted(set(), False), method=method).x)  # an absence matters
    informed = [k for t, k in MISSED if (t - 1, k) not in MISSED]  # they were told where x is; who is away is not
    sizes = whole(False).support.sizes
    told = frame_bits(sizes, np.zeros_like(sizes), 64 * sizes)
    more = sum(int(told[CUTS[k] : CUTS[k + 1]].sum()) for k in informed)
    assert found.history["downlink_bits"][-1] - expected.history["downlink_bits"][-1] == more


def literal():
    A, b, clients = rows()
    return Reference([Client(A[clients == i], b[clients == i]) for i in range(N)], "squared")


def muted(problem):
    """TopK of those who are there."""
    largest, silent = top_k(problem, 2), silent_clients(MISSED)
    return lambda u, i, t: np.zeros_like(u) if (t, i) in silent else largest(u, i, t)


def test_it_is_the_literal_run():
    *_, x = ef21(literal(), np.zeros(literal().d), GAMMA, ROUNDS, muted(literal()), "zero")
    np.testing.assert_allclose(solved(Scripted(MISSED, True)).x, x, rtol=1e-9, atol=1e-12)


DOWNLINKS = [ef.Changed(), ef.Compressed(ef.TopK(3)), ef.RoundedStep(ef.Uniform(8)), ef.FittedStep()]


@pytest.mark.parametrize("downlink", DOWNLINKS, ids=str)
def test_who_missed_what_changed_is_brought_to_where_the_server_is(downlink):
    unheard, late = (solved(Scripted(MISSED, late), downlink=downlink) for late in (False, True))
    assert_same_bits(unheard, late)
    if downlink.lossless:
        assert np.array_equal(late.x, solved(Scripted(MISSED, True)).x)


def test_the_memory_of_the_downlink_is_brought_to_who_missed_it():
    *_, x = ef21_bc(literal(), np.zeros(literal().d), GAMMA, ROUNDS, muted(literal()), 3)
    found = solved(Scripted(MISSED, True), downlink=ef.Compressed(ef.TopK(3))).x
    np.testing.assert_allclose(found, x, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("method", [m for m in METHODS if isinstance(m, ef.EF21)], ids=str)
def test_the_server_knows_what_every_client_remembers_bit_for_bit(method):
    """For every compressor and start that is registered."""
    problem = ef.least_squares(*rows())
    method = method.bind(problem.support)
    setup = ef.Setup(method, ef.Whole(), np.zeros(problem.d), commands=False)
    session = ef.Local().open(problem, setup)
    absences = Absences(setup, [problem.support], ["all"], problem.dtype, 1.0)
    rng = np.random.default_rng(0)
    for t in range(6):
        ctx = ef.Round(t, 3, step_bits=8 if t else 0)
        x = rng.standard_normal(problem.d)
        order = Order(ctx, x, None)
        (message,) = session.round(order)
        absences.counted(order, [message], [message.frames])
        state = session.memory()[0]
        assert absences.hosts[0].g.tobytes() == state.tobytes()


def test_a_checkpoint_needs_nobody_s_memory_and_goes_on_with_the_same_bits(tmp_path):
    class StopError(Exception):
        pass

    def stop(row):
        if row["round"] == 11:
            raise StopError

    transport = Scripted(MISSED, True)
    with pytest.raises(StopError):
        solved(transport, watch=stop, checkpoint=ef.Checkpoint(tmp_path, every=10))
    again = Scripted(MISSED, False)
    problem, _ = ef.gathered(again, 3)
    found = ef.resume(tmp_path, problem=problem, engine=ef.Elsewhere(again))
    assert np.array_equal(found.x, solved(Scripted(MISSED, True)).x)
    assert not any(b"memory\n" in each.pack() for place in transport.places for each in place.log.requests)


@pytest.mark.parametrize(
    "spoiled",
    [lambda a: a[:-1], lambda a: a + b"x", lambda a: DONE, lambda a: b"!broken", lambda a: a[:4] + a[:3:-1]],
    ids=range(5),
)
def test_an_answer_that_is_none_counts_as_an_absence(spoiled):
    assert_same_bits(solved(Scripted(MISSED, True)), solved(Scripted(MISSED, True, spoiled=spoiled)))


class Infinite(ef.OwnRows):
    """Its frames are as they should be, and what is in them is not."""

    def serve(self, sent):
        asked = sent.startswith(b"round") and (ROUND.unpack_from(Request.unpack(sent).body)[0], 1) in MISSED
        if not asked:
            return super().serve(sent)
        real = self.host.part.round

        def spoil(order):
            messages = real(order)
            messages[0].values[0] = np.inf
            return messages

        with patch.object(type(self.host.part), "round", lambda part, order: spoil(order)):
            return super().serve(sent)


def test_numbers_that_are_not_finite_count_as_an_absence():
    mine = {(t, k) for t, k in MISSED if k == 1}
    transport = Scripted(set(), False)
    transport.places[1] = ExactlyOnce(Infinite(part(CUTS[1], CUTS[2])))
    found, expected = solved(transport), solved(Scripted(mine, True))
    assert np.array_equal(found.x, expected.x)
    assert np.array_equal(found.history["uplink_bits"], expected.history["uplink_bits"])


def test_the_notes_of_the_history_say_who_was_away():
    notes = solved(Scripted(MISSED, True)).history.notes
    assert "host 2 (clients 6 to 8) took no part in rounds 9 to 12" in notes
    assert "host 1 (clients 2 to 5) took no part from round 40 on" in notes
    assert len(notes) == 6


def test_who_stays_away_leaves_and_may_come_back(monkeypatch):
    away = {(t, 1) for t in range(10, 30)}
    clock = iter(range(10**6))
    monkeypatch.setattr("errorfeedback.engines.absences.monotonic", lambda: next(clock))
    transport = Scripted(away, True)
    transport.patience = 5
    found = solved(transport)
    first, last = (note for note in found.history.notes if "host 1" in note)
    assert first.startswith("host 1 (clients 2 to 5) left in round 1")
    assert last == "host 1 (clients 2 to 5) came back in round 30, from g_i = 0"
    left = int(first.split("round ")[1].split(",")[0])
    problem = literal()
    C, x = top_k(problem, 2), np.zeros(problem.d)
    g = np.zeros((N, problem.d))
    for t in range(1, ROUNDS + 1):
        x = x - GAMMA * g.mean(axis=0)
        for i in range(N):
            if (t, 1) not in away or not 2 <= i < 6:
                g[i] += C(problem.gradient_i(i, x) - g[i], i, t)
            elif t == left:
                g[i] = 0.0
    np.testing.assert_allclose(found.x, x, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("method", [ef.DGD(), ef.MARINA(ef.RandK(2), 0.3), ef.EF21SGDM(ef.TopK(2), batch=2)], ids=str)
def test_methods_for_which_an_absence_has_no_meaning_are_refused(method):
    setup = ef.Setup(method, ef.Whole(), np.zeros(3), commands=False)
    with pytest.raises(ValueError, match=r"depends on more than was sent; use ef.EF21"):
        check_absences(setup, ())
    with pytest.raises(ValueError, match="cannot be told from their messages"):
        method.mirrored(None, None, ef.Round(0, 0))


@dataclass(frozen=True)
class Losing(ef.Constant):
    """Looks at losses, and keeps no point to compare them with."""

    def ask(self, state):
        return (Losses(),)


@pytest.mark.parametrize(("rule", "what"), [(ef.Adaptive(), "fullgradient"), (Losing(0.1), "losses")], ids=str)
def test_rules_that_cannot_do_without_anybody_are_refused(rule, what):
    with pytest.raises(ValueError, match=f"asks every client for {what} to decide by; use a step size that can do without"):
        solved(Scripted(set(), False), stepsize=rule)


class Slow(ef.OwnRows):
    """Sleeps in some rounds."""

    def serve(self, sent):
        if sent.startswith(b"round") and ROUND.unpack_from(Request.unpack(sent).body)[0] in (5, 6, 15):
            time.sleep(0.6)
        return super().serve(sent)


@needs_stream
def test_a_node_that_is_slow_misses_rounds_and_the_run_goes_on(monkeypatch, caplog, tmp_path):
    caplog.set_level(logging.WARNING)
    listener = ef.Listener(NODES, deadline=0.25)
    with joined(listener, tmp_path, places={"b": Slow(part(2, 6))}, scale=False) as transport:
        problem, _ = ef.gathered(transport, 3)
        slowly = {"watch": lambda row: time.sleep(0.02)}
        found = ef.solve(problem, **OPTIONS, **slowly, engine=ef.Elsewhere(transport))
    notes = [note for note in found.history.notes if note.startswith("b (clients 2 to 5) took no part in rounds")]
    missed = {(t, 1) for note in notes for t in range(*_rounds(note))}
    assert {5, 15} <= {t for t, _ in missed}
    assert np.array_equal(found.x, by_the_book(missed, monkeypatch).x)
    assert "b takes no part in round 5: it has not answered in time" in caplog.text


def _rounds(note):
    first, last = map(int, note.split("rounds ")[1].split(" to "))
    return first, last + 1


class Patient(ef.OwnRows):
    """Takes its time in one round."""

    def serve(self, sent):
        if sent.startswith(b"round") and ROUND.unpack_from(Request.unpack(sent).body)[0] == 4:
            time.sleep(0.6)
        return super().serve(sent)


@needs_stream
def test_below_the_quorum_the_run_waits_and_says_so(caplog):
    caplog.set_level(logging.WARNING)
    listener = ef.Listener(NODES, deadline=0.1, quorum=3)
    with joined(listener, places={"b": Patient(part(2, 6))}, scale=False) as transport:
        problem, _ = ef.gathered(transport, 3)
        found = ef.solve(problem, **OPTIONS | {"rounds": 8}, engine=ef.Elsewhere(transport))
    assert np.array_equal(found.x, ef.solve(whole(False), **OPTIONS | {"rounds": 8}).x)
    assert found.history.notes == ()
    assert "a round needs 3 nodes; waiting for b" in caplog.text


@needs_stream
def test_who_comes_back_in_the_middle_of_a_round_takes_the_place_of_who_does_not_answer(monkeypatch):
    """b is away from round 4 on, and back only when c has heard of round 5, to which it never answers."""
    left, over, rounds = threading.Event(), threading.Event(), 9

    class At(ef.OwnRows):
        """Waits in one round."""

        def __init__(self, rows, t, until, before=None):
            super().__init__(rows)
            self.t, self.until, self.before = t, until, before

        def serve(self, sent):
            if sent.startswith(b"round") and ROUND.unpack_from(Request.unpack(sent).body)[0] == self.t:
                if self.before is not None:
                    self.before.set()
                self.until.wait(20)
            return super().serve(sent)

    places = {"b": At(part(2, 6), 4, left), "c": At(part(6, 9), 5, over, left)}
    with joined(ef.Listener(NODES, deadline=0.2), places=places, scale=False) as transport:
        problem, _ = ef.gathered(transport, 3)
        found = ef.solve(problem, **OPTIONS | {"rounds": rounds}, engine=ef.Elsewhere(transport))
        over.set()
    assert found.history.notes == (
        "b (clients 2 to 5) took no part in rounds 4 to 4",
        "c (clients 6 to 8) took no part from round 5 on",
    )
    missed = {(4, 1), *((t, 2) for t in range(5, rounds + 1))}
    assert np.array_equal(found.x, by_the_book(missed, monkeypatch, rounds=rounds).x)


@needs_stream
def test_and_not_for_ever(monkeypatch):
    monkeypatch.setattr("errorfeedback.engines.stream.LEAST", 0.1)
    listener, goes = ef.Listener(NODES, deadline=0.1, quorum=3, patience=1.0), threading.Event()

    class Leaving(ef.OwnRows):
        def serve(self, sent):
            if sent.startswith(b"round") and ROUND.unpack_from(Request.unpack(sent).body)[0] == 4:
                goes.wait(20)
            return super().serve(sent)

    with joined(listener, places={"c": Leaving(part(6, 9))}, scale=False) as transport:
        problem, _ = ef.gathered(transport, 3)
        with pytest.raises(TimeoutError, match="c did not answer for 1 seconds"):
            ef.solve(problem, **OPTIONS | {"rounds": 8}, engine=ef.Elsewhere(transport))
        goes.set()
