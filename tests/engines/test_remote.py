"""Shards that are asked by bytes: the same bits as in one process, every byte counted both ways, the same answer twice."""

from __future__ import annotations

import numpy as np
import pytest
from bytewise import Bytewise
from discovery import DOWNLINKS, METHODS, covering
from problem_pairs import pair

import errorfeedback as ef
from errorfeedback.problems.base import setup_bits
from errorfeedback.runtime.ledger import ownership_bits
from errorfeedback.wire.requests import DONE, FAILED, Request

SPARSE = pair("logistic", n=7, d=15, fill=0.2)[0]
OPTIONS = {"rounds": 12, "seed": 3, "every": 3, "x0": np.random.default_rng(1).standard_normal(15)}
RULES = [ef.Adaptive(), ef.Adaptive(sketch=3), ef.Best(), ef.Automatic(), ef.Automatic(guess=1e4)]


def assert_same_bits(a: ef.Result, b: ef.Result) -> None:
    assert np.array_equal(a.x, b.x)
    assert a.returned == b.returned
    for column in a.history.keys() - {"seconds"}:
        assert np.array_equal(a.history[column], b.history[column], equal_nan=True), column


def assert_counted(engine: Bytewise, result: ef.Result) -> None:
    """What crossed in frames, and what comes before round 0, is the history's."""
    problem = result.theory.problem
    up, down = setup_bits(problem)
    up += ownership_bits(problem) + result.stepsize.setup_bits(problem) * problem.n
    assert 8 * engine.up + up == result.history["uplink_bits"][-1]
    assert 8 * engine.down + down == result.history["downlink_bits"][-1]


@pytest.mark.parametrize(("method", "downlink"), covering(METHODS, DOWNLINKS), ids=str)
def test_every_method_and_downlink_has_the_same_bits_by_bytes_and_every_byte_is_counted(method, downlink):
    if (downlink.needs_everybody and not method.compressor.always) or (method.reads_steps and not downlink.lossless):
        with pytest.raises(ValueError, match=r"some miss it|read the estimate off the steps"):
            ef.solve(SPARSE, method, ef.Constant(0.01), downlink=downlink, **OPTIONS)
        return
    expected = ef.solve(SPARSE, method, ef.Constant(0.01), downlink=downlink, **OPTIONS)
    for hosts in (1, 3):
        engine = Bytewise(hosts)
        found = ef.solve(SPARSE, method, ef.Constant(0.01), downlink=downlink, engine=engine, **OPTIONS)
        assert_same_bits(expected, found)
        assert_counted(engine, found)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("downlink", DOWNLINKS, ids=str)
@pytest.mark.parametrize("rule", RULES, ids=str)
def test_rules_that_ask_and_go_back_have_the_same_bits_by_bytes(rule, downlink, dtype):
    problem = ef.logistic(SPARSE.A.toarray(), SPARSE.target, clients=7, dtype=dtype)
    plain = isinstance(rule, ef.Automatic)
    prox = ef.ElasticNet(l1=1e-3, l2=1e-3) if plain and downlink.knows_prox else None
    options = OPTIONS | {"rounds": 40, "downlink": downlink, "prox": prox}
    problem = ef.scaled(problem) if plain else problem
    engine = Bytewise(3)
    found = ef.solve(problem, ef.EF21(ef.TopK(1)), rule, engine=engine, **options)
    assert_same_bits(ef.solve(problem, ef.EF21(ef.TopK(1)), rule, **options), found)
    assert_counted(engine, found)


def test_a_request_that_comes_twice_gets_the_same_bytes_and_changes_nothing():
    options = OPTIONS | {"rounds": 30}
    rule = ef.Automatic(guess=1e3)
    once, twice = (ef.solve(SPARSE, ef.EF21(ef.TopK(1)), rule, engine=Bytewise(2, t), **options) for t in (False, True))
    assert_same_bits(once, twice)


@pytest.mark.parametrize("downlink", DOWNLINKS, ids=str)
@pytest.mark.parametrize("before", [1, 2, 3, 4, 5, 6, 7, 8])
def test_a_run_goes_on_by_bytes_from_where_another_engine_stopped(before, downlink, tmp_path):
    """Also between a step that was told to be kept, or taken back, and the round in which the clients hear of it."""
    rule, options = ef.Automatic(guess=1e4), OPTIONS | {"rounds": 20, "downlink": downlink}
    whole = ef.solve(SPARSE, ef.EF21(ef.TopK(1)), rule, **options)

    def stop(row):
        if row["round"] == before:
            raise KeyboardInterrupt

    checkpoint = ef.Checkpoint(tmp_path, every=1)
    with pytest.raises(KeyboardInterrupt):
        ef.solve(SPARSE, ef.EF21(ef.TopK(1)), rule, **options | {"every": 1}, checkpoint=checkpoint, watch=stop)
    found = ef.resume(tmp_path, engine=Bytewise(3))
    assert np.array_equal(found.x, whole.x)
    for column in ("uplink_bits", "downlink_bits", "f", "gamma"):
        assert np.array_equal(found.history[column][::3][:6], whole.history[column][:6]), column


def test_nonsense_is_answered_with_a_sentence():
    host = ef.host(SPARSE, ef.Setup(ef.EF21(ef.TopK(1)), ef.Whole(), np.zeros(15), commands=False), 0, 7)
    for sent in (b"", b"hello", b"dance\n" + bytes(8), Request("round", 1, b"").pack(), Request("recall", 2, b"x").pack()):
        answer = host.serve(sent)
        assert answer[:1] == FAILED
        assert len(answer) > 10
    assert host.serve(Request("memory", 3).pack())[:1] == DONE


def test_a_host_that_fails_is_named():
    engine = Bytewise(2)

    class Broken(ef.DGD):
        def client(self, state, node, ctx):
            if ctx.t == 3 and node.support.first:
                raise FloatingPointError("the disk of this node is gone")
            return super().client(state, node, ctx)

    with pytest.raises(RuntimeError, match="host 1 failed: FloatingPointError: the disk of this node is gone"):
        ef.solve(SPARSE, Broken(), ef.Constant(0.01), engine=engine, **OPTIONS)
