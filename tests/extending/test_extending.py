"""What users add is one file each, with nothing but what `errorfeedback` exports. Each works, has the same bits wherever its
clients live, survives a checkpoint, and is counted.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from bytewise import Bytewise
from functions import probed
from gamma import Gamma
from look_ahead import LookAhead
from momentum import Momentum
from normalised import Normalised
from preconditioned import AdaGrad
from quantile import Quantile
from queues import Processes
from two_way_ef21 import TopOfTheChange

import errorfeedback as ef
from errorfeedback.problems.base import setup_bits
from errorfeedback.runtime.ledger import ownership_bits

N, D = 9, 14
EF21 = ef.EF21(ef.TopK(2))


def rows():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((6 * N, D)) * (rng.random((6 * N, D)) < 0.4)
    A[np.arange(6 * N), np.arange(6 * N) % D] = 1.0
    return A, rng.standard_normal(6 * N), np.arange(6 * N) % N


def squares():
    return ef.least_squares(*rows())


def classes():
    A, b, clients = rows()
    return ef.softmax(A, np.digitize(b, [-0.5, 0.5]), clients)


def amounts():
    A, b, clients = rows()
    return ef.glm(0.3 * A, 0.1 + 3 * np.abs(b), clients, Gamma())


def medians():
    A, b, clients = rows()
    return ef.glm(A, b + 50 * (np.arange(len(b)) == 3), clients, Quantile())


def quadratic(i):
    """||x_i - i||^2 + (x_i - x_{i+1})^2: a function of two features of nine."""

    def f(x):
        own, across = x[i] - i, x[i] - x[(i + 1) % N]
        gradient = np.zeros(N)
        gradient[i] = 2 * own + 2 * across
        gradient[(i + 1) % N] = -2 * across
        return own**2 + across**2, gradient

    return f


def functions():
    return probed([quadratic(i) for i in range(N)], N)


def options(problem, method, gamma, **more):
    return {"problem": problem, "method": method, "stepsize": ef.Constant(gamma), "rounds": 60, "every": 7, **more}


CASES = {
    "two-way EF21": lambda: options(squares(), EF21, 0.05, downlink=TopOfTheChange(4)),
    "momentum on minibatches": lambda: options(squares(), Momentum(ef.QSGD(63), batch=4), 0.03),
    "a Gamma loss": lambda: options(amounts(), EF21, 0.3),
    "a quantile loss": lambda: options(medians(), EF21, 0.5),
    "plain functions": lambda: options(functions(), EF21, 0.3),
    "a look ahead": lambda: options(squares(), LookAhead(rate=0.02), 0.1),
    "minibatches of many classes": lambda: options(classes(), Momentum(ef.QSGD(63), batch=4), 0.2),
    "a look ahead with many classes": lambda: options(classes(), LookAhead(rate=0.1), 0.5),
    "a number that clients tell": lambda: options(squares(), EF21, 0.05) | {"stepsize": Normalised(longest=0.05)},
    "a preconditioner on the server": lambda: options(squares(), EF21, 0.2, direction=AdaGrad()),
}
each = pytest.mark.parametrize("name", CASES)
ENGINES = [ef.Local(3), ef.Threads(2), Bytewise(2)]


def assert_same_bits(a, b):
    assert np.array_equal(a.x, b.x)
    for column in a.history.keys() - {"seconds"}:
        assert np.array_equal(a.history[column], b.history[column], equal_nan=True), column


@each
def test_it_works(name):
    """The loss comes down most of the way to what many steps of gradient descent reach."""
    case = CASES[name]()
    low = ef.solve(
        case["problem"], ef.DGD(), ef.Constant(0.3 if name == "plain functions" else 0.1), rounds=3000, every=3000
    )
    f = ef.solve(**case | {"rounds": 400}).history["f"]
    assert f[-1] - low.history["f"][-1] < 0.05 * (f[0] - low.history["f"][-1])


@each
def test_the_bits_are_the_same_wherever_the_clients_live_and_all_are_counted(name):
    one = ef.solve(**CASES[name](), engine=ef.Local(1))
    for engine in ENGINES:
        assert_same_bits(one, ef.solve(**CASES[name](), engine=engine))
    engine = Bytewise(3)
    by_bytes = ef.solve(**CASES[name](), engine=engine)
    problem = by_bytes.theory.problem
    up, down = setup_bits(problem)
    assert 8 * engine.up + up + ownership_bits(problem) == by_bytes.history["uplink_bits"][-1]
    assert 8 * engine.down + down == by_bytes.history["downlink_bits"][-1]


class StopError(Exception):
    """In the middle of a run."""


@each
@pytest.mark.parametrize("engine", [ef.Local(2), Bytewise(2)], ids=["Local", "Bytewise"])
def test_it_survives_a_checkpoint(name, engine, tmp_path):
    def watch(row):
        if row["round"] == 35:
            raise StopError

    case = CASES[name]()
    with pytest.raises(StopError):
        ef.solve(**case, watch=watch, checkpoint=ef.Checkpoint(tmp_path, every=10))
    given = case["problem"] if name == "plain functions" else None
    assert_same_bits(ef.solve(**CASES[name]()), ef.resume(tmp_path, engine=engine, problem=given))


def test_functions_that_are_not_there_any_more_are_asked_for(tmp_path):
    ef.solve(**CASES["plain functions"](), checkpoint=ef.Checkpoint(tmp_path))
    with pytest.raises(ValueError, match="does not hold the problem, which has functions of your own"):
        ef.resume(tmp_path)


def test_an_engine_of_processes_that_speak_through_queues():
    case = options(squares(), EF21, 0.05) | {"stepsize": ef.Automatic()}
    assert_same_bits(ef.solve(**case), ef.solve(**case, engine=Processes(2)))


def test_a_run_goes_on_in_processes_that_speak_through_queues(tmp_path):
    def watch(row):
        if row["round"] == 35:
            raise StopError

    case = options(squares(), EF21, 0.05) | {"stepsize": ef.Automatic()}
    with pytest.raises(StopError):
        ef.solve(**case, watch=watch, checkpoint=ef.Checkpoint(tmp_path, every=10), engine=Processes(2))
    assert_same_bits(ef.solve(**case), ef.resume(tmp_path, engine=Processes(3)))


def test_a_client_that_fails_in_another_process_is_told():
    bad = options(amounts(), EF21, 0.3, x0=np.full(D, -1e4))  # the Gamma loss overflows
    assert "diverged" in ef.solve(**bad, engine=Processes(2)).stopped


@ef.storable
@dataclass(frozen=True)
class Visits(ef.Stop):
    """Never stops, and notes where the run has been."""

    def start(self):
        return ()

    def next(self, state, seen):
        VISITED.append(seen.x.copy())
        return "", ()


VISITED = []


@pytest.mark.parametrize("engine", [ef.Local(1), ef.Local(3), ef.Threads(2), Bytewise(2)], ids=str)
@pytest.mark.parametrize("rule", [ef.Constant(0.1), ef.Automatic(guess=10.0)], ids=str)
def test_plain_functions_are_asked_where_the_run_is_and_nowhere_else(rule, engine):
    """Nothing is evaluated at points that the run does not visit: not before the start, not for metrics, not at the end."""
    seen = []

    def spy(i):
        f = quadratic(i)

        def spied(x):
            seen.append((i, x.copy()))
            return f(x)

        return spied

    problem = probed([spy(i) for i in range(N)], N)
    assert problem.support.sizes.tolist() == [2] * N
    seen.clear()
    VISITED.clear()
    ef.solve(problem, EF21, rule, rounds=6, x0=np.full(N, 7.0), engine=engine, stop=[Visits()])
    assert len(seen) >= N * 7
    on = [set(problem.support.features(i).tolist()) for i in range(N)]
    allowed = [{tuple(x[j] if j in on[i] else 0.0 for j in range(N)) for x in VISITED} for i in range(N)]
    assert [i for i, x in seen if tuple(x) not in allowed[i]] == []
    assert tuple(seen[0][1][[0, 1]]) == (7.0, 7.0)


def test_a_loss_without_a_bound_gets_no_step_from_a_theorem_and_no_certificate():
    problem = amounts()
    with pytest.raises(ValueError, match="Gamma has no bound on its curvature"):
        ef.solve(problem, EF21, ef.RareFeatures(), rounds=1)
    result = ef.solve(problem, EF21, ef.Constant(0.3), rounds=20)
    assert result.certificate.verdict == "not applicable"
    assert np.isfinite(result.x).all()
    assert problem.lower_bound <= result.history["f"].min()


def test_a_false_curvature_is_refused():
    """Steps would be too long, and nothing that was proved about them would be true."""
    for wrong in (0.0, -1.0, np.nan):
        with pytest.raises(ValueError, match="a bound on the second derivative must be above 0"):
            Quantile(curvature=wrong)
    A, b, clients = rows()
    for wrong in (0.05, 0.45, 0.49):
        with pytest.raises(ValueError, match=f"Quantile claims a curvature of at most {wrong}, but its derivative grows by"):
            ef.glm(A, 0.0 * b, clients, Quantile(curvature=wrong))
    for bound in (1.0, 100.0):
        with pytest.raises(ValueError, match="Gamma claims a curvature of at most"):
            ef.glm(A, np.abs(b), clients, Gamma(curvature=bound))


def test_a_false_curvature_that_nobody_refused_is_found_out_by_the_certificate():
    A, b, clients = rows()
    honest = ef.huber(A, b, clients, width=1e6)
    false = replace(honest, loss=ef.Huber(curvature=0.1, width=1e6))
    verdicts = [ef.solve(p, ef.EF21(ef.TopK(14)), ef.RareFeatures(), rounds=60).certificate.verdict for p in (honest, false)]
    assert verdicts[0] == "held"
    assert verdicts[1].startswith("violated")


def test_rules_of_other_directions_are_refused():
    with pytest.raises(ValueError, match="RareFeatures is a rule for steps along the estimate"):
        ef.solve(squares(), EF21, ef.RareFeatures(), rounds=1, direction=AdaGrad())


FILES = sorted(path for path in Path(__file__).parent.glob("*.py") if not path.name.startswith("test_"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_is_short_and_needs_nothing_but_what_is_exported(path):
    tree = ast.parse(path.read_text())
    names = [a.name for node in ast.walk(tree) if isinstance(node, ast.Import) for a in node.names]
    names += [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert not [name for name in names if name.startswith("errorfeedback.")]
    assert len(path.read_text().splitlines()) <= 45
