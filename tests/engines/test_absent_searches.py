"""Rounds that nodes miss, with rules that ask for losses and slopes: the run is that of one process in which these clients
are linear in these rounds, bit for bit, and that of the literal algorithm.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import reference
from descending import watched
from own_places import CUTS, N, assert_same_bits, rows, whole
from problem_pairs import pair
from scripted_hosts import InOneProcess, Scripted, silent_clients

import errorfeedback as ef
from errorfeedback.clients.order import Kept, Order
from errorfeedback.downlinks.base import Broadcast
from errorfeedback.engines.absences import Absences
from errorfeedback.engines.believing import Belief
from errorfeedback.probes.losses import KnownLosses, Losses
from errorfeedback.probes.slopes import Slopes
from errorfeedback.sparsity.support import full_support
from errorfeedback.stepsizes.base import Verdict
from errorfeedback.wire.message import Message

ROUNDS = 40
FEW = {"method": ef.EF21(ef.FittedAnswer(block=4), "compressed"), "stepsize": ef.Armijo(), "downlink": ef.FittedStep()}
RECIPES = {
    "L-BFGS": FEW | {"direction": ef.LBFGS(), "prox": ef.ElasticNet(l2=0.01)},
    "Hessians at the start": FEW | {"direction": ef.Curvature(ef.PowersOfTwo(4), price=2.0)},
    "Hessians of two": FEW | {"direction": ef.Curvature(ef.Uniform(10), price=0.0, clients=2)},
    "Hessians in every round": FEW | {"direction": ef.Curvature(ef.PowersOfTwo(4), price=0.0)},
    "L1": {
        "method": ef.EF21(ef.FittedAnswer(block=4)),
        "stepsize": ef.Automatic(),
        "downlink": ef.Changed(),
        "prox": ef.ElasticNet(l1=0.01),
    },
    "TopK": {"method": ef.EF21(ef.TopK(2)), "stepsize": ef.Automatic(guess=3.0)},
}
"""What `train` makes."""


def some(seed, share=0.2, hosts=3):
    """(round, host)"""
    rng = np.random.default_rng(seed)
    return {(t, k) for t in range(1, ROUNDS + 1) for k in range(hosts) if rng.random() < share}


def solved(problem, engine, **options):
    return ef.solve(problem, **{"rounds": ROUNDS, "metrics": False} | options, engine=engine)


def over_hosts(transport, **options):
    problem, _ = ef.gathered(transport, len(CUTS) - 1)
    return solved(problem, ef.Elsewhere(transport), **options)


@pytest.mark.parametrize("late", [False, True], ids=["unheard", "late"])
@pytest.mark.parametrize("name", RECIPES)
def test_it_is_the_run_of_one_process_in_which_these_clients_are_linear(name, late):
    for seed in (0, 1):
        missed = some(seed)
        found = over_hosts(Scripted(missed, late), **RECIPES[name])
        assert_same_bits(found, solved(whole(False), InOneProcess(missed), **RECIPES[name]))
    assert not np.array_equal(found.x, over_hosts(Scripted(set(), False), **RECIPES[name]).x)  # an absence matters


def test_what_the_absent_did_makes_no_difference_to_a_rule_that_asks_for_errors():
    sketches = {"method": ef.EF21(ef.TopK(2)), "stepsize": ef.Adaptive(sketch=3)}
    unheard, late, all_there = (
        over_hosts(Scripted(missed, late), **sketches) for missed, late in ((some(0), False), (some(0), True), (set(), True))
    )
    assert_same_bits(unheard, late)
    assert not np.array_equal(late.history["gamma"], all_there.history["gamma"])


@pytest.mark.parametrize("name", RECIPES)
def test_with_nobody_away_it_is_the_run_without_a_deadline(name):
    assert_same_bits(over_hosts(Scripted(set(), False), **RECIPES[name]), solved(whole(False), ef.Local(), **RECIPES[name]))


@pytest.mark.parametrize("name", ["L-BFGS", "Hessians in every round", "L1"])
def test_a_checkpoint_needs_nobody_and_goes_on_with_the_same_bits(name, tmp_path):
    class StopError(Exception):
        pass

    def stop(row):
        if row["round"] == 11:
            raise StopError

    missed = some(2) | {(9, 2), (10, 2)}
    transport = Scripted(missed, True)
    with pytest.raises(StopError):
        over_hosts(transport, watch=stop, checkpoint=ef.Checkpoint(tmp_path, every=10), **RECIPES[name])
    again = Scripted(missed, False)
    problem, _ = ef.gathered(again, 3)
    found = ef.resume(tmp_path, problem=problem, engine=ef.Elsewhere(again))
    assert np.array_equal(found.x, solved(whole(False), InOneProcess(missed), **RECIPES[name]).x)
    assert not any(b"memory\n" in each.pack() for place in transport.places for each in place.log.requests)


LITERAL = {
    "logistic": {"loss": "logistic", "n": 6, "d": 10, "m": 6, "fill": 0.5},
    "squares": {"loss": "squared", "n": 6, "d": 12, "m": 4, "seed": 1},
}
PLACES = (0, 2, 4, 6)
SAID = {0: [0.5, 3.5], 2: [0.0, 10.0]}
"""Hosts, and the slope and the loss that they tell."""


@pytest.fixture
def asked(monkeypatch):
    """The rounds in which Hessians were asked for."""
    rounds, asks = [], ef.Curvature.asks
    monkeypatch.setattr(
        ef.Curvature, "asks", lambda self, state, gained: rounds.append(asks(self, state, gained)) or rounds[-1]
    )
    return rounds


def both(name, missed, price, asked):
    """Our account of a run, and the literal one."""
    asked.clear()
    ours, literal = pair(**LITERAL[name])
    kind = ef.logistic if LITERAL[name]["loss"] == "logistic" else ef.least_squares
    cut = [literal.clients[lo:hi] for lo, hi in pairwise(PLACES)]
    parts = [kind(np.vstack([c.A for c in some]), np.concatenate([c.b for c in some]), clients=2) for some in cut]
    transport = Scripted(missed, True, parts=parts)
    problem, _ = ef.gathered(transport, 3)
    direction = ef.LBFGS() if price is None else ef.Curvature(ef.PowersOfTwo(4), price=price)
    x0 = 3.0 * np.random.default_rng(5).standard_normal(problem.d)
    options = {"direction": direction, "downlink": ef.FittedStep(), "prox": ef.ElasticNet(l2=0.02), "x0": x0}
    method, engine = ef.EF21(ef.PowersOfTwo(4), "compressed"), ef.Elsewhere(transport)
    _, account = watched(problem, method, rounds=ROUNDS, engine=engine, **options)
    silent, levels = silent_clients(missed, PLACES), reference.powers_of_two(4)
    when = set(np.flatnonzero(asked).tolist())
    bent = None if price is None else reference.HessianEstimates(literal, levels, 0.02, when, silent)
    C, kept = reference.few_bits(literal, levels, None), 0 if price == 0.0 else 2
    xs = reference.armijo(literal, x0, ROUNDS, C, 20, reference.FittedSteps(0.1), 0.02, ours.lower_bound, bent, silent, kept)
    return account, [(value, accepted, literal.value(x) + 0.01 * x @ x) for x, value, accepted in xs]


@pytest.mark.parametrize("price", [None, 2.0, 0.0])
@pytest.mark.parametrize("name", LITERAL)
def test_it_is_the_literal_run(name, price, asked):
    """Round by round, what was told and what was accepted, until the gap is in the last digits."""
    rounds = refused = 0
    for seed in range(3):
        account, literal = both(name, some(10 + seed, 0.25), price, asked)
        low = min(truth for _, _, truth in literal)
        for (accepted, loss, verdict), (value, expected, truth) in zip(account, literal, strict=True):
            if truth - low <= 1e-9 * (literal[0][0] - low):
                break
            assert accepted == expected
            assert loss == pytest.approx(value, rel=1e-7)
            rounds, refused = rounds + 1, refused + (verdict is Verdict.RETRY)
    assert rounds > 30
    assert refused >= 2 or price == 0.0


def test_who_stays_away_leaves_and_the_others_come_to_their_own_minimum(monkeypatch):
    clock = iter(range(10**6))
    monkeypatch.setattr("errorfeedback.engines.absences.monotonic", lambda: next(clock))
    transport = Scripted({(t, 1) for t in range(5, 300)}, True)
    transport.patience = 5
    found = over_hosts(transport, **RECIPES["L-BFGS"] | {"rounds": 250})
    assert [note.split(",")[0] for note in found.history.notes if "left" in note] == [
        "host 1 (clients 2 to 5) left in round 8"
    ]
    A, b, clients = rows()
    H, c = 0.01 * np.eye(A.shape[1]), np.zeros(A.shape[1])
    for i in set(range(N)) - set(range(2, 6)):
        A_i, b_i = A[clients == i], b[clients == i]
        H, c = H + 2 * A_i.T @ A_i / len(b_i) / N, c + 2 * A_i.T @ b_i / len(b_i) / N
    np.testing.assert_allclose(found.x, np.linalg.solve(H, c), rtol=1e-5, atol=1e-7)


def test_what_an_absent_client_counts_as_by_hand():
    """a tells at both ends, b only where the step began, c only where it ends: <g_i, s> is 2, 3 and 5."""
    supports = [full_support(3, 2).shard(k, k + 1) for k in range(3)]
    memories = [np.array(g) for g in ([1.0, 0.0], [0.0, 1.0], [1.0, 1.0])]
    losses = KnownLosses(np.array([1.0, 2.0, 3.0]), np.array([True, True, False]))
    kept, x = Kept((np.array([5.0, 5.0]), None), losses), np.array([7.0, 8.0])
    order = Order(ef.Round(4, 0), x, Broadcast(x), (Slopes(16), Losses()), kept=kept)
    said = [Message(supports[k], None, memories[k], None, telemetry=np.array([told])) for k, told in SAID.items()]
    belief = Belief.of(order, supports, memories, dict(zip(SAID, said, strict=True)), 64)
    assert belief.rest == 0.5  # 3.5 - (1 + 2)
    assert belief.numbers(1, 1, belief.rest).tolist() == [[0.25, 5.5]]  # the mean slope of the others; 2 + 3 + 0.5
    assert belief.numbers(1, 1, 0.0).tolist() == [[0.25, 5.0]]  # who has left does not curve
    assert belief.surprise(2, said[1]) == 1.5  # 10 - (3 + 5 + 0.5)
    assert belief.incomparable == 0.0
    alone = Belief.of(order, supports, memories, {2: said[1]}, 64)
    assert (alone.rest, alone.incomparable) == (0.0, -np.inf)


@pytest.mark.parametrize(("moved", "asked_for", "counts"), [(True, True, True), (False, True, False), (True, False, False)])
def test_numbers_that_are_not_finite_are_an_infinite_loss_where_the_step_can_be_undone(moved, asked_for, counts):
    support, x = full_support(1, 2), np.zeros(2)
    setup = ef.Setup(ef.EF21(ef.TopK(1)), ef.Whole(), x, commands=True)
    absences = Absences(setup, [support], ["all"], np.float64, 1.0)
    probes = (Slopes(16), Losses()) if asked_for else (Slopes(16),)
    kept = Kept((x, None), KnownLosses(np.ones(1), np.ones(1, dtype=bool)))
    order = Order(ef.Round(4, 0), x, Broadcast(x) if moved else None, probes, kept=kept)
    message = Message(support, None, np.array([np.nan, 0.0]), None, telemetry=np.zeros((1, len(probes))))
    assert (absences.unsound(message, order) == "") is counts
    assert np.isinf(message.telemetry[:, -1]).all() == counts
