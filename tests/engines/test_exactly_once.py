"""Places behind journals: killed, asked twice, asked out of order, they come to the same bits as if nothing had been."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from itertools import pairwise
from unittest.mock import patch

import numpy as np
import pytest
from own_places import CUTS, N, assert_same_bits, part, whole

import errorfeedback as ef
from errorfeedback.clients.exactly_once import ExactlyOnce
from errorfeedback.clients.own_rows import identity_of
from errorfeedback.storage.files import DamagedError, content, value_of
from errorfeedback.storage.journal import HEAD, Journal
from errorfeedback.wire.request_log import SET_UP, RequestLog
from errorfeedback.wire.requests import BEHIND, DONE, FAILED, FLAG, Position, Request, digest_of, new_run, run_digest

OPTIONS = {"rounds": 25, "every": 7, "metrics": False}


def place(lo, hi, path=None, every=9, scale=True):
    return ExactlyOnce(ef.OwnRows(part(lo, hi), scale), None if path is None else Journal(path), every)


@dataclass(eq=False)
class Unsteady(ef.Engine, ef.Transport):
    """Places that are killed before a request, or after it and before the answer has arrived; all that is left of them is
    their journals. Every request may come twice."""

    folder: object
    rng: np.random.Generator
    kills: int = field(default=0, init=False)

    def __post_init__(self):
        self.paths = [self.folder / f"{k}.journal" for k in range(len(CUTS) - 1)]
        self.places = [self.begin(k) for k in range(len(self.paths))]

    def begin(self, k):
        return place(*list(pairwise(CUTS))[k], self.paths[k])

    def open(self, problem, setup):
        return ef.RemoteSession(self, problem, setup, problem.cuts, start=True)

    def send(self, requests):
        self.answers = [self.asked(k, sent) for k, sent in enumerate(requests)]

    def asked(self, k, sent):
        if self.rng.random() < 0.2:
            self.places[k].serve(sent)  # and the answer is lost
        if self.rng.random() < 0.15:
            self.kills += 1
            self.places[k] = self.begin(k)
        return self.places[k].serve(sent)

    def receive(self):
        return self.answers


RUNS = [
    {"method": ef.EF21(ef.TopK(2)), "stepsize": ef.Automatic(guess=1e3)},
    {"method": ef.EF21SGDM(ef.TopK(2), batch=2), "stepsize": ef.Constant(0.01), "downlink": ef.Compressed(ef.TopK(3))},
    {
        "method": ef.EF21(ef.FittedAnswer(), start="compressed"),
        "stepsize": ef.Armijo(),
        "direction": ef.LBFGS(),
        "downlink": ef.FittedStep(),
    },
    {"method": ef.EF21(ef.PowersOfTwo(4)), "stepsize": ef.Armijo(), "direction": ef.Curvature()},
    {"method": ef.EF21(ef.PowersOfTwo(4)), "stepsize": ef.Armijo(), "direction": ef.Curvature(price=0.0, clients=2)},
]


@pytest.mark.parametrize("run", RUNS, ids=lambda run: str(run["method"]))
def test_places_that_are_killed_come_back_with_the_same_bits(run, tmp_path):
    engine = Unsteady(tmp_path, np.random.default_rng(3))
    problem, _ = ef.gathered(engine, len(engine.places))
    for options in (OPTIONS, OPTIONS | {"seed": 1}):  # the same places serve the next run
        assert_same_bits(ef.solve(whole(True), **run, **options), ef.solve(problem, **run, engine=engine, **options))
    assert engine.kills > 15


def recorded(path):
    """All that one place is asked in a run, and what it answers."""
    place_, heard = place(0, 9, path), []

    class Recorder(Unsteady):
        def __post_init__(self):
            self.places = [place_]

        def asked(self, k, sent):
            heard.append((sent, place_.serve(sent)))
            return heard[-1][1]

    engine = Recorder(path, np.random.default_rng(0))
    problem, _ = ef.gathered(engine, 1)
    ef.solve(problem, ef.EF21(ef.TopK(2)), ef.Constant(0.01), rounds=30, engine=engine, metrics=False)
    return heard


@pytest.fixture(scope="module")
def heard(tmp_path_factory):
    return recorded(tmp_path_factory.mktemp("place") / "journal")


def test_the_same_number_gets_the_same_bytes_a_gap_is_behind_and_what_is_over_is_refused(heard, tmp_path):
    node = place(0, 9, tmp_path / "journal")
    assert node.serve(heard[3][0]) == BEHIND
    (start,) = [sent for sent, _ in heard if sent.startswith(b"start")]
    assert node.serve(start) == BEHIND  # its number is 0, and what it needs has not been here
    for k, (sent, answer) in enumerate(heard):
        assert node.serve(sent) == answer
        assert node.serve(sent) == answer
        here, later = Request.unpack(sent), heard[min(k + 2, len(heard) - 1)][0]
        if Request.unpack(later).run == here.run and k + 2 < len(heard):
            assert node.serve(later) == BEHIND + here.position.pack()
    old = node.serve(heard[-3][0])
    assert old[:1] == FAILED
    assert b"its answer is gone" in old
    over = node.serve(heard[0][0])
    assert over[:1] == FAILED
    assert b"of a run that is over" in over
    assert node.serve(heard[-1][0]) == heard[-1][1]
    assert node.serve(b"nonsense")[:1] == FAILED
    run, number = Request.unpack(heard[-1][0]).position
    watched = node.serve(Request("observe", number + 1, heard[-1][0], run).pack())
    assert (
        watched == FAILED + b"ValueError: the gradients of a node are not looked at from outside; give solve metrics=False"
    )
    assert node.serve(Request("memory", number + 2, b"", run).pack())[:1] == DONE  # it was done, and is over


def test_a_place_that_has_nothing_is_brought_back_by_what_a_server_has_kept(heard):
    log = RequestLog()
    node = place(0, 9)
    for sent, answer in heard:
        log.add(Request.unpack(sent))
        assert node.serve(sent) == answer
        if Request.unpack(sent).number % 5 == 4:
            node = place(0, 9)
            answered = node.serve(sent)
            if answered[:1] == BEHIND:
                answered = [node.serve(request.pack()) for request in log.after(None)][-1]
            assert answered == answer
    log.forget(20)
    assert log.after(None) is None
    run, last = Request.unpack(heard[-1][0]).position
    assert [request.number for request in log.after(Position(run, 25))] == list(range(26, last + 1))
    assert log.after(Position(run, 3)) is None


@pytest.mark.parametrize("cut", [1, 9, 40])
def test_a_record_that_was_half_written_was_never_answered_and_is_done_again(cut, heard, tmp_path):
    path = tmp_path / "journal"
    node = place(0, 9, path)
    for sent, _ in heard[:20]:
        node.serve(sent)
    path.write_bytes(path.read_bytes()[:-cut])
    again = place(0, 9, path)
    for sent, answer in heard[19:]:
        assert again.serve(sent) == answer


def test_every_request_is_on_the_disk_before_it_is_answered(heard, tmp_path):
    node = place(0, 9, tmp_path / "journal")
    for sent, _ in heard[:20]:
        with patch("os.fsync") as whole_file, patch("os.fdatasync") as added:
            node.serve(sent)
        assert whole_file.called or added.called
        assert Journal(tmp_path / "journal").records[-1] == sent


def test_a_journal_is_cut_to_a_snapshot_and_what_came_after(heard, tmp_path):
    node = place(0, 9, tmp_path / "journal", every=6)
    for sent, _ in heard:
        node.serve(sent)
    verbs = [Request.unpack(record).verb for record in Journal(tmp_path / "journal").records[1:]]
    assert verbs.count("recall") == 1
    assert len(verbs[verbs.index("recall") :]) <= 7
    assert node.stable > len(heard) - 20
    with pytest.raises(ValueError, match="every = 0; there must be at least one request"):
        ExactlyOnce(ef.OwnRows(part(0, 9)), None, 0)


def test_a_snapshot_is_all_that_later_answers_depend_on(heard):
    node, other = place(0, 9), place(0, 9)
    for sent, _ in heard[:20]:
        node.serve(sent)
    run, number = node.position
    for request in node.log.requests:
        if request.verb in SET_UP:
            other.serve(request.pack())
    other.serve(Request("recall", number, node.place.snapshot(), run).pack())
    later = [Request("values", number + 1, FLAG.pack(0), run), Request("values", number + 2, FLAG.pack(1), run)]
    later.append(Request("memory", number + 3, b"", run))
    for request in later:
        assert node.serve(request.pack()) == other.serve(request.pack())
        assert other.serve(request.pack())[:1] == DONE


def test_a_file_that_is_no_journal_is_refused(tmp_path):
    (tmp_path / "journal").write_bytes(b"something else")
    with pytest.raises(DamagedError, match="is not a journal of this version"):
        Journal(tmp_path / "journal")
    assert HEAD.endswith(b"\n")


def test_a_place_whose_rows_have_changed_does_not_go_on(heard, tmp_path):
    node = place(0, 9, tmp_path / "journal")
    for sent, _ in heard[:20]:
        node.serve(sent)
    rows = part(0, 9)
    rows.A.data[0] *= 1.01
    changed = r"journal is not of this place \(ValueError: what was said here is not what would be said now"
    with pytest.raises(ValueError, match=changed):
        ExactlyOnce(ef.OwnRows(rows, True), Journal(tmp_path / "journal"))


def test_a_server_with_other_data_or_another_version_is_refused_by_name(heard):
    node, start = place(0, 9), next(sent for sent, _ in heard if sent.startswith(b"start"))
    for sent, _ in heard:
        if sent == start:
            break
        node.serve(sent)
    setup, identity = value_of(Request.unpack(start).body, "start")
    for name in ("data", "version", "features"):
        body = content((setup, identity | {name: "another"}))
        answer = node.place.serve(Request("start", 0, body, new_run(digest_of(body))).pack())
        assert answer[:1] == FAILED
        assert f"the server's {name} is another, and here it is".encode() in answer
    assert node.serve(start)[:1] == DONE


def test_every_request_of_a_run_carries_the_digest_of_what_was_started_and_no_byte_more(heard):
    asked = [Request.unpack(sent) for sent, _ in heard]
    (begin,) = [k for k, request in enumerate(asked) if request.verb == "start"]
    assert {request.run for request in asked[begin:]} == {asked[begin].run}
    assert run_digest(asked[begin].run) == digest_of(asked[begin].body)
    lengths = [len(request.verb) + 1 + 8 + 8 + len(request.body) for request in asked]
    assert [len(sent) for sent, _ in heard] == lengths
    setup, identity = value_of(asked[begin].body, "start")
    others = [(replace(setup, method=ef.EF21(ef.TopK(3))), identity), (replace(setup, x=setup.x + 1), identity)]
    others += [(replace(setup, downlink=ef.Changed()), identity), (setup, identity | {"data": "another"})]
    digests = {digest_of(content(each)) for each in [(setup, identity), *others]}
    assert len(digests) == 5
    assert new_run(7) != new_run(7)


def test_a_request_of_another_problem_method_or_options_is_refused_and_changes_nothing(heard, tmp_path):
    node, refused = place(0, 9, tmp_path / "journal"), 0
    for k, (sent, answer) in enumerate(heard):
        request = Request.unpack(sent)
        if node.place.run is not None and k % 5 == 0:
            for number, verb in ((request.number, request.verb), (0, "round"), (99, "recall"), (0, "memory")):
                wrong = node.serve(Request(verb, number, request.body, request.run ^ 1 << 40).pack())
                assert wrong[:1] == FAILED
                assert f"request {number} ({verb}) is of another problem, method or options than the run".encode() in wrong
                refused += 1
        assert node.serve(sent) == answer
    assert refused >= 24
    start = next(Request.unpack(sent) for sent, _ in heard if sent.startswith(b"start"))
    other = node.serve(Request("start", 0, start.body, new_run()).pack())
    assert other[:1] == FAILED
    assert b"and that of what it starts is" in other


class Agreeing(ef.Transport):
    """Hosts that do whatever they are asked to."""

    def send(self, requests):
        self.sent = requests

    def receive(self):
        return [DONE for _ in self.sent]


OTHER_SETUP = {
    "method": ef.EF21(ef.TopK(3)),
    "downlink": ef.Changed(),
    "x": np.ones(13),
    "commands": True,
    "curvature": ef.Asking(ef.PowersOfTwo(4), clients=2),
}


@pytest.mark.parametrize("name", [each.name for each in fields(ef.Setup)])
def test_all_that_nodes_know_of_a_run_is_in_its_digest(name):
    """And nothing else tells a node what to do but the requests themselves."""

    def digest(setup, problem):
        return run_digest(ef.RemoteSession(Agreeing(), problem, setup, (0, N), start=True).run)

    problem = whole(False)
    setup = ef.Setup(ef.EF21(ef.TopK(2)), ef.Whole(), np.zeros(problem.d), commands=False)
    assert digest(setup, problem) == digest(replace(setup), problem)
    assert digest(setup, problem) != digest(replace(setup, **{name: OTHER_SETUP[name]}), problem)


@pytest.mark.parametrize("name", ["version", "data", "features"])
def test_and_so_is_what_they_are_nodes_of(name, monkeypatch):
    problem = whole(False)
    same = identity_of(problem)
    digests = set()
    for identity in (same, same | {name: "other"}):
        monkeypatch.setattr("errorfeedback.engines.remote.identity_of", lambda _, identity=identity: identity)
        setup = ef.Setup(ef.EF21(ef.TopK(2)), ef.Whole(), np.zeros(problem.d), commands=False)
        digests.add(run_digest(ef.RemoteSession(Agreeing(), problem, setup, (0, N), start=True).run))
    assert set(same) == {"version", "data", "features"}
    assert len(digests) == 2
