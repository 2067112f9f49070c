"""A file -> rows. By its ending it is a table (.csv, .tsv, .parquet), a matrix (.npz) or else LIBSVM; all of them may be
compressed (.gz, .bz2, .xz).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from errorfeedback.data.decompressing import kind
from errorfeedback.data.encoding import Encoding
from errorfeedback.data.known import KNOWN
from errorfeedback.data.libsvm import open_libsvm
from errorfeedback.data.matrices import open_matrix
from errorfeedback.data.reading import Reading
from errorfeedback.data.rows import Data, Raw
from errorfeedback.data.tables import open_table

TABLES = (".csv", ".tsv", ".parquet")


def read(source: str, reading: Reading | None = None, *, encoding: Encoding | None = None) -> Data:
    """The rows of a file. With `encoding` the features are those of training, and the target may be missing."""
    reading = Reading() if reading is None else reading
    raw = open_raw(source, reading, encoding)
    if encoding is not None:
        return raw.encoded(encoding, reading)
    with about(source):
        learned, notes = raw.learn([raw.summary()], reading)
    rows = raw.encoded(learned, reading)
    return replace(rows, notes=(*notes, *rows.notes))


def read_held_out(source: str, reading: Reading, encoding: Encoding) -> Data:
    """Rows that a model is judged by in training, in the encoding of those that it learns from; they are nobody's."""
    held = read(source, replace(reading.later, weight_column=reading.weight_column), encoding=encoding)
    if held.y is None:
        raise ValueError(f"{held.name} has no target; held-out rows need one")
    return held


@contextmanager
def about(source: str) -> Iterator[None]:
    """Errors in here are about that file or folder."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{source}: {error}") from error


def open_raw(source: str, reading: Reading, encoding: Encoding | None = None) -> Raw:
    """A file as it is."""
    path = Path(source)
    if not path.exists() and source not in KNOWN:
        raise FileNotFoundError(f"{source}: no such file, and not a known data set ({', '.join(KNOWN)})")
    if path.is_file():
        if not path.stat().st_size:
            raise ValueError(f"{source}: the file is empty")
        if kind(path) in TABLES:
            return open_table(path, reading, encoding)
        if kind(path) == ".npz":
            return open_matrix(path, reading)
    return open_libsvm(source, reading.limit)
