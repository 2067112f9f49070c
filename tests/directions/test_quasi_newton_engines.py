"""Quasi-Newton runs with few bits both ways: the same bits wherever the clients live and whenever the run was resumed, and
every byte counted, those of the Hessians included.
"""

from __future__ import annotations

import numpy as np
import pytest
from bytewise import Bytewise
from discovery import COMPRESSORS, DOWNLINKS
from problem_pairs import pair

import errorfeedback as ef
from errorfeedback.directions import few_bit_hessians
from errorfeedback.problems.base import setup_bits
from errorfeedback.runtime.ledger import ownership_bits
from errorfeedback.stepsizes.base import Verdict

FEW = ef.PowersOfTwo(4)
DIRECTIONS = {
    "LBFGS": ef.LBFGS(5),
    "every round": ef.Curvature(FEW, price=0.0),
    "start": ef.Curvature(FEW, price=2.0),
    "late": ef.Curvature(FEW, price=3.0, tolerance=1e-12),
    "whole Hessians": ef.Curvature(price=2.0),
    "finer ones": ef.Curvature(FEW, price=0.4, finer=ef.Uniform(16), finer_price=1.6),
    "of three": ef.Curvature(ef.Uniform(10), price=2.0, clients=3),
    "of one, late": ef.Curvature(FEW, price=3.0, tolerance=1e-12, clients=1),
}
UP = ef.EF21(FEW, "compressed")
each_direction = pytest.mark.parametrize("name", DIRECTIONS)


def problem(dtype=np.float64, scaled=False):
    rows = pair("logistic", n=7, d=15, m=4, fill=0.3)[0]
    made = ef.logistic(rows.A.toarray(), rows.target, clients=7, dtype=dtype)
    return ef.scaled(made, power=0.5) if scaled else made


def options(name, **more):
    """From far away, so that steps are refused."""
    return {
        "direction": DIRECTIONS[name],
        "downlink": ef.FittedStep(),
        "prox": ef.ElasticNet(l2=1e-3),
        "rounds": 25,
        "x0": 6 * np.random.default_rng(1).standard_normal(15),
    } | more


def run(problem, name, method=UP, **more):
    return ef.solve(problem, method, ef.Armijo(), **options(name, **more))


def assert_same_bits(a, b):
    assert np.array_equal(a.x, b.x)
    assert a.returned == b.returned
    for column in a.history.keys() - {"seconds"}:
        assert np.array_equal(a.history[column], b.history[column], equal_nan=True), column


def assert_counted(engine, result):
    problem = result.theory.problem
    up, down = setup_bits(problem)
    assert 8 * engine.up + up + ownership_bits(problem) == result.history["uplink_bits"][-1]
    assert 8 * engine.down + down == result.history["downlink_bits"][-1]


@each_direction
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_bits_are_the_same_wherever_the_clients_live_and_all_are_counted(name, dtype):
    one = run(problem(dtype), name, engine=ef.Local(1))
    assert one.x.dtype == dtype
    for engine in (ef.Local(3), ef.Local(7), ef.Threads(2)):
        assert_same_bits(one, run(problem(dtype), name, engine=engine))
    for engine in (Bytewise(1), Bytewise(3), Bytewise(2, twice=True)):
        by_bytes = run(problem(dtype), name, engine=engine)
        assert_same_bits(one, by_bytes)
        assert_counted(engine, by_bytes)


FITTED = ef.EF21(ef.FittedAnswer(block=3), "compressed")


@pytest.mark.parametrize("name", ["LBFGS", "late"])
def test_answers_as_fine_as_the_step_have_the_same_bits_everywhere_and_are_counted(name, tmp_path):
    more = {"method": FITTED, "downlink": ef.FittedStep(share=1e-3), "rounds": 14}
    one = run(problem(), name, **more)
    sizes = problem().support.sizes
    units = 16 * -(-sizes // 3)
    widths = {int((each * sizes + units + 64).sum()) for each in (4, 8, 16)}
    assert len(widths & {int(bits) for bits in np.diff(one.history["payload_bits"])}) >= 2
    for engine in (ef.Local(3), ef.Threads(2), Bytewise(3), Bytewise(2, twice=True)):
        by_bytes = run(problem(), name, engine=engine, **more)
        assert_same_bits(one, by_bytes)
        if isinstance(engine, Bytewise):
            assert_counted(engine, by_bytes)
    for before in range(1, 14, 2):
        folder = tmp_path / str(before)

        def stop(row, before=before):
            if row["round"] == before:
                raise StopError

        with pytest.raises(StopError):
            run(problem(), name, watch=stop, checkpoint=ef.Checkpoint(folder, every=1), **more)
        assert_same_bits(one, ef.resume(folder, engine=[ef.Local(2), Bytewise(3)][before // 2 % 2]))


KINKS = {"prox": ef.ElasticNet(l1=5e-3, l2=1e-3), "downlink": ef.FittedStep(zeros=True)}


@each_direction
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_steps_around_kinks_have_the_same_bits_wherever_the_clients_live_and_end_at_0_on_both_sides(name, dtype):
    one = run(problem(dtype), name, engine=ef.Local(1), **KINKS)
    assert 0 < (one.x == 0).sum() < 15
    for engine in (ef.Local(3), ef.Threads(2), Bytewise(1), Bytewise(3), Bytewise(2, twice=True)):
        other = run(problem(dtype), name, engine=engine, **KINKS)
        assert_same_bits(one, other)
        if isinstance(engine, Bytewise):
            assert_counted(engine, other)


def test_steps_around_kinks_cost_no_bit_more():
    """Of the same coding; the rule for zeros is a rule, and no code."""
    made, sent = problem(), []
    for zeros in (True, False):
        down = ef.FittedStep(least=24, zeros=zeros)
        sent.append(run(made, "LBFGS", rounds=1, **KINKS | {"downlink": down}).history["downlink_bits"][-1])
    assert sent[0] == sent[1]


@each_direction
def test_scaled_features_and_steps_along_the_estimate_too(name):
    engine = Bytewise(3)
    by_bytes = run(problem(scaled=True), name, engine=engine)
    assert_same_bits(run(problem(scaled=True), name), by_bytes)
    assert_counted(engine, by_bytes)


@pytest.mark.parametrize("downlink", DOWNLINKS, ids=str)
@pytest.mark.parametrize("direction", [ef.Steepest(), ef.LBFGS(), ef.Curvature(FEW, price=2.0)], ids=str)
def test_every_downlink_goes_back_on_both_sides(direction, downlink):
    """x and the downlink's memory are undone with a refused step."""
    prox = ef.ElasticNet(l2=1e-3) if downlink.knows_prox else None
    engine, more = Bytewise(3), {"direction": direction, "downlink": downlink, "prox": prox, "rounds": 20}
    by_bytes = run(problem(), "LBFGS", engine=engine, **more)
    assert_same_bits(run(problem(), "LBFGS", **more), by_bytes)
    assert_counted(engine, by_bytes)


@pytest.mark.parametrize("compressor", [c for c in COMPRESSORS if isinstance(c, ef.Contractive) and c.always], ids=str)
def test_hessians_come_after_the_message_of_any_compressor(compressor):
    """The frames of both are told apart by their lengths."""
    for method in (ef.EF21(compressor, "compressed"), ef.EF21(compressor, "gradient"), ef.EF21(compressor), ef.DGD()):
        engine = Bytewise(2)
        direction = ef.Curvature(compressor, price=0.0)
        by_bytes = run(problem(), "start", method, engine=engine, direction=direction, rounds=4)
        assert_same_bits(run(problem(), "start", method, direction=direction, rounds=4), by_bytes)
        assert_counted(engine, by_bytes)


class StopError(Exception):
    """In the middle of a run."""


@pytest.mark.parametrize("more", [{}, KINKS], ids=["smooth", "kinks"])
@pytest.mark.parametrize("name", ["LBFGS", "every round", "start", "late", "finer ones"])
def test_a_run_goes_on_from_any_round_with_the_same_bits(name, more, tmp_path, monkeypatch):
    """Also between a step that was refused and its next try, while all stand, and with Hessians on the way."""
    verdicts, verdict = [], ef.Armijo.verdict
    monkeypatch.setattr(ef.Armijo, "verdict", lambda rule, state: verdicts.append(verdict(rule, state)) or verdicts[-1])
    monkeypatch.setattr(few_bit_hessians, "NEWTON", 10)  # fewer than there are rounds
    rounds = 12
    more = more and more | {"x0": 25 * np.random.default_rng(1).standard_normal(15)}
    whole = run(problem(), name, rounds=rounds, **more)
    asked = np.diff(whole.history["uplink_bits"])
    assert (asked.max() > asked.min()) == (name != "LBFGS")
    assert {Verdict.KEEP, Verdict.RETRY} <= set(verdicts[:rounds])
    engines = [ef.Local(1), ef.Local(3), ef.Threads(2), Bytewise(3)]
    for before in range(1, rounds):

        def stop(row, before=before):
            if row["round"] == before:
                raise StopError

        folder = tmp_path / str(before)
        with pytest.raises(StopError):
            run(
                problem(),
                name,
                rounds=rounds,
                watch=stop,
                engine=engines[-before % 4],
                checkpoint=ef.Checkpoint(folder, every=1),
                **more,
            )
        seen = []
        assert_same_bits(whole, ef.resume(folder, engine=engines[before % 4], watch=seen.append))
        assert seen[0]["round"] == before, "a checkpoint that is refused would be gone on with from round 0, to the same end"


def test_a_run_that_stood_goes_on_with_the_same_bits(tmp_path):
    """Estimates of one entry a round are stale, so that everybody has to stand."""
    more = {"rounds": 30, "direction": ef.LBFGS(), "method": ef.EF21(ef.TopK(1), "compressed")}
    seen = []

    class Noted(ef.Armijo):
        def verdict(self, state):
            seen.append(state.verdict)
            return state.verdict

    ef.solve(problem(), stepsize=Noted(), **options("LBFGS", **more))
    stands = [t for t, verdict in enumerate(seen) if verdict is Verdict.RESTORE]
    assert stands
    whole = run(problem(), "LBFGS", **more)
    for before in {t + k for t in stands for k in (0, 1) if t + k < 30}:

        def stop(row, before=before):
            if row["round"] == before:
                raise StopError

        with pytest.raises(StopError):
            run(problem(), "LBFGS", **more, watch=stop, checkpoint=ef.Checkpoint(tmp_path / str(before), every=1))
        assert_same_bits(whole, ef.resume(tmp_path / str(before), engine=Bytewise(2)))


@pytest.mark.parametrize("price", [0.0, 2.0])
def test_hessians_cost_what_their_frames_take(price):
    """By hand: a client with s features has s (s + 1) / 2 entries of 4 bits, a unit and what is missing, 16 bits each."""
    made = problem()
    plain, bent = (run(made, "LBFGS", direction=d, rounds=0) for d in (ef.LBFGS(), ef.Curvature(FEW, price=price)))
    entries = made.support.sizes * (made.support.sizes + 1) // 2
    head = 24 + np.where(entries < 128, 8, 16)
    payload = 4 * entries + 16 + 16
    assert bent.history["payload_bits"][0] - plain.history["payload_bits"][0] == payload.sum()
    assert bent.history["uplink_bits"][0] - plain.history["uplink_bits"][0] == (head + 8 * -(-payload // 8)).sum()
    assert bent.history["downlink_bits"][0] == plain.history["downlink_bits"][0]
