"""Matrices saved by `scipy.sparse.save_npz`: one column is the target.

Nothing in the file is believed before it is checked: sizes before memory is asked for, indices before anybody follows them.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from scipy import sparse

from errorfeedback.data.decompressing import CHUNK, TooLargeError, damage, seekable, too_large
from errorfeedback.data.encoding import Encoding, Indices, Positions
from errorfeedback.data.reading import Reading
from errorfeedback.data.rows import Data, Raw
from errorfeedback.storage.untrusted import check_compressed

FAULTS = (
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    AttributeError,
    OverflowError,
    NotImplementedError,
    EOFError,
    SyntaxError,
    RuntimeError,
    MemoryError,
    OSError,
    zipfile.BadZipFile,
    zlib.error,
)
"""What scipy, numpy and zipfile raise for files that are damaged or made to harm."""


KINDS = {"data.npy": "fiub", "format.npy": "SU", "_is_array.npy": "b"}
"""What an array of the archive has in it; all others have a list of whole numbers."""


@dataclass(frozen=True, eq=False)
class MatrixFile(Raw):
    """A matrix as it is."""

    path: Path
    entries: sparse.csr_array

    @property
    def name(self) -> str:  # type: ignore[override]
        return self.path.name

    def summary(self) -> tuple[str, int]:
        return self.name, self.entries.shape[1]

    @staticmethod
    def learn(summaries: Sequence[tuple[str, int]], reading: Reading) -> tuple[Encoding, list[str]]:
        name, width = summaries[0]
        for other, columns in summaries[1:]:
            if columns != width:
                raise ValueError(f"{name} has {width} columns and {other} has {columns}; all parts must have the same")
        column = width - 1
        if reading.target is not None:
            if not reading.target.isdecimal():
                raise ValueError(
                    f"target = {reading.target!r}, but the columns of {name} have no names; give the number of one"
                )
            column = int(reading.target)
        if not 0 <= column < width:
            raise ValueError(f"{name}: target column {column}, but the matrix has {width} columns (the first is 0)")
        if width < 2:
            raise ValueError(f"{name}: the matrix has the target's column and no other; there is nothing to learn from")
        return Positions(width - 1, column), []

    def encoded(self, encoding: Encoding, reading: Reading) -> Data:
        if isinstance(encoding, Indices) and encoding.base is None:  # from a version that did not tell the two apart
            encoding = Positions(encoding.width, encoding.width)
        if not isinstance(encoding, Positions):
            raise encoding.refuse(self.name, Positions.files)
        reading.refuse_columns(self.name)
        if reading.target not in (None, str(encoding.target)):
            raise ValueError(f"target = {reading.target!r}, but in the training data it was column {encoding.target}")
        A, columns = self.entries, self.entries.shape[1]
        if columns == encoding.width:
            return Data(A, None, None, encoding, self.name)
        if columns != encoding.width + 1:
            raise ValueError(
                f"{self.path}: {columns} columns, but the model was trained with {encoding.width} features "
                f"and the target in column {encoding.target}"
            )
        y = A[:, [encoding.target]].toarray().ravel() if reading.labelled else None
        rest = np.delete(np.arange(columns), encoding.target)
        return Data(sparse.csr_array(A[:, rest]), y, None, encoding, self.name)


def open_matrix(path: Path, reading: Reading) -> MatrixFile:
    """A matrix as it is; every index is checked."""
    try:
        with seekable(path, reading.limit) as file:
            _check_sizes(path, file, reading.limit)
            matrix = sparse.load_npz(file)
            rows, columns = matrix.shape
            if 8 * (rows + columns) > reading.limit:
                raise too_large(path, reading.limit)
            entries = _rows(matrix)
    except TooLargeError:
        raise
    except FAULTS as error:
        raise ValueError(f"{path}: not a matrix saved by scipy.sparse.save_npz, or damaged ({damage(error)})") from error
    if not entries.shape[0]:
        raise ValueError(f"{path}: the matrix has no rows")
    bad = np.flatnonzero(~np.isfinite(entries.data))
    if len(bad):
        row = int(np.searchsorted(entries.indptr, bad[0], side="right")) - 1
        raise ValueError(
            f"{path}: {entries.data[bad[0]]} in row {row}, column {entries.indices[bad[0]]}; entries must be finite"
        )
    return MatrixFile(path, entries)


def _check_sizes(path: Path, file: IO[bytes], limit: int) -> None:
    """What the arrays claim to be is what is there, and is not too much."""
    with zipfile.ZipFile(file) as archive:
        if sum(entry.file_size for entry in archive.infolist()) > limit:
            raise too_large(path, limit)
        for entry in archive.infolist():
            with archive.open(entry) as part:
                version = np.lib.format.read_magic(part)
                read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
                shape, _, dtype = read(part)
                places = entry.filename not in KINDS
                if dtype.kind not in KINDS.get(entry.filename, "iu") or (places and len(shape) != 1):
                    raise ValueError(f"{entry.filename} has {dtype} of shape {shape}, which is not what belongs there")
                claimed = dtype.itemsize * int(np.prod(shape, dtype=object))
                there = sum(len(piece) for piece in iter(lambda: part.read(CHUNK), b""))
                if claimed != there:
                    raise ValueError(f"{entry.filename} claims {claimed:,} bytes and has {there:,}")
    file.seek(0)


def _rows(matrix: Any) -> sparse.csr_array:
    """In CSR, of floats, without entries given twice."""
    if matrix.ndim != 2 or matrix.dtype.kind not in "fiub":
        raise ValueError(f"{matrix.ndim} dimensions of {matrix.dtype}; it must have 2, of numbers")
    if matrix.format in ("csr", "csc", "bsr"):
        check_compressed(matrix)
    made = sparse.csr_array(matrix)
    check_compressed(made)
    made = made.astype(np.float64)
    made.sum_duplicates()
    return made
