"""A server without rows, and shards that have nothing but their own: set up, run, kept and resumed by bytes alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pytest
from own_places import CUTS, N, assert_same_bits, part, rows, whole

import errorfeedback as ef
from errorfeedback.storage.files import content, value_of
from errorfeedback.wire.requests import DONE, FAILED, Request


@dataclass(eq=False)
class Places(ef.Engine, ef.Transport):
    """Hosts with rows of their own; this engine sees bytes."""

    places: list
    answers: list = field(default_factory=list)

    def open(self, problem, setup):
        return ef.RemoteSession(self, problem, setup, problem.cuts, start=True)

    def send(self, requests):
        self.answers = [place.serve(sent) for place, sent in zip(self.places, requests, strict=True)]

    def receive(self):
        return self.answers


def gathered(scale=False, cuts=CUTS):
    engine = Places([ef.OwnRows(part(lo, hi), scale) for lo, hi in pairwise(cuts)])
    return engine, *ef.gathered(engine, len(engine.places))


@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize("rule", [ef.Automatic(), ef.Constant(0.01)], ids=str)
@pytest.mark.parametrize("cuts", [CUTS, (0, 9), tuple(range(10))], ids=str)
def test_the_bits_and_their_number_are_those_of_one_process(cuts, rule, scale):
    engine, problem, S = gathered(scale, cuts)
    expected = whole(scale)
    if scale:
        assert np.array_equal(S, expected.scale)
    options = {"rounds": 60, "every": 7, "downlink": ef.Changed()}
    one = ef.solve(expected, ef.EF21(ef.TopK(2)), rule, **options)
    assert_same_bits(one, ef.solve(problem, ef.EF21(ef.TopK(2)), rule, engine=engine, **options))
    other = ef.MARINA(ef.RandK(2), 0.3)  # the same places serve the next run
    fixed = options | {"stepsize": ef.Constant(0.01)}
    assert_same_bits(ef.solve(expected, other, **fixed), ef.solve(problem, other, engine=engine, **fixed))


def counted(lo, hi):
    A, b, clients = rows()
    mine = (lo <= clients) & (clients < hi)
    return ef.poisson(0.1 * A[mine], np.floor(3 * np.abs(b[mine])), clients[mine])


def test_a_loss_without_a_bound_runs_there_too_and_no_theorem_hears_of_it():
    engine = Places([ef.OwnRows(counted(lo, hi), True) for lo, hi in pairwise(CUTS)])
    problem, _ = ef.gathered(engine, len(engine.places))
    options = {"rounds": 40, "every": 7, "direction": ef.LBFGS(), "metrics": False}
    one = ef.solve(ef.scaled(counted(0, N)), ef.EF21(ef.PowersOfTwo(4)), ef.Armijo(), **options)
    assert_same_bits(one, ef.solve(problem, ef.EF21(ef.PowersOfTwo(4)), ef.Armijo(), engine=engine, **options))
    options = {"rounds": 40, "metrics": False}
    one = ef.solve(ef.scaled(counted(0, N)), ef.EF21(ef.TopK(2)), ef.Automatic(), **options)
    assert_same_bits(one, ef.solve(problem, ef.EF21(ef.TopK(2)), ef.Automatic(), engine=engine, **options))
    for rule in (ef.RareFeatures(), ef.EF21Standard()):
        with pytest.raises(ValueError, match="the loss of this problem has no bound on its curvature"):
            ef.solve(problem, ef.EF21(ef.TopK(2)), rule, rounds=1, engine=engine)


@pytest.mark.parametrize("method", [ef.EF21SGDM(ef.TopK(2), batch=2), ef.EF14(ef.TopK(2), batch=3)], ids=str)
def test_batches_are_those_of_the_client_wherever_it_lives(method):
    engine, problem, _ = gathered()
    options = {"stepsize": ef.Constant(0.005), "rounds": 40, "every": 7}
    assert_same_bits(ef.solve(whole(False), method, **options), ef.solve(problem, method, engine=engine, **options))


def test_the_server_has_no_rows_and_says_so():
    engine, problem, _ = gathered()
    with pytest.raises(ValueError, match="the rows of this problem lie on several ranks"):
        ef.solve(problem, ef.EF21(ef.TopK(2)), ef.Best(), rounds=1, engine=engine)
    with pytest.raises(ValueError, match="the rows of this problem lay on several ranks"):
        ef.solve(problem, ef.EF21(ef.TopK(2)), ef.Automatic(), rounds=1)


def test_it_goes_on_from_a_checkpoint(tmp_path):
    class StopError(Exception):
        pass

    def watch(row):
        if row["round"] == 35:
            raise StopError

    engine, problem, _ = gathered()
    options = {"problem": problem, "method": ef.EF21(ef.TopK(2)), "stepsize": ef.Automatic(), "rounds": 60, "every": 5}
    with pytest.raises(StopError):
        ef.solve(**options, engine=engine, watch=watch, checkpoint=ef.Checkpoint(tmp_path, every=10))
    again, same, _ = gathered()
    assert_same_bits(ef.solve(**options, engine=engine), ef.resume(tmp_path, problem=same, engine=again))


def test_places_whose_rows_do_not_fit_together_are_named():
    A, b, clients = rows()
    other = ef.logistic(A[clients > 5], np.sign(b[clients > 5]), clients[clients > 5])
    engine = Places([ef.OwnRows(part(0, 6)), ef.OwnRows(other)])
    with pytest.raises(RuntimeError, match="host 0 failed: ValueError: host 1 and host 0 differ in their loss: "):
        ef.gathered(engine, 2)


@pytest.mark.parametrize("word", [0, 1], ids=["of the data", "of the problem"])
@pytest.mark.parametrize("wrong", [-1, 10**9, 3.5], ids=str)
def test_features_that_nobody_can_own_are_refused_before_a_kernel_follows_them(word, wrong):
    class Liar(ef.OwnRows):
        def serve(self, sent):
            answer = super().serve(sent)
            if not sent.startswith(b"prepare\n") or answer[:1] != DONE:
                return answer
            ended, said = value_of(answer[1:], "it")
            where = [k for k, each in enumerate(said or ()) if isinstance(each, np.ndarray) and each.dtype.kind == "i"]
            if ended or len(where) < 2 or (word == 0) != isinstance(said[0], str):
                return answer
            features = max(where, key=lambda k: len(said[k]))
            twisted = said[features].astype(type(wrong))
            twisted[0] = wrong
            return DONE + content((ended, (*said[:features], twisted, *said[features + 1 :])))

    engine = Places([ef.OwnRows(part(0, 6)), Liar(part(6, 9))])
    with pytest.raises(
        RuntimeError, match=r"host 0 failed: ValueError: host 1 (names features that nobody can own|does not say)"
    ):
        ef.gathered(engine, 2)


def test_places_that_scale_and_places_that_do_not_are_refused():
    engine = Places([ef.OwnRows(part(0, 6)), ef.OwnRows(part(6, 9), scale=True)])
    with pytest.raises(RuntimeError, match=r"host 1 and host 0 differ in their scale \(of OwnRows\): True and False"):
        ef.gathered(engine, 2)


def test_what_comes_too_early_or_makes_no_sense_is_answered_with_a_reason():
    place = ef.OwnRows(part(0, 9))
    for verb in ("start", "round", "prepare"):
        answer = place.serve(Request(verb, 1, b"").pack())
        assert answer[:1] == FAILED
        assert len(answer) > 20
    assert place.serve(b"nonsense")[:1] == FAILED
    engine = Places([place])
    problem, _ = ef.gathered(engine, 1)
    ef.solve(problem, ef.EF21(ef.TopK(2)), ef.Constant(0.01), rounds=3, engine=engine)
    assert place.ended
    assert place.serve(b"nonsense")[:1] == FAILED
    assert place.serve(Request("memory", 99, run=place.run).pack())[:1] == DONE
