"""The problems are the paper's, prepared as its authors did."""

from __future__ import annotations

import gzip
import os
import struct

import numpy as np
import pytest

from errorfeedback import api as ef
from errorfeedback.experiments.figure_6 import PublishedNonconvex
from errorfeedback.experiments.recipes import MNIST, Images, Libsvm, Nonconvex, Synthetic, ThreeClients, mnist_file, read_idx
from errorfeedback.theory.analysis import xi

needs_data = pytest.mark.skipif("ERRORFEEDBACK_DATA" not in os.environ, reason="ERRORFEEDBACK_DATA names no data folder")


@needs_data
@pytest.mark.parametrize(
    ("name", "rows", "d"), [("mushrooms", 7200, 114), ("phishing", 9900, 70), ("w5a", 9600, 302), ("a9a", 32400, 125)]
)
def test_libsvm_problems_have_the_authors_rows_and_dimensions(name: str, rows: int, d: int):
    recipe = Libsvm(name, seed=0)
    problem = recipe.make()
    assert problem.n == 300
    assert problem.A.shape[0] == rows
    assert recipe.published_d == d
    assert problem.support.c == 300  # the intercept


@needs_data
def test_the_start_is_uniform_within_one_over_sqrt_of_d():
    recipe = Libsvm("phishing", seed=3)
    problem = recipe.make()
    x0 = recipe.start(problem)
    side = np.sqrt(1 / problem.width)
    assert x0.shape == (problem.width,)
    assert np.abs(x0).max() <= side
    assert np.abs(x0).max() > 0.8 * side
    np.testing.assert_array_equal(x0, recipe.start(problem))


def test_a_data_set_that_is_not_there_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("ERRORFEEDBACK_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("errorfeedback.data.known.SITE", (tmp_path / "nowhere").as_uri() + "/")
    with pytest.raises(FileNotFoundError, match="put the file named w5a"):
        Libsvm("w5a", seed=0).check()
    with pytest.raises(FileNotFoundError, match=MNIST):
        Images("mnist", 10, 4, seed=0).check()


def test_the_penalty_is_three_times_the_largest_L_i():
    plain, penalised = Synthetic(4, 0, 10, 20, 3).make(), Nonconvex(4, 0, 10, 20, 3).make()
    assert penalised.regularizer.lam == pytest.approx(3 * ef.analyse(plain).L_max)


def test_the_published_nonconvex_step_leaves_the_penalty_out_of_L_plus():
    recipe = Nonconvex(4, 0, 10, 20, 3)
    theory = ef.analyse(recipe.make(), ef.TopK(1))
    plain = ef.analyse(Synthetic(4, 0, 10, 20, 3).make())
    expected = 1 / (theory.L + plain.L_plus * np.sqrt(0.4) * xi(1 / 20))
    assert PublishedNonconvex().gamma(theory) == pytest.approx(expected)
    assert PublishedNonconvex().gamma(theory) > ef.RareFeatures(alpha="K/d").gamma(theory)


@pytest.mark.parametrize("gamma", [1e-3, 0.1, 1.0])
def test_top1_alone_multiplies_the_three_clients_by_one_plus_eleven_sixths_gamma(gamma: float):
    recipe = ThreeClients()
    result = ef.solve(recipe.make(), ef.DCGD(ef.TopK(1)), ef.Constant(gamma), rounds=5, x0=recipe.start(recipe.make()))
    np.testing.assert_allclose(result.x, np.full(3, (1 + 11 / 6 * gamma) ** 5))


def test_the_auto_encoder_starts_away_from_its_stationary_point():
    recipe = Images("digits", 10, 4, seed=0)
    problem = recipe.make()
    assert np.linalg.norm(problem.gradient(np.zeros(problem.d))) == 0
    assert np.linalg.norm(problem.gradient(recipe.start(problem))) > 0


@pytest.mark.parametrize(("suffix", "pack"), [("", bytes), (".gz", gzip.compress)])
def test_idx_files_are_found_and_read(tmp_path, monkeypatch, suffix, pack):
    pixels = np.arange(12, dtype=np.uint8)
    path = tmp_path / "sub" / (MNIST + suffix)
    path.parent.mkdir()
    path.write_bytes(pack(struct.pack(">IIII", 2051, 3, 2, 2) + pixels.tobytes()))
    monkeypatch.setenv("ERRORFEEDBACK_DATA", str(tmp_path))
    assert mnist_file() == path
    np.testing.assert_array_equal(read_idx(path), pixels.reshape(3, 4))


def test_a_file_that_is_not_idx_is_refused(tmp_path):
    path = tmp_path / MNIST
    path.write_bytes(b"x" * 20)
    with pytest.raises(ValueError, match="not an idx file of images"):
        read_idx(path)
