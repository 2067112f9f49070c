"""How EF21 begins: "compressed" is "zero" without the round in which x stands."""

from __future__ import annotations

import numpy as np
import pytest
from problem_pairs import pair
from theory_problems import random_problem

import errorfeedback as ef
from errorfeedback.core import Round
from errorfeedback.methods.ef21 import STARTS
from errorfeedback.planner.plan import Option, origin, plan

COMPRESSORS = [ef.TopK(1), ef.PowersOfTwo(4), ef.Uniform(8, block=3), ef.ExactOnCommon((0,), 1), ef.Identity()]


def run(compressor, start, rounds, **options):
    problem = pair("logistic", n=6, d=12, fill=0.5)[0]
    x0 = np.random.default_rng(0).standard_normal(12)
    return ef.solve(problem, ef.EF21(compressor, start=start), ef.Constant(0.1), rounds=rounds, x0=x0, **options)


@pytest.mark.parametrize("compressor", COMPRESSORS, ids=str)
def test_compressed_is_zero_one_round_earlier(compressor):
    """The same points and the same bits up and down, with one exchange fewer."""
    early, late = run(compressor, "compressed", 40), run(compressor, "zero", 41)
    assert np.array_equal(early.x, late.x)
    for column in ("f", "G", "uplink_bits", "downlink_bits", "gamma"):
        assert np.array_equal(early.history[column], late.history[column][1:], equal_nan=True), column


@pytest.mark.parametrize("compressor", COMPRESSORS, ids=str)
@pytest.mark.parametrize("start", STARTS)
def test_the_first_error_is_at_most_what_the_method_says(compressor, start):
    problem = random_problem("least squares", 3)
    method = ef.EF21(compressor, start=start).bind(problem.support)
    history = ef.solve(problem, method, ef.Constant(1e-3), rounds=0).history
    norms2 = problem.support.norms2(problem.gradients_at(np.zeros(problem.d)))
    bound = method.first_error2(norms2, problem.support)
    assert history["G"][0] <= bound.mean() * (1 + 1e-12)
    if start != "compressed":
        assert history["G"][0] == pytest.approx(bound.mean())


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("compressor", [*COMPRESSORS, ef.Rounded(ef.TopK(2), ef.Uniform(4))], ids=str)
def test_every_proved_rule_holds_from_the_compressed_start(compressor, seed):
    """From round 0 on: what is sent exactly has no error after it."""
    problem = random_problem("least squares", seed)
    method = ef.EF21(compressor, start="compressed")
    assert method.exact_from == 0
    assert not method.unproved
    for rule in (ef.Best(), ef.RareFeatures()):
        assert ef.solve(problem, method, rule, rounds=100).certificate.verdict == "held"


def test_the_plan_of_the_compressed_start_pays_for_its_first_message():
    problem = ef.synthetic(n=6, d=20, m=3, c=3)
    compressor, goal = ef.PowersOfTwo(4), origin(problem, 1e-3)
    theory, message = ef.analyse(problem, compressor), compressor.message_bits(problem.support).mean()
    zero, compressed = (plan(theory, Option("EF21", ef.EF21(compressor, start=s)), ef.Best(), goal) for s in STARTS_PROVED)
    assert compressed.rounds <= zero.rounds
    assert compressed.up_bits - compressed.rounds * message == pytest.approx(zero.up_bits - zero.rounds * message + message)


STARTS_PROVED = ("zero", "compressed")


def test_round_0_is_random_as_every_other():
    """Clients that miss round 0 have g_i = 0."""
    problem = ef.synthetic(n=6, d=20, m=3, c=3)
    method = ef.EF21(ef.Participating(ef.PowersOfTwo(4), 0.5), start="compressed")
    operator = method.compressor.on(problem.support)
    answers = operator.known(Round(0, 7)).frames.answers
    assert 0 < answers.sum() < 6
    run = ef.solve(problem, method, ef.Constant(1e-3), rounds=0, seed=7)
    sent = 8 * (4 + 2) * answers.sum() + sum(-(-4 * size // 8) * 8 for size in problem.support.sizes[answers])
    zero = ef.solve(problem, ef.EF21(ef.TopK(1)), ef.Constant(1e-3), rounds=0)
    assert run.history["uplink_bits"][0] == zero.history["uplink_bits"][0] + sent
