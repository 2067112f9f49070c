"""Data from files: LIBSVM, CSV and TSV, Parquet (by pyarrow, an optional extra), and .npz of scipy.sparse.

A table's columns of numbers are taken as they are; columns of text become one column per value (one-hot). What was done is
an `Encoding`, so that a second file is read in the same way; a value that was not seen in training is all zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from errorfeedback.data.libsvm import KNOWN, load
from errorfeedback.extras import import_extra


@dataclass(frozen=True)
class Encoding:
    """How columns became features: (name, None) for numbers, (name, values) for text. Without columns: just a width."""

    width: int
    columns: tuple[tuple[str, tuple[str, ...] | None], ...] = ()

    @property
    def names(self) -> list[str]:
        """A name for every feature."""
        if not self.columns:
            return [f"index {j + 1}" for j in range(self.width)]
        return [n if v is None else f"{n}={value}" for n, v in self.columns for value in (("",) if v is None else v)]


@dataclass(frozen=True, eq=False)
class Data:
    """What a file holds. y is None where the file has no target, clients where it names none."""

    A: sparse.csr_array
    y: NDArray[Any] | None
    clients: NDArray[Any] | None
    encoding: Encoding
    name: str


def read(
    source: str, *, target: str | None = None, client_column: str | None = None, encoding: Encoding | None = None
) -> Data:
    """Read a file by its ending; what is neither a table nor .npz is LIBSVM (or the name of a known data set).

    target: the column to predict (tables: "target" by default; .npz: its number, the last by default). With `encoding`
    the columns are those of training, and the target may be missing.
    """
    path = Path(source)
    if not path.exists() and source not in KNOWN:
        raise FileNotFoundError(f"{source}: no such file, and not a known data set ({', '.join(KNOWN)})")
    if path.suffix in TABLES and path.is_file():
        return _table(path, TABLES[path.suffix](path), target or "target", client_column, encoding)
    if client_column is not None:
        raise ValueError(f"{source} has no columns with names, so there is no client column {client_column!r}; use --groups")
    if path.suffix == ".npz" and path.is_file():
        return _npz(path, target, encoding)
    if source not in KNOWN and path.is_file() and not path.stat().st_size:
        raise ValueError(f"{source}: the file is empty")
    found = load(source, features=None if encoding is None else encoding.width)
    return Data(found.A, found.y, None, Encoding(found.A.shape[1]), found.name)


def _npz(path: Path, target: str | None, encoding: Encoding | None) -> Data:
    try:
        A = sparse.csc_array(sparse.load_npz(path))
    except (ValueError, OSError, KeyError) as error:
        raise ValueError(f"{path}: not a matrix saved by scipy.sparse.save_npz ({error})") from error
    if encoding is not None and A.shape[1] == encoding.width:
        return Data(sparse.csr_array(A), None, None, encoding, path.name)
    column = A.shape[1] - 1 if target is None else int(target)
    if not 0 <= column < A.shape[1]:
        raise ValueError(f"{path}: target column {column}, but the matrix has {A.shape[1]} columns")
    rest = np.delete(np.arange(A.shape[1]), column)
    y = A[:, [column]].toarray().ravel()
    return Data(sparse.csr_array(A[:, rest]), y, None, Encoding(len(rest)), path.name)


def _arrow(module: str) -> Any:
    return import_extra(module, "reading CSV, TSV and Parquet")


def _separated(delimiter: str) -> Callable[[Path], Any]:
    def reader(path: Path) -> Any:
        csv = _arrow("pyarrow.csv")
        try:
            return csv.read_csv(path, parse_options=csv.ParseOptions(delimiter=delimiter))
        except _arrow("pyarrow").ArrowInvalid as error:
            raise ValueError(f"{path}: {error}") from error

    return reader


def _parquet(path: Path) -> Any:
    try:
        return _arrow("pyarrow.parquet").read_table(path)
    except _arrow("pyarrow").ArrowInvalid as error:
        raise ValueError(f"{path}: {error}") from error


TABLES: dict[str, Callable[[Path], Any]] = {".csv": _separated(","), ".tsv": _separated("\t"), ".parquet": _parquet}


def _table(path: Path, table: Any, target: str, client_column: str | None, encoding: Encoding | None) -> Data:
    names = list(table.column_names)
    if not table.num_rows:
        raise ValueError(f"{path}: the table has no rows")
    if encoding is None and target not in names:
        raise ValueError(f"{path}: no target column {target!r}; the columns are {', '.join(names)} (--target)")
    if client_column is not None and client_column not in names:
        raise ValueError(f"{path}: no client column {client_column!r}; the columns are {', '.join(names)}")
    columns = {name: _column(path, name, table) for name in names}
    y = columns.get(target)
    clients = None if client_column is None else columns[client_column]
    if encoding is None:
        encoding = _learn({n: c for n, c in columns.items() if n not in (target, client_column)}, path)
    return Data(_encode(path, columns, encoding), y, clients, encoding, path.name)


def _column(path: Path, name: str, table: Any) -> NDArray[Any]:
    column = table.column(name)
    if column.null_count:
        row = next(k for k, value in enumerate(column.to_pylist()) if value is None)
        raise ValueError(f"{path}: column {name!r} has no value in row {row + 1}; fill it or drop the row")
    values = np.asarray(column.to_pylist())
    return values if values.dtype.kind in "fiub" else values.astype(str)


def _learn(columns: dict[str, NDArray[Any]], path: Path) -> Encoding:
    if not columns:
        raise ValueError(f"{path}: no column is left to learn from")
    learned = tuple((n, None if c.dtype.kind in "fiub" else tuple(np.unique(c).tolist())) for n, c in columns.items())
    return Encoding(sum(1 if values is None else len(values) for _, values in learned), learned)


def _encode(path: Path, columns: dict[str, NDArray[Any]], encoding: Encoding) -> sparse.csr_array:
    missing = [name for name, _ in encoding.columns if name not in columns]
    if missing:
        raise ValueError(f"{path}: no column {missing[0]!r}, which the model was trained with")
    parts = [_features(path, name, columns[name], values) for name, values in encoding.columns]
    return sparse.csr_array(sparse.hstack(parts, format="csr"))


def _features(path: Path, name: str, column: NDArray[Any], values: Sequence[str] | None) -> Any:
    if values is None:
        if column.dtype.kind not in "fiub":
            raise ValueError(f"{path}: column {name!r} has text, but the model was trained with numbers there")
        return sparse.csr_array(column.astype(np.float64)[:, None])
    encoder = import_module("sklearn.preprocessing").OneHotEncoder(categories=[list(values)], handle_unknown="ignore")
    return encoder.fit(np.asarray(values)[:, None]).transform(column.astype(str)[:, None])
