"""A file of rows -> folders of part files, one folder per node and one file per client, as nodes have them that never saw
the whole: for trials on one machine. Rows are copied as they are written, byte by byte.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, pairwise
from pathlib import Path
from shutil import copyfile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from errorfeedback.data.decompressing import kind, lines
from errorfeedback.data.parts import files_of, share
from errorfeedback.problems.conversation import Seat

TEXT_TABLES = (".csv", ".tsv")
OTHERS = (".parquet", ".npz")


def deal(path: Path, limit: int, rows: NDArray[Any], clients: NDArray[Any], folders: list[Path]) -> None:
    """Consecutive clients to every folder, of about the same number; `rows`: which rows of the file are somebody's, and
    `clients` whose."""
    if kind(path) in OTHERS:
        raise ValueError(
            f"{path.name} is not text; a trial deals the rows of LIBSVM, .csv and .tsv files, or a folder's files"
        )
    table = kind(path) in TEXT_TABLES
    head, *records = _records(path, limit) if table else [b"", *_lines(path, limit)]
    names, code = np.unique(clients, return_inverse=True)
    if len(records) < len(rows) or len(names) < len(folders):
        raise ValueError(f"{path.name}: {len(records)} rows of {len(names)} clients cannot be dealt to {len(folders)} nodes")
    ends = np.cumsum(np.bincount(code))
    order = rows[np.argsort(code, kind="stable")]
    for folder, (lo, hi) in zip(
        folders, pairwise(len(names) * k // len(folders) for k in range(len(folders) + 1)), strict=True
    ):
        folder.mkdir(parents=True)
        for i in range(lo, hi):
            mine = [records[row] for row in order[ends[i - 1] if i else 0 : ends[i]]]
            file = folder / f"client-{i:06d}{kind(path) if table else '.svm'}"
            file.write_bytes(b"\n".join([head, *mine] if table else mine) + b"\n")


def deal_files(source: Path, folders: list[Path]) -> None:
    """The files of a folder, each a client, consecutive ones to every node and of about the same size."""
    files = files_of(str(source))
    if len(files) < len(folders):
        raise ValueError(f"{source} has {len(files)} files for {len(folders)} nodes; every node needs at least one")
    sizes = [path.stat().st_size for path in files]
    for k, folder in enumerate(folders):
        folder.mkdir(parents=True)
        lo, hi = share(sizes, Seat(k, len(folders)))
        for path in files[lo:hi]:
            copyfile(path, folder / path.name)


def _lines(path: Path, limit: int) -> Iterator[bytes]:
    """Rows of a LIBSVM file."""
    return (line for line in chain.from_iterable(lines(path, limit)) if line.partition(b"#")[0].strip())


def _records(path: Path, limit: int) -> Iterator[bytes]:
    """Rows of a table, the first of which has the names; a quoted field may hold line ends."""
    begun = b""
    for line in chain.from_iterable(lines(path, limit)):
        begun = begun + b"\n" + line if begun else line
        if begun.count(b'"') % 2 == 0:
            if begun.strip():
                yield begun
            begun = b""
