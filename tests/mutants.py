"""Data files with something wrong in them, and readers so literal that they can be believed.

`python tests/mutants.py --count 2000` reads that many damaged files with the package. Each must give rows, or a ValueError
or OSError with a sentence; and rows that are accepted must be those that the literal reader of this file finds. With
`--commands` each goes through train and predict on the command line, which must end with a model or with a sentence.
"""

from __future__ import annotations

import argparse
import bz2
import csv
import gzip
import io
import resource
import signal
import sys
import tempfile
import time
import traceback
import zipfile
from collections import Counter
from datetime import date, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import csv as arrow_csv
from pyarrow import parquet
from scipy import sparse
from typer.testing import CliRunner

from errorfeedback.cli.app import app
from errorfeedback.data.encoding import Category
from errorfeedback.data.read import read
from errorfeedback.data.reading import Missing, Reading

SECONDS = 20
"""A file that takes longer than that hangs."""
READING = Reading(missing=Missing.IMPUTE, limit=50_000_000)
TOKENS = [b"nan", b"inf", b"-1", b"1_0", b":", b",", b";", b'"', b"\n", b"\r", b"\x00", b"\xff", b"\xe9", b"#", b" ", b"\t"]
TOKENS += [
    b"1e999",
    b"99999999999999999999",
    b"0:1",
    b"qid:3",
    b"+",
    b".",
    b"0x1f",
    b"NA",
    b"2020-02-30",
    b"\xef\xbb\xbf",
    b"e5",
]
NULLS = {"", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "N/A", "NA", "NULL"}
NULLS |= {"NaN", "n/a", "nan", "null"}
"""What pyarrow documents as missing."""


# What is damaged.


def libsvm_text(rng):
    base = int(rng.integers(0, 2))
    lines = []
    for _ in range(12):
        indices = np.flatnonzero(rng.random(9) < 0.5) + base
        line = " ".join([f"{rng.choice([-1, 1])}", *(f"{j}:{rng.standard_normal():.3g}" for j in indices)])
        lines.append(line + (" # so" if rng.random() < 0.1 else ""))
    return "\n".join(lines).encode() + b"\n"


def csv_text(rng):
    lines = ["size,colour,joined,ok,target"]
    for _ in range(24):
        size = "" if rng.random() < 0.1 else f"{rng.standard_normal():.3g}"
        colour = rng.choice(["red", "green", '"light, blue"', "grün", ""], p=[0.3, 0.3, 0.2, 0.1, 0.1])
        joined = f"20{rng.integers(10, 30)}-0{rng.integers(1, 9)}-11"
        lines.append(f"{size},{colour},{joined},{rng.integers(0, 2)},{rng.choice(['y', 'n'])}")
    return "\n".join(lines).encode() + b"\n"


def npz_arrays(rng):
    dense = np.column_stack([rng.standard_normal((9, 5)) * (rng.random((9, 5)) < 0.4), np.arange(9) % 2])
    made = sparse.coo_array(dense).asformat(str(rng.choice(["csr", "csc", "coo"])))
    file = io.BytesIO()
    sparse.save_npz(file, made, compressed=bool(rng.integers(0, 2)))
    return file.getvalue()


def parquet_table(rng):
    table = arrow_csv.read_csv(io.BytesIO(csv_text(rng)))
    file = io.BytesIO()
    parquet.write_table(table, file, write_page_checksum=True, compression=str(rng.choice(["snappy", "none", "gzip"])))
    return file.getvalue()


# How.


def bytes_mutated(content, rng):
    """One to three small accidents."""
    found = bytearray(content)
    for _ in range(int(rng.choice([1, 2, 3], p=[0.7, 0.2, 0.1]))):
        place = int(rng.integers(0, max(len(found), 1)))
        length = int(rng.integers(1, 9))
        accidents = [
            lambda p, n: found.__setitem__(slice(p, p + 1), bytes([found[p] ^ (1 << int(rng.integers(0, 8)))])),
            lambda p, n: found.__delitem__(slice(p, p + n)),
            lambda p, n: found.__setitem__(slice(p, p), found[p : p + n]),
            lambda p, n: found.__setitem__(slice(p, p), TOKENS[int(rng.integers(0, len(TOKENS)))]),
            lambda p, n: found.__setitem__(slice(p, p + n), TOKENS[int(rng.integers(0, len(TOKENS)))]),
            lambda p, n: found.__setitem__(slice(p, p + n), rng.bytes(n)),
            lambda p, n: found.__delitem__(slice(p, None)),
        ]
        if found:
            accidents[int(rng.choice(7, p=[0.2, 0.15, 0.15, 0.2, 0.15, 0.1, 0.05]))](place, length)
    return bytes(found)


def arrays_mutated(content, rng):
    """A whole archive in which one array is wrong."""
    with np.load(io.BytesIO(content), allow_pickle=False) as archive:
        arrays = dict(archive)
    name = str(rng.choice([each for each in arrays if arrays[each].ndim]))
    old = arrays[name]
    wrong = [
        lambda: np.where(rng.random(old.shape) < 0.2, rng.choice([-5, -1, 7, 9, 10**6, 2**40]), old),
        lambda: old[:-1],
        lambda: np.append(old, old[-1:]),
        lambda: np.flip(old).copy(),
        lambda: old.astype(str),
        lambda: old.astype(np.complex128),
        lambda: np.zeros(0),
        lambda: np.where(rng.random(old.shape) < 0.2, rng.choice([np.nan, np.inf]), old.astype(float)),
        lambda: old.astype(np.float32),
        lambda: old.reshape(1, -1),
    ]
    arrays[name] = wrong[int(rng.integers(0, len(wrong)))]()
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def packed(pack, made):
    """Damage before or after compression."""

    def mutant(rng):
        content = made(rng)
        return pack(bytes_mutated(content, rng)) if rng.random() < 0.5 else bytes_mutated(pack(content), rng)

    return mutant


def in_two_ways(made, first, second):
    return lambda rng: (first if rng.random() < 0.5 else second)(made(rng), rng)


KINDS = {
    ".svm": lambda rng: bytes_mutated(libsvm_text(rng), rng),
    ".svm.gz": packed(gzip.compress, libsvm_text),
    ".npz": in_two_ways(npz_arrays, bytes_mutated, arrays_mutated),
    ".csv": lambda rng: bytes_mutated(csv_text(rng), rng),
    ".csv.gz": packed(gzip.compress, csv_text),
    ".tsv.bz2": packed(bz2.compress, lambda rng: csv_text(rng).replace(b'"light, blue"', b"light").replace(b",", b"\t")),
    ".parquet": lambda rng: bytes_mutated(parquet_table(rng), rng),
}


# What is in it, read as literally as can be.


def literal_libsvm(content, data):
    rows, labels, base = [], [], data.encoding.base
    for line in content.split(b"\n"):
        words = line.split(b"#")[0].decode("ascii").split()
        if words:
            labels.append(literal_number(words[0]))
            entries = [word.split(":") for word in words[1:] if not word.startswith("qid:")]
            rows.append({int(index) - base: literal_number(value) for index, value in entries})
    dense = np.zeros((len(rows), data.encoding.width))
    for i, row in enumerate(rows):
        for j, value in row.items():
            assert j >= 0
            dense[i, j] = value
    return dense, labels


def literal_number(word):
    assert set(word) <= set("0123456789+-.eE"), word
    assert np.isfinite(float(word))
    return float(word)


def literal_npz(content, data):
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        parts = {n.removesuffix(".npy"): np.lib.format.read_array(io.BytesIO(archive.read(n))) for n in archive.namelist()}
    rows, columns = parts["shape"].tolist()
    dense = np.zeros((rows, columns))
    form = parts["format"].item().decode()
    if form == "coo":
        for i, j, value in zip(parts["row"].ravel(), parts["col"].ravel(), parts["data"].ravel(), strict=True):
            dense[int(i), int(j)] += value
    else:
        for major in range(len(parts["indptr"]) - 1):
            for k in range(int(parts["indptr"][major]), int(parts["indptr"][major + 1])):
                minor = int(parts["indices"][k])
                assert minor >= 0
                dense[(major, minor) if form == "csr" else (minor, major)] += parts["data"][k]
    return np.delete(dense, data.encoding.target, axis=1), dense[:, data.encoding.target].tolist()


def literal_csv(content, data, separator=","):
    text = content.decode("utf-8").removeprefix("\ufeff")
    separator = separator if separator in text.splitlines()[0] or ";" not in text.splitlines()[0] else ";"
    head, *rows = [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=separator) if row]
    cells = [[None if cell in NULLS else cell for cell in row] for row in rows]
    return literal_table([dict(zip(head, row, strict=True)) for row in cells], data)


def literal_parquet(content, data):
    return literal_table(parquet.read_table(io.BytesIO(content)).to_pylist(), data)


def literal_table(rows, data):
    known = [row for row in rows if row["target"] is not None]
    return np.array([literal_features(row, data.encoding) for row in known]), [row["target"] for row in known]


def literal_features(row, encoding):
    found = []
    for column in encoding.columns:
        cell, missing = row[column.name], row[column.name] is None
        if isinstance(column, Category):
            found += [float(not missing and cell == value) for value in column.values]
        elif missing:
            found.append(column.fill if column.origin is None else (column.fill - column.origin) / 365.25)
        else:
            found.append(literal_cell(cell, column.origin))
        found += [float(missing)] if column.marked else []
    return found


def literal_cell(cell, origin):
    if origin is not None:
        moment = cell if isinstance(cell, date) else datetime.fromisoformat(cell.strip())
        moment = moment if isinstance(moment, datetime) else datetime(moment.year, moment.month, moment.day)
        return ((moment - datetime(1970, 1, 1)).total_seconds() / 86400 - origin) / 365.25
    words = {"true": 1.0, "True": 1.0, "TRUE": 1.0, "false": 0.0, "False": 0.0, "FALSE": 0.0}
    text = str(cell).strip()
    return words[text] if text in words else float(int(text, 16)) if text[:2].lower() == "0x" else float(text)


LITERAL = {
    ".svm": literal_libsvm,
    ".svm.gz": lambda content, data: literal_libsvm(gzip.decompress(content), data),
    ".npz": literal_npz,
    ".csv": literal_csv,
    ".csv.gz": lambda content, data: literal_csv(gzip.decompress(content), data),
    ".tsv.bz2": lambda content, data: literal_csv(bz2.decompress(content), data, "\t"),
    ".parquet": literal_parquet,
}


# The count.


class HangError(Exception):
    """A file took too long."""


def _ring(number, frame):
    raise HangError


def outcome(kind, content, folder):
    """What became of one file: accepted, refused, or what is wrong."""
    path = Path(folder) / f"data{kind}"
    path.write_bytes(content)
    signal.signal(signal.SIGALRM, _ring)
    signal.alarm(SECONDS)
    try:
        data = read(str(path), READING)
    except (ValueError, OSError) as error:
        said = str(error)
        return "refused" if "data" in said and " " in said else f"no sentence: {said}"
    except HangError:
        return "hang"
    except Exception:
        return f"traceback: {traceback.format_exc()}"
    finally:
        signal.alarm(0)
    return judged(kind, content, data)


def judged(kind, content, data):
    try:
        dense, labels = LITERAL[kind](content, data)
        same = np.allclose(data.A.toarray(), dense, rtol=1e-12, atol=1e-9)
        same &= [str(value) for value in data.y.tolist()] == [str(value) for value in labels]
    except Exception:
        return f"wrong: the literal reader says {traceback.format_exc(limit=1)}"
    return "accepted" if same else f"wrong: {data.A.toarray()} {data.y}, literally {dense} {labels}"


def mutants(count, seed):
    """(number, kind, content), the kinds in turn."""
    kinds = list(KINDS)
    for number in range(count):
        kind = kinds[number % len(kinds)]
        yield number, kind, KINDS[kind](np.random.default_rng([seed, number]))


def many(count, seed, judge):
    """How often everything happened, and every case that should not have."""
    counts, bad = Counter(), []
    with tempfile.TemporaryDirectory() as folder:
        for number, kind, content in mutants(count, seed):
            said = judge(kind, content, folder)
            counts[kind, said.partition(":")[0]] += 1
            if said not in ("accepted", "refused"):
                bad.append((number, kind, content[:1000], said))
    return counts, bad


def command_outcome(kind, content, folder):
    """What becomes of one file on the command line: a model, or a sentence."""
    path, out = Path(folder) / f"data{kind}", Path(folder) / "run"
    path.write_bytes(content)
    words = ["train", str(path), "--out", str(out), "--rounds", "3", "--quiet", "--clients", "1", "--missing", "impute"]
    done = CliRunner().invoke(app(), words)
    if done.exit_code == 0:
        done = CliRunner().invoke(app(), ["predict", str(out), str(path)])
        return "accepted" if done.exit_code == 0 else f"wrong: trained on it, but {done.output}"
    if done.exit_code == 2 and isinstance(done.exception, SystemExit) and "Error" in done.output:
        return "refused"
    return f"traceback: {''.join(traceback.format_exception(done.exception))}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--commands", action="store_true", help="train and predict on each of them")
    parser.add_argument("--show", type=int, default=5)
    given = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))  # who asks for more believed a damaged number
    begin = time.time()
    counts, bad = many(given.count, given.seed, command_outcome if given.commands else outcome)
    for (kind, what), times in sorted(counts.items()):
        print(f"{kind:10} {what:12} {times}")
    for number, kind, content, said in bad[: given.show]:
        print(f"--- {number} {kind}: {content!r}\n{said}")
    print(f"{given.count} files, {len(bad)} of them wrong, {time.time() - begin:.0f} s; pyarrow {pa.__version__}")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
