"""Rows only where they belong: a model from parts of the data on any number of ranks is the model of one process."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
from launching import ENVIRONMENT, MPIEXEC, TIMEOUT, mpiexec, needs_mpi, told

from errorfeedback.data.parts import share
from errorfeedback.problems.conversation import Seat


@pytest.fixture
def parts(tmp_path):
    """Tables with numbers and words; the words of a column are not the same in every file."""
    rng = np.random.default_rng(0)
    folder = tmp_path / "parts"
    folder.mkdir()
    for k in range(5):
        lines = ["size,colour,shop,target"]
        for _ in range(12):
            colour = ["red", "green", "blue", "grey", "pink"][rng.integers(0, k + 1)]
            size = rng.standard_normal()
            lines.append(f"{size:.3f},{colour},{rng.integers(0, 2)},{int(size + (colour == 'red') > 0.5)}")
        (folder / f"part-{k}.csv").write_text("\n".join(lines) + "\n")
    return folder


def train(data, out, *options, ranks=0):
    command = [sys.executable, "-m", "errorfeedback", "train", str(data), "--out", str(out), "--quiet", "--rounds", "25"]
    if ranks:
        command = [MPIEXEC, "-n", str(ranks), *command, "--engine", "mpi"]
    command += options
    return subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, timeout=TIMEOUT, check=False)


def model(folder):
    with np.load(folder / "model.npz") as file:
        found = {name: file[name].tolist() for name in file.files if file[name].dtype.kind == "f"}
    history = json.loads((folder / "history.json").read_text())
    return found, json.dumps({name: column for name, column in history.items() if name != "seconds"})


@needs_mpi
def test_a_folder_of_parts_gives_the_same_model_on_any_number_of_ranks(parts, tmp_path):
    for ranks in (0, 1, 3):
        done = train(parts, tmp_path / str(ranks), "--client-column", "shop", ranks=ranks)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "clients: 10" in done.stdout
        assert "rows: 60" in done.stdout
        assert model(tmp_path / "0") == model(tmp_path / str(ranks))


@needs_mpi
def test_a_file_is_handed_out_by_rank_0(parts, tmp_path):
    for name, count in (("one", 0), ("many", 2)):
        done = train(parts / "part-4.csv", tmp_path / name, "--clients", "6", ranks=count)
        assert done.returncode == 0, done.stdout + done.stderr
    assert model(tmp_path / "one") == model(tmp_path / "many")


@needs_mpi
def test_a_part_that_cannot_be_read_ends_the_job(parts, tmp_path):
    (parts / "part-4.csv").write_text("size,colour,shop,target\n1.0,red,,1\n")
    done = train(parts, tmp_path / "out", ranks=2)
    assert done.returncode != 0
    assert "errorfeedback: rank 1 failed: ValueError" in done.stderr
    assert "part-4.csv: values are missing" in done.stderr


@needs_mpi
def test_every_rank_gives_its_own_rows_to_an_estimator():
    told(mpiexec(4, "spread"), 4, "same model")


@needs_mpi
def test_such_a_run_is_resumed_on_another_number_of_ranks(tmp_path):
    done = mpiexec(3, "spread_fail", tmp_path)
    assert "rank 2 (clients 6 to 8) died" in done.stderr
    told(mpiexec(2, "spread_resume", tmp_path), 2, "same model")


def test_files_are_shared_out_in_order_and_evenly():
    for work in ([5, 5, 5, 5], [100, 1, 1, 1], [1, 1, 1, 100], [0, 0, 0, 0]):
        ends = [share(work, Seat(rank, 3)) for rank in range(3)]
        assert [lo for lo, _ in ends] == [0] + [hi for _, hi in ends[:-1]]
        assert ends[-1][1] == 4
        assert all(lo < hi for lo, hi in ends)
    assert [share([5, 5, 5, 5], Seat(rank, 2)) for rank in range(2)] == [(0, 2), (2, 4)]
