"""Same seed, same bits: any number of shards gives the same iterates, history and byte counts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from shutil import copytree

import numpy as np
import pytest
from discovery import METHODS, covering, fits
from problem_pairs import pair

import errorfeedback as ef
from errorfeedback.clients.order import Order
from errorfeedback.methods.node import Node

PROBLEMS = {
    "sparse logistic": lambda: pair("logistic", n=7, d=15, fill=0.2)[0],
    "softmax": lambda: pair("softmax", n=7, d=8, fill=0.3)[0],
    "dense, n > d, penalty": lambda: pair(n=7, d=4, fill=1.0, lam=0.5)[0],
    "auto-encoder": lambda: ef.autoencoder(np.random.default_rng(0).standard_normal((21, 4)), clients=7, code=2),
}


def run(problem, method, shards, stepsize=None, engine=ef.Local):
    stepsize = ef.Constant(0.01) if stepsize is None else stepsize
    x0 = np.random.default_rng(1).standard_normal(problem.width)
    return ef.solve(problem, method, stepsize, rounds=60, x0=x0, seed=3, every=7, engine=engine(shards))


def assert_same_bits(a, b):
    assert np.array_equal(a.x, b.x)
    for column in a.history.keys() - {"seconds"}:
        assert np.array_equal(a.history[column], b.history[column], equal_nan=True), column


@pytest.mark.parametrize(("method", "name"), covering(METHODS, PROBLEMS), ids=str)
def test_iterates_are_bit_identical_for_any_number_of_shards(method, name):
    problem = PROBLEMS[name]()
    if not fits(method, problem):
        return
    whole = run(problem, method, 1)
    for shards in (2, 7):
        assert_same_bits(whole, run(problem, method, shards))
    for threads in (1, 3):
        assert_same_bits(whole, run(problem, method, threads, engine=ef.Threads))


def test_adaptive_steps_are_bit_identical_too():
    problem = PROBLEMS["sparse logistic"]()
    assert_same_bits(*(run(problem, ef.EF21(ef.TopK(1)), s, ef.Adaptive()) for s in (1, 4)))


def test_another_seed_gives_other_bits():
    """Negative control: the comparison can fail."""
    problem = PROBLEMS["sparse logistic"]()
    a, b = (
        ef.solve(problem, ef.MARINA(ef.RandK(1)), ef.Constant(0.01), rounds=60, x0=np.ones(problem.width), seed=seed)
        for seed in (0, 1)
    )
    assert not np.array_equal(a.x, b.x)


def test_more_shards_than_clients_is_an_error():
    with pytest.raises(ValueError, match="shards = 8, but there are only 7 clients"):
        run(PROBLEMS["sparse logistic"](), ef.DGD(), 8)


NEW_METHOD = '''
from dataclasses import dataclass
from errorfeedback.methods.base import Memoryless

@dataclass(frozen=True)
class SignedDescent(Memoryless):
    """A method that this test made up."""
'''


def test_a_new_file_in_methods_joins_by_itself(tmp_path):
    source = Path(ef.__file__).parent
    copytree(source, tmp_path / "errorfeedback", ignore=lambda *_: ["__pycache__"])
    (tmp_path / "errorfeedback/methods/signed.py").write_text(NEW_METHOD)
    program = (
        "import errorfeedback as ef, discovery; print(ef.SignedDescent, sum('Signed' in str(m) for m in discovery.METHODS))"
    )
    path = f"{tmp_path}:{Path(__file__).parent}"
    done = subprocess.run(
        [sys.executable, "-c", program], env={"PYTHONPATH": path}, capture_output=True, text=True, check=True
    )
    assert "signed.SignedDescent" in done.stdout
    assert int(done.stdout.split()[-1]) > 3


@pytest.mark.parametrize("c", [1, 3, 20])
@pytest.mark.parametrize("loss", ["squared", "logistic", "one-hot", "softmax", "one against rest"])
def test_every_layout_is_bit_identical_for_any_number_of_shards(loss, c):
    """Blocks of uneven sizes: strips, remainders and running sums must not see where a shard begins."""
    rng = np.random.default_rng(c)
    A = rng.standard_normal((200, 70)) * (rng.random((200, 70)) < c / 20)
    A[np.arange(200), rng.integers(0, 70, 200)] = 1.0
    clients, y, kinds = rng.integers(0, 23, 200), rng.integers(0, 2, 200), rng.integers(0, 5, 200)
    make = {
        "squared": lambda: ef.least_squares(A, y, clients),
        "logistic": lambda: ef.logistic(A, y, clients),
        "one-hot": lambda: ef.logistic(A != 0, y, clients),
        "softmax": lambda: ef.softmax(A, kinds, clients),
        "one against rest": lambda: ef.glm(A, kinds, clients, ef.OneAgainstRest(outputs=5)),
    }[loss]
    a, *others = (run(make(), ef.EF21(ef.TopK(2)), shards) for shards in (1, 2, 5, 23))
    for b in others:
        assert_same_bits(a, b)


LONG = {
    "squared": ef.least_squares,
    "logistic, penalty": lambda A, y, clients: ef.logistic(A, y, clients, regularizer=ef.NonconvexPenalty(0.1)),
    "one-hot, scaled": lambda A, y, clients: ef.scaled(ef.logistic(A != 0, y, clients)),
    "softmax, penalty": lambda A, y, clients: ef.softmax(A, y, clients, regularizer=ef.NonconvexPenalty(0.1)),
    "softmax, scaled": lambda A, y, clients: ef.scaled(ef.softmax(A, y, clients)),
    "dense": lambda A, y, clients: ef.least_squares(A + 1.0, y, clients),
}


@pytest.mark.parametrize("name", LONG)
@pytest.mark.parametrize("rule", [ef.Constant(0.01), ef.Automatic()], ids=str)
def test_reading_a_long_x_ahead_changes_no_bit(name, rule, monkeypatch):
    """Shards read x one right after the other before any of them goes on, where x is too long for a near cache."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((200, 70)) * (rng.random((200, 70)) < 0.1)
    A[np.arange(200), rng.integers(0, 70, 200)] = 1.0
    problem = LONG[name](A, rng.integers(0, 2, 200), rng.integers(0, 23, 200))
    method, looked = ef.EF21(ef.TopK(1)), []
    together = run(problem, method, 5, rule)
    for module in ("glm", "scaling"):
        monkeypatch.setattr(f"errorfeedback.problems.{module}.FAR", 0)
    look = Node.read_ahead
    monkeypatch.setattr(Node, "read_ahead", lambda node, x: looked.append(look(node, x) or node._has_read))
    for engine in (ef.Local, ef.Threads):
        assert_same_bits(together, run(problem, method, 5 if engine is ef.Local else 2, rule, engine))
    assert all(looked) is (name != "dense")
    assert len(looked) >= 5 * 60


def test_an_answer_that_nobody_waited_for_is_not_taken_for_the_next_one():
    """As after an interrupt between a question and its answer."""
    problem = PROBLEMS["sparse logistic"]()
    x = np.ones(problem.d)
    session = ef.Threads(2).open(problem, ef.Setup(ef.DGD(), ef.Whole(), x, commands=False))
    session._others[0].ask(lambda part: part.values(np.zeros(problem.d)))
    assert np.array_equal(session.values(x), problem.values_at(x))
    session.close()


def test_an_error_in_a_thread_reaches_the_caller():
    problem = PROBLEMS["sparse logistic"]()
    session = ef.Threads(2).open(problem, ef.Setup(ef.DGD(), ef.Whole(), np.zeros(problem.d), commands=False))
    with pytest.raises(ValueError, match="x has shape"):
        session.round(Order(ef.Round(1, 0), np.zeros(3), None))
    assert len(session.values(np.zeros(problem.d))) == 7
    session.close()
