"""Same seed, same bits: any number of shards gives the same iterates, history and byte counts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from shutil import copytree

import numpy as np
import pytest
from discovery import METHODS
from problem_pairs import pair

import errorfeedback as ef

PROBLEMS = {
    "sparse logistic": lambda: pair("logistic", n=7, d=15, fill=0.2)[0],
    "dense, n > d, penalty": lambda: pair(n=7, d=4, fill=1.0, lam=0.5)[0],
    "auto-encoder": lambda: ef.autoencoder(np.random.default_rng(0).standard_normal((21, 4)), clients=7, code=2),
}


def run(problem, method, shards, stepsize=None):
    stepsize = ef.Constant(0.01) if stepsize is None else stepsize
    x0 = np.random.default_rng(1).standard_normal(problem.width)
    return ef.solve(problem, method, stepsize, rounds=60, x0=x0, seed=3, every=7, engine=ef.Local(shards=shards))


def assert_same_bits(a, b):
    assert np.array_equal(a.x, b.x)
    for column in a.history.keys() - {"seconds"}:
        assert np.array_equal(a.history[column], b.history[column], equal_nan=True), column


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("method", METHODS, ids=str)
def test_iterates_are_bit_identical_for_any_number_of_shards(method, name):
    problem = PROBLEMS[name]()
    whole = run(problem, method, 1)
    for shards in (2, 3, 7):
        assert_same_bits(whole, run(problem, method, shards))


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
