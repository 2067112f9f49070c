"""Data for several processes: a folder of part files, of which each process reads its own; or a file that process 0 reads
and hands out. A client lies in one part.

In a folder every file (in the order of their names) is one client, unless a column names the clients in it; the same name
in two files is two clients. Numbers of text columns and widths are agreed on, so that the parts mean the same everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from errorfeedback.data.tables import Data, Encoding, read
from errorfeedback.problems.together import Together


def read_folder(folder: str, together: Together, *, target: str | None, client_column: str | None) -> Data:
    """This process's part of a folder; `clients` is filled in."""
    files = sorted(path for path in Path(folder).iterdir() if path.is_file() and not path.name.startswith("."))
    if len(files) < together.size:
        raise ValueError(f"{folder} has {len(files)} files for {together.size} ranks; every rank needs at least one")
    lo, hi = share([path.stat().st_size for path in files], together)
    mine = [str(path) for path in files[lo:hi]]
    first = [read(path, target=target, client_column=client_column) for path in mine]
    encoding = common_encoding([each for part in together.all([data.encoding for data in first]) for each in part])
    found = [read(path, target=target, client_column=client_column, encoding=encoding) for path in mine]
    if any(data.y is None for data in found):
        raise ValueError(f"{next(data.name for data in found if data.y is None)} has no target; training needs one")
    clients = _numbered([np.zeros(data.A.shape[0]) if data.clients is None else data.clients for data in found])
    before = sum(together.all(int(clients.max()) + 1)[: together.rank])
    return Data(
        A=sparse.csr_array(sparse.vstack([data.A for data in found], format="csr")),
        y=np.concatenate([data.y for data in found if data.y is not None]),
        clients=before + clients,
        encoding=encoding,
        name=Path(folder).name,
    )


def hand_out(make: Callable[[], Data], together: Together) -> Data:
    """This process's part of what process 0 reads; `clients` says who has which row."""
    return together.hand_out(lambda: _by_clients(make(), together))


def share(work: Sequence[int], together: Together) -> tuple[int, int]:
    """Consecutive files for this process, of about the same work, at least one."""
    done, size = np.cumsum(work), together.size
    cuts = [0]
    for k in range(1, size):
        cut = int(np.searchsorted(done, done[-1] * k / size)) + 1
        cuts.append(min(max(cut, cuts[-1] + 1), len(work) - (size - k)))
    return [*cuts, len(work)][together.rank], [*cuts, len(work)][together.rank + 1]


def common_encoding(encodings: Sequence[Encoding]) -> Encoding:
    """One encoding for all parts: the widest, or every value of every text column."""
    first = encodings[0]
    if not first.columns:
        return Encoding(max(each.width for each in encodings))
    for each in encodings:
        if [name for name, _ in each.columns] != [name for name, _ in first.columns]:
            raise ValueError("the part files have different columns; they must have the same, in the same order")
    columns = tuple(_common_column(each) for each in zip(*(encoding.columns for encoding in encodings), strict=True))
    return Encoding(sum(1 if values is None else len(values) for _, values in columns), columns)


def _common_column(found: Sequence[tuple[str, tuple[str, ...] | None]]) -> tuple[str, tuple[str, ...] | None]:
    name, known = found[0][0], {values is None for _, values in found}
    if len(known) > 1:
        raise ValueError(f"column {name!r} has text in some part files and numbers in others")
    if known == {True}:
        return name, None
    return name, tuple(sorted({value for _, values in found if values is not None for value in values}))


def _numbered(names: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Clients 0, 1, ...: part after part, and within a part in the order of their names."""
    out, before = [], 0
    for each in names:
        known, code = np.unique(each, return_inverse=True)
        out.append(before + code)
        before += len(known)
    return np.concatenate(out)


def _by_clients(data: Data, together: Together) -> list[Data]:
    """The rows of consecutive clients for each process, of about the same number of clients."""
    names, code = np.unique(np.asarray(data.clients), return_inverse=True)
    if len(names) < together.size:
        raise ValueError(f"{together.size} ranks, but there are only {len(names)} clients to share out")
    assert data.y is not None
    parts = []
    for lo, hi in pairwise([len(names) * k // together.size for k in range(together.size + 1)]):
        rows = np.flatnonzero((lo <= code) & (code < hi))
        parts.append(replace(data, A=sparse.csr_array(data.A[rows]), y=data.y[rows], clients=names[code[rows]]))
    return parts
