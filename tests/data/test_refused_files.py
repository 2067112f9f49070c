"""What is wrong with a file is a sentence that names it, and the line or the column."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zipfile

import numpy as np
import pyarrow as pa
import pytest
from commands import call, plain
from pyarrow import parquet
from scipy import sparse

import errorfeedback as ef
from errorfeedback.data.encoding import Category, Columns, Indices, Number, Positions
from errorfeedback.data.read import read
from errorfeedback.data.reading import Missing, Reading

CSV = "size,colour,target\n1.5,red,yes\n2,blue,no\n"


def refused(path, message, content=None, reading=None, encoding=None):
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ValueError, match=message) as error:
        read(str(path), reading, encoding=encoding)
    assert path.name in str(error.value)


def npz(**changes):
    made = sparse.csr_array(np.array([[1.0, 0, 2], [0, 3, 1]]))
    parts = {"data": made.data, "indices": made.indices, "indptr": made.indptr, "shape": np.array([2, 3])}
    file = io.BytesIO()
    np.savez(file, **{"format": np.array(b"csr"), **parts, **changes})
    return file.getvalue()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1 1:nan", "'1:nan': the value is not a finite number"),
        ("1 1:inf", "'1:inf': the value is not a finite number"),
        ("1 1:1e999", "'1:1e999': the value is not a finite number"),
        ("1 1:1_0", "'1:1_0': the value is not a finite number"),
        ("nan 1:1", "the label 'nan' is not a finite number"),
        ("1_0 1:1", "the label '1_0' is not a finite number"),
        ("1 1_0:1", "'1_0:1' is not of the form index:value"),
        ("1 -1:1", "'-1:1' is not of the form index:value"),
        ("1 2:1 2:1", "index 2 after 2: indices must ascend"),
        ("1 1:1 qid:3", "'qid:3' is not of the form index:value"),
    ],
)
def test_what_is_no_number_in_a_libsvm_file_gets_file_and_line(tmp_path, line, message):
    refused(tmp_path / "data", f"data, line 3: {message}", f"1 1:1\n\n{line}\n1 1:1\n")


def test_a_damaged_gz_is_a_sentence(tmp_path):
    whole = gzip.compress(b"1 1:1\n" * 10_000)
    for place in (10, len(whole) // 2):  # zlib.error, a checksum
        broken = whole[:place] + bytes([whole[place] ^ 255]) + whole[place + 1 :]
        for name in ("data.gz", "data.csv.gz"):
            refused(tmp_path / name, "the compressed file is damaged", broken)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"PK\x03\x04 and no more", "not a matrix saved by scipy.sparse.save_npz, or damaged"),
        (b"", "the file is empty"),
        (npz(indices=np.array([0, 2, 99, 2])), "or damaged"),
        (npz(indices=np.array([0, 2, -5, 2])), "or damaged"),
        (npz(indices=np.array([0.0, 2.0, 1.5, 2.0])), "indices.npy has float64"),
        (npz(indptr=np.array([0, 9, 4])), "or damaged"),
        (npz(indptr=np.array([0, -1, 4])), "or damaged"),
        (npz(indptr=np.array([0, 9, -5])), "indptr must start at 0 and not fall"),
        (npz(indptr=np.array([0, 9, 0])), "indptr must start at 0 and not fall"),
        (npz(indptr=np.array([0, 10**6, 9, -5]), format=np.array(b"csc")), "indptr must start at 0 and not fall"),
        (npz(indptr=np.array([0, 2**63 - 1, -(2**63), 4]), format=np.array(b"csc")), "must start at 0 and not fall"),
        (npz(indices=np.array([0, 2, 99, 2]), format=np.array(b"csc"), shape=np.array([3, 2])), "or damaged"),
        (npz(indices=np.array([0, 2, -5, 2]), format=np.array(b"csc"), shape=np.array([3, 2])), "or damaged"),
        (npz(data=np.array(["a", "b", "c", "d"])), "data.npy has <U1"),
        (npz(data=np.array([1.0, np.nan, 1.0, 1.0])), "nan in row 0, column 2; entries must be finite"),
        (npz(shape=np.array([2**40, 3]), indptr=np.array([0, 4])), "or damaged"),
    ],
)
def test_npz_is_checked_before_anybody_follows_an_index(tmp_path, content, message):
    """Out of range was a segmentation fault, -5 was accepted."""
    refused(tmp_path / "m.npz", message, content)


def test_an_array_that_claims_more_than_it_has_is_refused_before_memory_is_asked_for(tmp_path):
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(npz())) as whole, zipfile.ZipFile(file, "w") as crafted:
        for name in whole.namelist():
            crafted.writestr(
                name,
                whole.read(name).replace(b"(4,), }         ", b"(4000000000,), }")
                if name == "data.npy"
                else whole.read(name),
            )
    refused(tmp_path / "m.npz", "data.npy claims 32,000,000,000 bytes and has 32", file.getvalue())


def test_a_whole_npz_is_read_in_every_format(tmp_path):
    dense = np.array([[1.0, 0, 2, 1], [0, 3, 1, 0]])
    for form in ("csr", "csc", "coo", "bsr", "dia"):
        sparse.save_npz(tmp_path / "m.npz", sparse.coo_array(dense).asformat(form))
        found = read(str(tmp_path / "m.npz"), Reading(target="1"))
        assert found.A.toarray().tolist() == dense[:, [0, 2, 3]].tolist()
        assert found.y.tolist() == [0, 3]
        assert list(found.encoding.names) == ["column 0", "column 2", "column 3"]


def test_the_target_of_an_npz_is_a_number_of_a_column(tmp_path):
    sparse.save_npz(tmp_path / "m.npz", sparse.csr_array(np.eye(3)))
    refused(tmp_path / "m.npz", "target = 'price', but the columns of m.npz have no names", reading=Reading(target="price"))
    refused(tmp_path / "m.npz", "target column 3, but the matrix has 3 columns", reading=Reading(target="3"))
    refused(tmp_path / "m.npz", "3 columns, but the model was trained with 7 features", encoding=Positions(7, 7))


@pytest.mark.parametrize(
    ("name", "pack"), [("t.csv.gz", gzip.compress), ("t.csv.bz2", bz2.compress), ("t.csv.xz", lzma.compress)]
)
def test_compressed_tables_are_read(tmp_path, name, pack):
    (tmp_path / name).write_bytes(pack(CSV.encode()))
    assert read(str(tmp_path / name)).A.toarray().tolist() == [[1.5, 0, 1], [2, 1, 0]]
    (tmp_path / name.replace("csv", "tsv")).write_bytes(pack(CSV.replace(",", "\t").encode()))
    assert read(str(tmp_path / name.replace("csv", "tsv"))).A.toarray().tolist() == [[1.5, 0, 1], [2, 1, 0]]


def test_what_a_file_may_expand_to_is_limited(tmp_path):
    bomb = gzip.compress(b"1 1:1\n" * 200_000)
    (tmp_path / "data.gz").write_bytes(bomb)
    small = Reading(limit=1_000_000)
    help_ = "expands to more than 0.001 GB; if you trust it, allow more: --expand-limit 0.005GB"
    refused(tmp_path / "data.gz", help_, reading=small)
    refused(tmp_path / "t.csv.gz", "expands to more than", gzip.compress(b"a,target\n" + b"1,2\n" * 500_000), small)
    sparse.save_npz(tmp_path / "m.npz", sparse.csr_array((10, 200_000)))
    refused(tmp_path / "m.npz", "expands to more than", reading=small)
    parquet.write_table(pa.table({"a": np.zeros(500_000), "target": np.zeros(500_000)}), tmp_path / "t.parquet")
    refused(tmp_path / "t.parquet", "expands to more than", reading=small)
    done = call("train", tmp_path / "data.gz", "--out", tmp_path / "r", "--expand-limit", "1MB")
    assert done.exit_code == 2
    assert "--expand-limit" in plain(done)
    assert ef.load(tmp_path / "data.gz").A.shape == (200_000, 1)


def test_a_table_of_another_shape_than_csv_promises(tmp_path):
    refused(tmp_path / "t.csv", "several columns are called 'a'; rename", "a,b,a,target\n1,2,3,4\n")
    refused(tmp_path / "t.csv", "t.csv, line 3: not utf-8", "a,target\n1,x\n2,caf\xe9\n".encode("latin-1"))
    refused(tmp_path / "t.csv", "t.csv, line 1: not utf-8", "caf\xe9,target\n1,x\n".encode("latin-1"))
    refused(tmp_path / "t.csv", "Expected 2 columns, got 3", "a,target\n1,x\n1,x,2\n")
    refused(tmp_path / "t.csv", "the first line of a table must name its columns", "1.5,2.5,x\n1.7,2.2,y\n")
    refused(tmp_path / "t.csv", "the table has no rows", "a,target\n")
    refused(
        tmp_path / "t.csv", r"t.csv: column 'target' has 'x\\x00'; text cannot end in a zero byte", "a,target\n1,x\0\n2,y\n"
    )
    (tmp_path / "t.csv").write_bytes("a,target\n1,x\n2,caf\xe9\n".encode("latin-1"))
    assert read(str(tmp_path / "t.csv"), Reading(charset="latin-1")).y.tolist() == ["x", "café"]
    with pytest.raises(ValueError, match="charset = 'klingon'"):
        Reading(charset="klingon")


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (["$12", "$13.50", "$9"], r"amounts with a sign \('\$12'\); write the numbers alone"),
        (["12%", "3.5 %", "9%"], "amounts with a sign"),
        (['"1,200"', '"1,300"', "900"], "numbers with commas .*write them without, or --decimal ,"),
        (['"1,25"', '"1,5"', "900"], "numbers with a decimal comma"),
        (["2020-01-31", "2020-02-31", "2020-03-31"], r"looks like dates \('2020-01-31'\), but has '2020-02-31' in row 2"),
        (["31.01.2020", "1.2.2021", "3.12.2022"], r"dates in another form than 2020-01-31 .*--date-format %d\.%m\.%Y"),
        ([f"{60 + k}.5 kg" for k in range(30)], r"numbers with a unit \('60.5 kg'\); write the numbers alone"),
    ],
)
def test_what_was_not_meant_as_text_is_not_taken_as_text(tmp_path, cells, message):
    rows = "".join(f"{cell},{'xy'[k % 2]}\n" for k, cell in enumerate(cells))
    refused(
        tmp_path / "t.csv", f"column 'a' looks like {message}" if "looks" not in message else message, "a,target\n" + rows
    )


def test_all_columns_that_are_refused_are_named_at_once(tmp_path):
    says = r"column 'a' looks like amounts with a sign .*\nalso column 'c' looks like dates in another form"
    refused(tmp_path / "t.csv", says, "a,b,c,target\n$1,1,1.2.2020,x\n$2,2,3.4.2021,y\n")


@pytest.mark.parametrize("cells", [["2wd", "4wd", "2wd"], [f"{1000 + k} {'ABCDEFGH'[k % 8]}X" for k in range(30)]])
def test_names_that_begin_with_numbers_are_text(tmp_path, cells):
    rows = "".join(f"{cell},{'xy'[k % 2]}\n" for k, cell in enumerate([*cells, *cells]))
    (tmp_path / "t.csv").write_text("a,target\n" + rows)
    assert read(str(tmp_path / "t.csv")).A.shape == (2 * len(cells), len(set(cells)))


def test_a_table_with_semicolons_is_read_and_a_decimal_comma_is_asked_for(tmp_path):
    (tmp_path / "t.csv").write_text(CSV.replace(",", ";"))
    assert read(str(tmp_path / "t.csv")).A.toarray().tolist() == [[1.5, 0, 1], [2, 1, 0]]
    refused(tmp_path / "t.csv", "decimal comma .*--decimal ,", "a;target\n1,5;x\n2;y\n")
    assert read(str(tmp_path / "t.csv"), Reading(decimal=",")).A.toarray().tolist() == [[1.5], [2]]
    refused(tmp_path / "t.csv", "',' separates the columns, so it cannot be the decimal", CSV, Reading(decimal=","))
    (tmp_path / "t.csv").write_text("a|target\n1|x\n2|y\n")
    assert read(str(tmp_path / "t.csv"), Reading(separator="|")).A.toarray().tolist() == [[1], [2]]


@pytest.mark.parametrize(
    ("encoding", "trained"),
    [
        (Indices(3, base=1), "a LIBSVM file"),
        (Positions(3, 3), "an .npz matrix"),
        (Columns((Number("size"), Category("colour", ("red",)))), "a table with named columns"),
    ],
)
def test_a_file_of_another_kind_than_the_training_data_is_refused(tmp_path, encoding, trained):
    (tmp_path / "t.csv").write_text(CSV)
    (tmp_path / "t.svm").write_text("1 1:1 3:1\n")
    sparse.save_npz(tmp_path / "t.npz", sparse.csr_array(np.eye(3)))
    for name, kind in (("t.csv", Columns), ("t.svm", Indices), ("t.npz", Positions)):
        if isinstance(encoding, kind):
            read(str(tmp_path / name), Reading(missing=Missing.IMPUTE), encoding=encoding)
        else:
            refused(tmp_path / name, f"{name} is .*, but the model was trained on {trained}", encoding=encoding)


def test_validation_and_prediction_on_another_kind_are_a_sentence(tmp_path):
    (tmp_path / "train").write_text("1 1:1 3:1\n-1 2:1\n" * 10)
    (tmp_path / "t.csv").write_text(CSV)
    done = call("train", tmp_path / "train", "--valid", tmp_path / "t.csv", "--out", tmp_path / "no", "--quiet")
    assert done.exit_code == 2
    assert "t.csv is a table with named columns (.csv, .tsv, .parquet), but the model was trained on a LIBSVM" in plain(done)
    assert call("train", tmp_path / "train", "--out", tmp_path / "run", "--quiet", "--rounds", 5).exit_code == 0
    for verb in ("predict", "evaluate"):
        done = call(verb, tmp_path / "run", tmp_path / "t.csv")
        assert done.exit_code == 2
        assert "but the model was trained on a LIBSVM file" in plain(done)


def test_options_about_columns_need_columns_with_names(tmp_path):
    (tmp_path / "data").write_text("1 1:1\n-1 2:1\n")
    refused(tmp_path / "data", "data has no columns with names, so columns to drop", reading=Reading(drop=("Id",)))
    refused(tmp_path / "data", "client column = 'shop' .*--groups", reading=Reading(client_column="shop"))
    refused(tmp_path / "data", "first word of every line", reading=Reading(target="price"))
