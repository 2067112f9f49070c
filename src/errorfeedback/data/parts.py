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
from errorfeedback.problems.conversation import Conversation, Each, Seat


def read_folder(folder: str, reading: Reading, seat: Seat) -> Conversation[Data]:
    """This process's part of a folder that all of them see; `clients` is filled in."""
    files = files_of(folder)
    if len(files) < seat.of:
        raise ValueError(f"{folder} has {len(files)} files for {seat.of} ranks; every rank needs at least one")
    lo, hi = share([path.stat().st_size for path in files], seat)
    return (yield from read_parts(files[lo:hi], reading, seat, folder))


def files_of(folder: str) -> list[Path]:
    """The part files of a folder, in the order of their names."""
    return sorted(path for path in Path(folder).iterdir() if path.is_file() and not path.name.startswith("."))


def read_parts(files: Sequence[Path], reading: Reading, seat: Seat, source: str) -> Conversation[Data]:
    """This process's own files, in the encoding of all processes' files; `source` is what they are called."""
    raws = [open_raw(str(path), reading) for path in files]
    with about(source):
        encoding, notes = yield from _columns_of_all(raws, reading)
    parts = [raw.encoded(encoding, reading) for raw in raws]
    for data in parts:
        if data.y is None:
            raise ValueError(f"{data.name} has no target; training needs one")
    clients = _numbered([np.zeros(data.A.shape[0]) if data.clients is None else data.clients for data in parts])
    everyone = yield int(clients.max()) + 1, [note for data in parts for note in data.notes]
    counts, said = zip(*everyone, strict=True)
    return Data(
        A=sparse.csr_array(sparse.vstack([data.A for data in parts], format="csr")),
        y=np.concatenate([data.y for data in parts if data.y is not None]),
        clients=sum(counts[: seat.number]) + clients,
        encoding=encoding,
        name=Path(source).name,
        weights=np.concatenate([data.weights for data in parts if data.weights is not None])
        if reading.weight_column
        else None,
        notes=(*notes, *(note for part in said for note in part)),
        called=tuple(
            name
            for data, path in zip(parts, files, strict=True)
            for name in ([path.name] if data.clients is None else np.unique(data.clients).tolist())
        ),
    )


def _columns_of_all(raws: Sequence[Raw], reading: Reading) -> Conversation[tuple[Encoding, list[str]]]:
    """One encoding for all parts, from what every process has seen of its own."""
    everyone = yield [(type(raw).__name__, raw.name, raw.summary()) for raw in raws]
    kinds = {kind: name for part in everyone for kind, name, _ in part}
    if len(kinds) > 1:
        raise ValueError(f"the part files are of different kinds: {' and '.join(kinds.values())}; they must be of one")
    return raws[0].learn([summary for part in everyone for _, _, summary in part], reading)


def hand_out(make: Callable[[], Data], seat: Seat) -> Conversation[Data]:
    """This process's part of what process 0 reads; `clients` says who has which row. Nobody else sees it."""
    parts = yield None if seat.number else Each(_by_clients(make(), seat.of))
    return parts[0]


def share(work: Sequence[int], seat: Seat) -> tuple[int, int]:
    """Consecutive files for this process, of about the same work, at least one."""
    done, size = np.cumsum(work), seat.of
    cuts = [0]
    for k in range(1, size):
        cut = int(np.searchsorted(done, done[-1] * k / size)) + 1
        cuts.append(min(max(cut, cuts[-1] + 1), len(work) - (size - k)))
    return [*cuts, len(work)][seat.number], [*cuts, len(work)][seat.number + 1]


def _numbered(names: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Clients 0, 1, ...: part after part, and within a part in the order of their names."""
    out, before = [], 0
    for each in names:
        known, code = np.unique(each, return_inverse=True)
        out.append(before + code)
        before += len(known)
    return np.concatenate(out)


def _by_clients(data: Data, size: int) -> list[Data]:
    """The rows of consecutive clients for each process, of about the same number of clients."""
    names, code = np.unique(np.asarray(data.clients), return_inverse=True)
    if len(names) < size:
        raise ValueError(f"{size} ranks, but there are only {len(names)} clients to share out")
    assert data.y is not None
    parts = []
    for lo, hi in pairwise([len(names) * k // size for k in range(size + 1)]):
        parts.append(data.take(np.flatnonzero((lo <= code) & (code < hi))))
    return parts
