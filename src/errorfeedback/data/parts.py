"""Data for several processes: a folder of part files, of which each process reads its own; or a file that process 0 reads
and hands out. A client lies in one part.

In a folder every file (in the order of their names) is one client, unless a column names the clients in it; the same name
in two files is two clients. One encoding is learned from what all parts hold, so that they mean the same everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from errorfeedback.data.encoding import Encoding
from errorfeedback.data.read import about, open_raw
from errorfeedback.data.reading import Reading
from errorfeedback.data.rows import Data, Raw
from errorfeedback.problems.process_group import ProcessGroup


def read_folder(folder: str, processes: ProcessGroup, reading: Reading) -> Data:
    """This process's part of a folder; `clients` is filled in."""
    files = sorted(path for path in Path(folder).iterdir() if path.is_file() and not path.name.startswith("."))
    if len(files) < processes.size:
        raise ValueError(f"{folder} has {len(files)} files for {processes.size} ranks; every rank needs at least one")
    lo, hi = share([path.stat().st_size for path in files], processes)
    raws = [open_raw(str(path), reading) for path in files[lo:hi]]
    with about(folder):
        encoding, notes = _columns_of_all(raws, processes, reading)
    parts = [raw.encoded(encoding, reading) for raw in raws]
    for data in parts:
        if data.y is None:
            raise ValueError(f"{data.name} has no target; training needs one")
    clients = _numbered([np.zeros(data.A.shape[0]) if data.clients is None else data.clients for data in parts])
    before = sum(processes.all(int(clients.max()) + 1)[: processes.rank])
    said = processes.all([note for data in parts for note in data.notes])
    return Data(
        A=sparse.csr_array(sparse.vstack([data.A for data in parts], format="csr")),
        y=np.concatenate([data.y for data in parts if data.y is not None]),
        clients=before + clients,
        encoding=encoding,
        name=Path(folder).name,
        weights=np.concatenate([data.weights for data in parts if data.weights is not None])
        if reading.weight_column
        else None,
        notes=(*notes, *(note for part in said for note in part)),
    )


def _columns_of_all(raws: Sequence[Raw], processes: ProcessGroup, reading: Reading) -> tuple[Encoding, list[str]]:
    """One encoding for all parts, from what every process has seen of its own."""
    everyone = processes.all([(type(raw).__name__, raw.name, raw.summary()) for raw in raws])
    kinds = {kind: name for part in everyone for kind, name, _ in part}
    if len(kinds) > 1:
        raise ValueError(f"the part files are of different kinds: {' and '.join(kinds.values())}; they must be of one")
    return raws[0].learn([summary for part in everyone for _, _, summary in part], reading)


def hand_out(make: Callable[[], Data], processes: ProcessGroup) -> Data:
    """This process's part of what process 0 reads; `clients` says who has which row."""
    return processes.hand_out(lambda: _by_clients(make(), processes))


def share(work: Sequence[int], processes: ProcessGroup) -> tuple[int, int]:
    """Consecutive files for this process, of about the same work, at least one."""
    done, size = np.cumsum(work), processes.size
    cuts = [0]
    for k in range(1, size):
        cut = int(np.searchsorted(done, done[-1] * k / size)) + 1
        cuts.append(min(max(cut, cuts[-1] + 1), len(work) - (size - k)))
    return [*cuts, len(work)][processes.rank], [*cuts, len(work)][processes.rank + 1]


def _numbered(names: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Clients 0, 1, ...: part after part, and within a part in the order of their names."""
    out, before = [], 0
    for each in names:
        known, code = np.unique(each, return_inverse=True)
        out.append(before + code)
        before += len(known)
    return np.concatenate(out)


def _by_clients(data: Data, processes: ProcessGroup) -> list[Data]:
    """The rows of consecutive clients for each process, of about the same number of clients."""
    names, code = np.unique(np.asarray(data.clients), return_inverse=True)
    if len(names) < processes.size:
        raise ValueError(f"{processes.size} ranks, but there are only {len(names)} clients to share out")
    assert data.y is not None
    parts = []
    for lo, hi in pairwise([len(names) * k // processes.size for k in range(processes.size + 1)]):
        parts.append(data.take(np.flatnonzero((lo <= code) & (code < hi))))
    return parts
