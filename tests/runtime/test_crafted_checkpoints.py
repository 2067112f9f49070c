"""A checkpoint that somebody made on purpose, with checksums that fit, goes on or is a sentence."""

from __future__ import annotations

import hashlib
import json
import logging
import resource
import shutil
from dataclasses import replace

import numpy as np
import pytest
from crafting import archive, crafted_array, crafted_tree, text_of
from problem_pairs import pair
from scipy import sparse

import errorfeedback as ef
from errorfeedback.problems.scaling import scaled
from errorfeedback.runtime.checkpointing import identity
from errorfeedback.runtime.soundness import check_problem
from errorfeedback.storage.files import DIGEST, FORMAT, HEAD, DamagedError, archived, content, read, write

COUNT = 300


class StopError(Exception):
    pass


def stop(row):
    if row["round"] >= 13:
        raise StopError


def stop_late(row):
    """Where the number of rounds was changed, a run may be long."""
    if row["round"] >= 30:
        raise StopError


@pytest.fixture(autouse=True)
def room():
    """Who asks for more memory believed a number that somebody made up."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Broken-off runs of a few kinds."""
    folder = tmp_path_factory.mktemp("runs")
    glm = pair("logistic", n=4, d=8, fill=0.5)[0]
    kinds = {
        "automatic": (scaled(glm), ef.EF21(ef.TopK(1)), ef.Automatic(), ef.ElasticNet(l1=0.01, l2=0.1)),
        "adaptive": (glm, ef.EF21(ef.TopK(1)), ef.Adaptive(), None),
        "marina": (pair("squared", n=4, d=8, fill=0.5)[0], ef.MARINA(ef.RandK(1), p=0.5), ef.Constant(0.01), None),
        "autoencoder": (ef.autoencoder(np.ones((6, 3)), clients=3, code=1), ef.EF14(ef.TopK(2)), ef.Constant(0.01), None),
    }
    for name, (problem, method, rule, prox) in kinds.items():
        rules = [ef.GradientMapping(1e-9)]
        options = {"rounds": 20, "prox": prox, "stop": rules, "watch": stop}
        with pytest.raises(StopError):
            ef.solve(problem, method, rule, **options, checkpoint=ef.Checkpoint(folder / name, every=5))
    return sorted(folder.iterdir())


def sealed(arrays, **how):
    packed = archive(arrays, **how)
    return HEAD % FORMAT + hashlib.sha256(packed).digest() + packed


def crafted(found, rng):
    """The file with one place changed, and what was done."""
    arrays = archived(found[len(HEAD % FORMAT) + DIGEST :])
    *names, text = arrays
    kind = rng.choice(["tree", "array", "drop", "declared", "compressed"], p=[0.62, 0.3, 0.04, 0.02, 0.02])
    if kind == "tree" or not names:
        tree, what = crafted_tree(json.loads(arrays[text].tobytes()), rng)
        return sealed({**arrays, text: np.frombuffer(text_of(tree), dtype=np.uint8)}), what
    name = str(rng.choice(names))
    if kind == "array":
        changed, what = crafted_array(arrays[name], rng)
        return sealed({**arrays, name: changed}), what
    if kind == "drop":
        del arrays[name]
    return sealed(arrays, compressed=kind == "compressed", declared=name if kind == "declared" else None), f"{kind} {name}"


def vouched(place):
    """Every file says that it belongs to the others, as a careful forger would have it."""
    try:
        run = read(place / "run.ef")
        who = identity(read(place / "problem.ef"), run["options"])
        for path in (place / "run.ef", *place.glob("round-*.ef")):
            write(path, {**read(path), "identity": who})
    except Exception:  # what cannot be read cannot be vouched for
        return


@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")  # numpy says what it discards
def test_a_crafted_checkpoint_goes_on_or_is_a_sentence(runs, tmp_path, caplog):
    """All files of a checkpoint folder but the lock; only the newest of two rounds is changed, or the older one is gone."""
    caplog.set_level(logging.CRITICAL)
    went_on = 0
    for seed in range(COUNT):
        rng = np.random.default_rng(seed)
        place = tmp_path / str(seed)
        shutil.copytree(runs[seed % len(runs)], place)
        *older, newest = sorted(place.glob("round-*.ef"))
        for path in older[: rng.integers(0, 2)]:
            path.unlink()
        target = [newest, newest, place / "run.ef", place / "problem.ef"][rng.integers(4)]
        made, what = crafted(target.read_bytes(), rng)
        target.write_bytes(made)
        vouched(place)
        try:
            ef.resume(place, watch=stop_late)
            went_on += 1
        except StopError:
            went_on += 1
        except ValueError as error:
            what = f"{what}: {error}"
        except Exception as error:
            raise AssertionError(f"seed {seed}, {target.name}, {what}") from error
        shutil.rmtree(place)
    assert COUNT / 20 < went_on < 0.8 * COUNT  # an older checkpoint, or a change that does no harm


def test_a_crafted_file_is_refused_with_a_sentence(tmp_path):
    for seed in range(COUNT):
        rng = np.random.default_rng(seed)
        value = {"x": np.arange(5.0), "rule": ef.Automatic(), "many": [(1, None, np.arange(3)), {"a": ef.TopK(2)}]}
        made, what = crafted(content(value), rng)
        (tmp_path / "f.ef").write_bytes(made)
        try:
            read(tmp_path / "f.ef")
        except DamagedError as error:
            what = str(error)
            assert len(what) < 600, what


@pytest.mark.parametrize("indptr", [[0, 9, -1], [0, 9, 0], [0, 2**63 - 1, -(2**63)]])
def test_a_matrix_whose_rows_end_before_they_begin_is_refused(tmp_path, indptr):
    """scipy's own check lets these pass, and a kernel that follows them reads and writes where nothing of it lies."""
    matrix = sparse.csr_array(np.ones((2, 3)))
    *arrays, text = archived(content(matrix)[len(HEAD % FORMAT) + DIGEST :]).items()
    changed = {name: np.array(indptr) if len(array) == 3 else array for name, array in arrays}
    (tmp_path / "f.ef").write_bytes(sealed({**changed, **dict([text])}))
    with pytest.raises(DamagedError, match="indptr must start at 0 and not fall"):
        read(tmp_path / "f.ef")


def test_rows_of_unsigned_numbers_must_ascend_too():
    """Their differences are never below 0."""
    problem = pair("squared", n=4, d=8, fill=0.5)[0]
    rows = problem.rows.astype(np.uint32)
    check_problem(replace(problem, rows=rows))
    rows[[1, 2]] = rows[[2, 1]]
    with pytest.raises(ValueError, match="the rows in another order"):
        check_problem(replace(problem, rows=rows))
