"""LIBSVM files: by path and by name, compressed or not, checked, and with errors that name the line."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import lzma
import os
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_svmlight_file

import errorfeedback as ef
from errorfeedback.data import decompressing, known

TEXT = "+1 1:0.5 3:2\n-1 2:1\n-1\n+1 1:-1.5 # a comment\n"
DENSE = [[0.5, 0, 2], [0, 1, 0], [0, 0, 0], [-1.5, 0, 0]]
FOLDER = os.environ.get(known.VARIABLE)
needs_data = pytest.mark.skipif(not FOLDER, reason=f"{known.VARIABLE} does not name a folder with the LIBSVM files")


@pytest.fixture
def no_network(monkeypatch, tmp_path):
    def refuse(*args, **kwargs):
        raise OSError("no network in tests")

    monkeypatch.setattr(known.urllib.request, "urlopen", refuse)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv(known.VARIABLE, str(tmp_path))


@pytest.mark.parametrize(
    ("suffix", "opener"),
    [("", open), (".gz", gzip.open), (".bz2", bz2.open), (".xz", lzma.open)],
    ids=["plain", "gz", "bz2", "xz"],
)
def test_files_are_read_compressed_or_not(tmp_path, suffix, opener):
    path = tmp_path / f"data{suffix}"
    with opener(path, "wb") as file:
        file.write(TEXT.encode())
    A, y = ef.load(path)
    assert A.toarray().tolist() == DENSE
    assert y.tolist() == [1, -1, -1, 1]


def test_the_number_of_features_can_be_fixed(tmp_path):
    (tmp_path / "data").write_text(TEXT)
    assert ef.load(tmp_path / "data", features=5).A.shape == (4, 5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 1:1\n1 2:x\n", "line 2: '2:x': the value is not a finite number"),
        ("1 1:1\n\n1 7\n", "line 3: '7' is not of the form index:value"),
        ("yes 1:1\n", "line 1: the label 'yes' is not a finite number"),
        ("1 3:1 2:1\n", "line 1: index 2 after 3: indices must ascend"),
        ("", "the file has no rows"),
        ("1 99999999999:1\n", "line 1: index '99999999999' is too large"),
    ],
)
def test_a_malformed_file_gives_an_error_with_file_and_line(tmp_path, text, message):
    (tmp_path / "bad").write_text(text)
    with pytest.raises(ValueError, match=f"bad.*{message}"):
        ef.load(tmp_path / "bad")


def test_too_many_features_name_the_line(tmp_path):
    (tmp_path / "bad").write_text("1 1:1\n1 5:1\n")
    with pytest.raises(ValueError, match="line 2: an index is above the 3 features"):
        ef.load(tmp_path / "bad", features=3)


def test_a_truncated_archive_is_a_clear_error(tmp_path):
    whole = gzip.compress(TEXT.encode() * 10_000)
    (tmp_path / "data.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"data.gz: the compressed file is damaged after [\d,]+ bytes"):
        ef.load(tmp_path / "data.gz")


@pytest.mark.usefixtures("no_network")
def test_an_unknown_name_or_a_folder_is_a_clear_error(tmp_path):
    with pytest.raises(FileNotFoundError, match="nosuch: no such file, and not a known data set"):
        ef.load("nosuch")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        ef.load(tmp_path)


@pytest.mark.usefixtures("no_network")
def test_a_known_name_that_is_nowhere_says_where_it_was_looked_for(tmp_path):
    with pytest.raises(
        FileNotFoundError, match=r"mushrooms is not in the folder of ERRORFEEDBACK_DATA .* put the file named mushrooms"
    ):
        ef.load("mushrooms")
    assert not any(p.suffix == ".part" for p in tmp_path.rglob("*"))


@pytest.mark.usefixtures("no_network")
def test_a_file_with_another_checksum_is_refused_by_name_but_read_by_path(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "w5a").write_text(TEXT)
    with pytest.raises(ValueError, match=r"w5a: sha256 is .* but w5a as LIBSVM distributes it has 50599ff7"):
        ef.load("w5a")
    assert ef.load(tmp_path / "sub" / "w5a").A.shape == (4, 3)


@pytest.mark.usefixtures("no_network")
def test_a_download_is_checked_and_kept(tmp_path, monkeypatch):
    digest = hashlib.sha256(TEXT.encode()).hexdigest()
    monkeypatch.setitem(known.KNOWN, "toy", known.Known(4, 3, digest))
    asked = []

    def answer(url, timeout):
        asked.append(url)
        return io.BytesIO(TEXT.encode())

    monkeypatch.setattr(known.urllib.request, "urlopen", answer)
    for _ in range(2):
        assert ef.load("toy").A.shape == (4, 3)
    assert asked == [known.SITE + "toy"]
    assert (tmp_path / "cache/errorfeedback/toy").is_file()


def test_a_missing_data_folder_is_named(monkeypatch):
    monkeypatch.setenv(known.VARIABLE, "/no/such/folder")
    with pytest.raises(FileNotFoundError, match="ERRORFEEDBACK_DATA=/no/such/folder: no such folder"):
        ef.load("w5a")


SHAPES = {
    "a9a": (32561, 123, 451592, {1: 7841, -1: 24720}),
    "a9a.t": (16281, 123, 225731, {1: 3846, -1: 12435}),
    "mushrooms": (8124, 112, 170604, {1: 3916, 2: 4208}),
    "phishing": (11055, 68, 331650, {0: 4898, 1: 6157}),
    "w5a": (9888, 300, 115120, {1: 281, -1: 9607}),
}
"""The table of LIBSVM's page: rows, features, nonzeros, labels."""


@needs_data
@pytest.mark.parametrize("name", SHAPES)
def test_the_papers_data_sets_are_what_libsvm_distributes(name):
    rows, features, nonzeros, labels = SHAPES[name]
    A, y = ef.load(name)
    assert A.shape == (rows, features)
    assert A.nnz == nonzeros
    assert dict(zip(*(v.tolist() for v in np.unique(y, return_counts=True)), strict=True)) == labels
    assert Path(FOLDER) in ef.load(name).path.parents


@needs_data
def test_the_papers_split_of_w5a():
    """300 clients, 32 rows each, 288 of 9888 rows discarded (theory.md: 9600 rows are used)."""
    problem = ef.logistic(*ef.load("w5a"), ef.Shuffled(300), intercept=True)
    assert problem.A.shape[0] == 9600
    assert problem.discarded_rows == 288
    assert problem.support.c == 300  # the intercept alone makes c = n


@pytest.mark.parametrize("size", [1, 7, 64])
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_file_is_the_same_in_pieces_of_any_size(tmp_path, monkeypatch, size, suffix):
    """Also without an end of its last line, with lines of Windows, with query numbers."""
    text = "+1 qid:3 1:0.5 3:2\r\n-1 2:1\n\n-1\n+1 1:-1.5e-3 # 7:7\n-1 2:.5 4:1."
    path = tmp_path / f"data{suffix}"
    path.write_bytes(gzip.compress(text.encode()) if suffix else text.encode())
    monkeypatch.setattr(decompressing, "CHUNK", size)
    A, y = ef.load(path)
    assert y.tolist() == [1, -1, -1, 1, -1]
    assert A.toarray().tolist() == [[0.5, 0, 2, 0], [0, 1, 0, 0], [0, 0, 0, 0], [-1.5e-3, 0, 0, 0], [0, 0.5, 0, 1]]


@pytest.mark.parametrize("seed", range(3))
def test_the_reader_agrees_with_scikit_learns(tmp_path, seed):
    rng = np.random.default_rng(seed)
    rows = [rng.choice(50, size=rng.integers(0, 9), replace=False) for _ in range(200)]
    lines = [
        " ".join([str(rng.integers(-1, 2)), *(f"{j}:{float(rng.standard_normal())!r}" for j in sorted(row))]) for row in rows
    ]
    (tmp_path / "data").write_text("\n".join(lines))
    A, y = load_svmlight_file(tmp_path / "data", zero_based=True)
    ours = ef.load(tmp_path / "data", index_base=0)
    assert np.array_equal(ours.A.toarray(), A.toarray())
    assert np.array_equal(ours.y, y)
