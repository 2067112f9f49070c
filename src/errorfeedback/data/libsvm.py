"""LIBSVM files: a line is `label index:value ...`, with ascending indices; `qid:...` and what follows a # is passed over.

A number is what the pattern below says, and nothing else: no underscores, no nan, no infinity. Whether indices start at 0
or at 1 cannot be seen in every file, so it is decided once, from the training data, and is part of the encoding.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from errorfeedback.core import Floats
from errorfeedback.data.decompressing import lines
from errorfeedback.data.encoding import Encoding, Indices
from errorfeedback.data.known import KNOWN, find
from errorfeedback.data.reading import LIMIT, Reading
from errorfeedback.data.rows import Data, Raw

NUMBER = rb"[+-]?+(?:\d++(?:\.\d*+)?+|\.\d++)(?:[eE][+-]?+\d++)?+"
LINE = re.compile(rb"\s*+(?:%b(?:\s++qid:\d++)?+(?:\s++\d++:%b)*+)?+\s*+" % (NUMBER, NUMBER))
ENDINGS = (".csv", ".tsv", ".parquet", ".npz")
"""Of other files."""
LARGEST = 2**31 - 1
"""Index."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """A: (rows, features) in CSR; y: one label per row as the file has it; index_base: the number of the first feature."""

    A: sparse.csr_array
    y: NDArray[Any]
    name: str
    path: Path
    index_base: int = 1

    def __iter__(self) -> Iterator[Any]:
        """`A, y = ef.load(...)`."""
        return iter((self.A, self.y))


def load(
    source: str | os.PathLike[str], *, features: int | None = None, index_base: int | None = None, limit: int = LIMIT
) -> Dataset:
    """Read the LIBSVM file `source` (also .gz, .bz2, .xz): a path, or one of the names in `errorfeedback.data.known.KNOWN`.

    `features` fixes the number of columns (a test file may lack the last ones); by default the largest index in the
    file, and for a known name the published number. `index_base` is the number of the first feature, 0 or 1; by default 0
    where the file has an index 0. A test file may have none: give it the base of the training file. `limit`:
    bytes of what a compressed file may become.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "two.svm")
    ...     _ = path.write_text("+1 1:0.5 3:2\\n-1 2:1\\n")
    ...     A, y = load(path)
    >>> A.toarray().tolist(), y.tolist()
    ([[0.5, 0.0, 2.0], [0.0, 1.0, 0.0]], [1.0, -1.0])
    """
    file = open_libsvm(source, limit)
    if features is None:
        encoding = file.learn([file.summary()], Reading(index_base=index_base))[0]
    else:
        encoding = Indices(features, file.base(index_base))
        file.refuse_above(encoding)
    assert isinstance(encoding, Indices)
    assert encoding.base is not None
    return Dataset(file.matrix(encoding), file.labels, file.name, file.path, encoding.base)


def open_libsvm(source: str | os.PathLike[str], limit: int) -> LibsvmFile:
    """A file as it is, by path or by name."""
    path, name = Path(source), str(source)
    known = None if path.is_file() else KNOWN.get(name)
    if known is not None:
        path = find(name)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; name a LIBSVM file in it")
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file, and not a known data set ({', '.join(KNOWN)})")
    labels, counts, indices, values = _parsed(path, limit)
    if not len(labels):
        raise ValueError(f"{path}: the file has no rows")
    return LibsvmFile(
        path, name if known else path.name, labels, counts, indices, values, known.features if known else 0, limit
    )


@dataclass(frozen=True, eq=False)
class LibsvmFile(Raw):
    """A LIBSVM file: for every row its label and how many entries it has, and all entries with the indices of the file.
    features: how many there are at least."""

    path: Path
    name: str
    labels: Floats
    counts: NDArray[np.int64]
    indices: NDArray[np.int64]
    values: Floats
    features: int
    limit: int

    def summary(self) -> tuple[int, int, int]:
        """The lowest index, the largest, and how many features there are at least."""
        return int(self.indices.min(initial=LARGEST)), int(self.indices.max(initial=-1)), self.features

    @staticmethod
    def learn(summaries: Sequence[tuple[int, int, int]], reading: Reading) -> tuple[Encoding, list[str]]:
        low, high, features = (max(each) for each in zip(*((-lo, hi, f) for lo, hi, f in summaries), strict=True))
        base, notes = reading.index_base, []
        if base is None:
            base = 0 if low == 0 else 1
            if not features:  # a known data set starts at 1
                doubt = "there is an index 0" if base == 0 else "there is no index 0 (--index-base 0 if they start at 0)"
                notes = [f"indices start at {base}: {doubt}"]
        return Indices(max(high + 1 - base, features, 0), base), notes

    def encoded(self, encoding: Encoding, reading: Reading) -> Data:
        if not isinstance(encoding, Indices):
            raise encoding.refuse(self.name, Indices.files)
        reading.refuse_columns(self.name)
        if reading.target is not None:
            raise ValueError(
                f"{self.name}: target = {reading.target!r}, but in a LIBSVM file it is the first word of every line"
            )
        known = _with_base(encoding, reading.index_base)
        y = self.labels if reading.labelled else None
        return Data(self.matrix(known), y, None, known, self.name, notes=tuple(self._unseen(known)))

    def _unseen(self, encoding: Indices) -> list[str]:
        """What is to be said about features that training did not have."""
        assert encoding.base is not None
        last = encoding.width - 1 + encoding.base
        beyond = self.indices > last
        if not beyond.any():
            return []
        rows = len(np.unique(np.repeat(np.arange(len(self.counts)), self.counts)[beyond]))
        return [
            f"{self.name}: {beyond.sum():,} values in {rows:,} rows are of features that training did not have "
            f"(indices above {last}); ignored"
        ]

    def base(self, wanted: int | None) -> int:
        """The number of the first feature, as this file alone says it."""
        return (0 if self.indices.min(initial=1) == 0 else 1) if wanted is None else wanted

    def matrix(self, encoding: Indices) -> sparse.csr_array:
        """The rows without features that the encoding does not have."""
        assert encoding.base is not None
        if encoding.base == 1 and self.indices.min(initial=1) == 0:
            line = self._line(lambda index: index == 0)
            raise ValueError(
                f"{self.path}, line {line}: index 0, but indices start at 1; --index-base 0 where they start at 0"
            )
        ends = np.concatenate([[0], np.cumsum(self.counts)])
        columns, values = self.indices - encoding.base, self.values
        inside = columns < encoding.width
        if not inside.all():
            ends = np.concatenate([[0], np.cumsum(inside)])[ends]
            columns, values = columns[inside], values[inside]
        return sparse.csr_array((values, columns, ends), shape=(len(self.labels), encoding.width))

    def refuse_above(self, encoding: Indices) -> None:
        """Where the number of features is fixed."""
        assert encoding.base is not None
        last = encoding.width - 1 + encoding.base
        if self.indices.max(initial=-1) > last:
            line = self._line(lambda index: index > last)
            raise ValueError(f"{self.path}, line {line}: an index is above the {encoding.width} features asked for")

    def _line(self, wrong: Callable[[int], bool]) -> int:
        """The line of the first index of which that is true."""
        for number, line in _numbered(self.path, self.limit):
            if any(wrong(int(word.partition(b":")[0])) for word in line.split()[1:] if not word.startswith(b"qid")):
                return number
        raise AssertionError("no line has such an index")


def _with_base(encoding: Indices, given: int | None) -> Indices:
    """The encoding with the base that it has, or that is given where it was not kept."""
    if encoding.base is None and given is None:
        raise ValueError(
            "the model is of a version that did not keep whether the indices of LIBSVM files start at 0 or 1; "
            "say --index-base 0 or --index-base 1"
        )
    if encoding.base is not None and given not in (None, encoding.base):
        raise ValueError(f"index base {given}, but the indices of the training data start at {encoding.base}")
    return encoding if given is None else replace(encoding, base=given)


def _parsed(path: Path, limit: int) -> tuple[Floats, NDArray[np.int64], NDArray[np.int64], Floats]:
    """Labels, entries per row, indices and values of a whole file."""
    parts = []
    for batch in lines(path, limit):
        bare = [line.partition(b"#")[0] for line in batch]
        if not all(map(LINE.fullmatch, bare)):
            raise _fault_in(path, limit)
        parts.append(_numbers(path, limit, [line for line in bare if line.strip()]))
    empty = (np.zeros(0), np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))
    labels, counts, indices, values = (np.concatenate(each) for each in zip(empty, *parts, strict=True))
    return labels, counts, indices, values


def _numbers(path: Path, limit: int, rows: list[bytes]) -> tuple[Floats, NDArray[np.int64], NDArray[np.int64], Floats]:
    text = b"\n".join(rows)
    if b"qid" in text:
        rows = [re.sub(rb"qid:\d+", b"", row) for row in rows]
        text = b"\n".join(rows)
    counts = np.array([row.count(b":") for row in rows], dtype=np.int64)
    flat = np.fromstring(text.replace(b":", b" "), sep=" ")  # label, index, value, index, value, ..., label, ...
    starts = np.cumsum(1 + 2 * counts) - (1 + 2 * counts)
    entries = np.delete(flat, starts).reshape(-1, 2)
    indices, values = entries[:, 0], entries[:, 1]
    first = np.zeros(len(indices), dtype=bool)
    first[(np.cumsum(counts) - counts)[counts > 0]] = True
    ascends = first[1:] | (np.diff(indices) > 0)
    if not ascends.all() or not np.isfinite(flat).all() or indices.max(initial=0) > LARGEST:
        raise _fault_in(path, limit)
    return flat[starts], counts, indices.astype(np.int64), values.copy()


def _numbered(path: Path, limit: int) -> Iterator[tuple[int, bytes]]:
    number = 0
    for batch in lines(path, limit):
        for line in batch:
            number += 1
            yield number, line.partition(b"#")[0]


def _fault_in(path: Path, limit: int) -> ValueError:
    """What is wrong with the first line that is wrong."""
    for number, line in _numbered(path, limit):
        fault = _fault(line.split())
        if fault:
            other = f"; a file that does not end in {', '.join(ENDINGS)} is read as LIBSVM" if number == 1 else ""
            return ValueError(f"{path}, line {number}: {fault}{other}")
    raise AssertionError(f"{path} is refused, and every line of it is right")


def _fault(words: list[bytes]) -> str | None:
    """What is wrong with a line of the form `label index:value ...`."""
    if not words:
        return None
    label, *rest = words
    if not re.fullmatch(NUMBER, label) or not math.isfinite(float(label)):
        return f"the label {_text(label)} is not a finite number"
    last = -1
    for place, word in enumerate(rest):
        index, colon, value = word.partition(b":")
        if index == b"qid" and value.isdigit() and place == 0:
            continue
        if not colon or not index.isdigit() or not value:
            return f"{_text(word)} is not of the form index:value"
        if not re.fullmatch(NUMBER, value) or not math.isfinite(float(value)):
            return f"{_text(word)}: the value is not a finite number"
        if len(index) > 20 or int(index) > LARGEST:
            return f"index {_text(index)} is too large ({LARGEST} at most)"
        if int(index) <= last:
            return f"index {int(index)} after {last}: indices must ascend"
        last = int(index)
    return None


def _text(word: bytes) -> str:
    return repr(word[:80].decode(errors="replace"))
