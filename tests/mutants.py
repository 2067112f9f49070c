"""Data files with something wrong in them.

`python tests/mutants.py --count 2000` reads that many damaged files with the package. Each must give rows, or a ValueError
or OSError with a sentence; and rows that are accepted must be those that a literal reader finds. `--through later` reads
them in the encoding of a whole file; `--through commands` gives them to train, predict and evaluate on the command line,
which must end with results or with a sentence.
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
from collections import Counter
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
from literal import LITERAL
from pyarrow import csv as arrow_csv
from pyarrow import parquet
from scipy import sparse
from typer.testing import CliRunner

from errorfeedback.cli.app import app
from errorfeedback.data.read import read
from errorfeedback.data.reading import Missing, Reading
from errorfeedback.estimators.model_file import load

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


def tsv_text(rng):
    return csv_text(rng).replace(b'"light, blue"', b"light").replace(b",", b"\t")


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


MAKE = {".svm": libsvm_text, ".npz": npz_arrays, ".csv": csv_text, ".tsv": tsv_text, ".parquet": parquet_table}
PACK = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress}
UNPACK = {"": bytes, ".gz": gzip.decompress, ".bz2": bz2.decompress}
KINDS = (".svm", ".svm.gz", ".npz", ".csv", ".csv.gz", ".tsv.bz2", ".parquet")


def parts(kind):
    """What is in a file and how it is packed: ".svm.gz" -> (".svm", ".gz")."""
    inner = kind[: kind.index(".", 1)] if kind.count(".") == 2 else kind
    return inner, kind[len(inner) :]


def whole(kind, rng):
    inner, outer = parts(kind)
    return PACK[outer](MAKE[inner](rng))


def mutant(kind, rng):
    """Damaged before or after it was packed."""
    inner, outer = parts(kind)
    content = MAKE[inner](rng)
    if rng.random() < 0.5:
        return bytes_mutated(PACK[outer](content), rng)
    return PACK[outer]((arrays_mutated if inner == ".npz" else bytes_mutated)(content, rng))


# The count.


class HangError(Exception):
    """A file took too long."""


def _ring(number, frame):
    raise HangError


def outcome(kind, content, folder, later=False):
    """What became of one file: accepted, refused, or what is wrong. later: a whole file has said what the columns mean."""
    path = Path(folder) / f"data{kind}"
    encoding = encoding_of(kind) if later else None
    path.write_bytes(content)
    signal.signal(signal.SIGALRM, _ring)
    signal.alarm(SECONDS)
    try:
        data = read(str(path), READING, encoding=encoding)
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


@cache
def encoding_of(kind):
    """What a whole file of that kind says about the columns."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"data{kind}"
        path.write_bytes(whole(kind, np.random.default_rng(0)))
        return read(str(path), READING).encoding


def judged(kind, content, data):
    inner, outer = parts(kind)
    try:
        dense, labels = LITERAL[inner](UNPACK[outer](content), data)
        same = np.allclose(data.A.toarray(), dense, rtol=1e-12, atol=1e-9)
        same &= [str(value) for value in ([] if data.y is None else data.y.tolist())] == [str(value) for value in labels]
    except Exception:
        return f"wrong: the literal reader says {traceback.format_exc(limit=1)}"
    return "accepted" if same else f"wrong: {data.A.toarray()} {data.y}, literally {dense} {labels}"


def later_outcome(kind, content, folder):
    return outcome(kind, content, folder, later=True)


def mutants(count, seed):
    """(number, kind, content), the kinds in turn."""
    for number in range(count):
        kind = KINDS[number % len(KINDS)]
        yield number, kind, mutant(kind, np.random.default_rng([seed, number]))


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
    """What becomes of one file on the command line, in training and with a model of a whole file: results, or a sentence."""
    path, out, known = Path(folder) / f"data{kind}", Path(folder) / "run", Path(folder) / f"known{kind}"
    if not known.exists():
        path.write_bytes(whole(kind, np.random.default_rng(0)))
        command("train", path, "--out", known)
    path.write_bytes(content)
    said = [command("train", path, "--out", out), command("evaluate", known, path)]
    if said[0] == "accepted":
        said.append(command("predict", out, path, "--out", out / "said.csv"))
        said.append(predictions_judged(kind, content, out))
    wrong = [each for each in said if each not in ("accepted", "refused")]
    return wrong[0] if wrong else "accepted" if "accepted" in said else "refused"


def predictions_judged(kind, content, out):
    """What predict wrote, against the model on the rows that a literal reader finds."""
    inner, outer = parts(kind)
    saved = load(out / "model.npz")
    dense, labels = LITERAL[inner](UNPACK[outer](content), saved)
    with (out / "said.csv").open(newline="", encoding="utf-8") as file:
        _, *rows = csv.reader(file)
    if len(rows) > len(labels):  # rows without a target, which the literal reader leaves out
        return "accepted"
    said, chances = [row[0] for row in rows], np.array([row[1:] for row in rows], dtype=np.float64)
    same = np.allclose(chances, saved.model.predict_proba(dense), rtol=1e-9, atol=1e-12)
    same &= said == [str(value) for value in saved.model.predict(dense).tolist()]
    return "accepted" if same else f"wrong: {said} {chances} for {dense}"


def command(verb, *words):
    options = ["--rounds", "3", "--quiet", "--clients", "1"] if verb == "train" else []
    signal.signal(signal.SIGALRM, _ring)
    signal.alarm(SECONDS)
    try:
        done = CliRunner().invoke(app(), [verb, *map(str, words), "--missing", "impute", *options])
    finally:
        signal.alarm(0)
    if done.exit_code == 0:
        return "accepted"
    if isinstance(done.exception, HangError):
        return "hang"
    if done.exit_code == 2 and isinstance(done.exception, SystemExit) and "Error" in done.output:
        return "refused"
    return f"traceback: {''.join(traceback.format_exception(done.exception))}"


JUDGES = {"reader": outcome, "later": later_outcome, "commands": command_outcome}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--through", choices=JUDGES, default="reader")
    parser.add_argument("--show", type=int, default=5)
    given = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))  # who asks for more believed a damaged number
    begin = time.time()
    counts, bad = many(given.count, given.seed, JUDGES[given.through])
    for (kind, what), times in sorted(counts.items()):
        print(f"{kind:10} {what:12} {times}")
    for number, kind, content, said in bad[: given.show]:
        print(f"--- {number} {kind}: {content!r}\n{said}")
    print(f"{given.count} files, {len(bad)} of them wrong, {time.time() - begin:.0f} s; pyarrow {pa.__version__}")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
