"""Tables: CSV, TSV, Parquet. Columns with names become features; three of them may be the target, the client and the weight
of a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from errorfeedback.core import Floats
from errorfeedback.data.arrow import parquet, separated
from errorfeedback.data.columns import (
    Column,
    Numbers,
    Summary,
    TextSummary,
    Words,
    category_features,
    learned,
    number_features,
)
from errorfeedback.data.decompressing import kind
from errorfeedback.data.encoding import Category, Columns, Encoding, Number
from errorfeedback.data.reading import Missing, Reading, named
from errorfeedback.data.rows import Data, Raw

SEPARATORS: dict[str, str | None] = {".csv": None, ".tsv": "\t"}
"""None: found in the first line."""
TARGET = "target"


@dataclass(frozen=True, eq=False)
class TableFile(Raw):
    """A table as it is. index: columns that pandas wrote for its index."""

    path: Path
    columns: dict[str, Column]
    index: frozenset[str]

    @property
    def name(self) -> str:  # type: ignore[override]
        return self.path.name

    def summary(self) -> tuple[list[str], list[str], dict[str, Summary]]:
        return list(self.columns), sorted(self.index), {name: column.summary() for name, column in self.columns.items()}

    @staticmethod
    def learn(summaries: Sequence[Any], reading: Reading) -> tuple[Encoding, list[str]]:
        names, index, _ = summaries[0]
        if any(each[0] != names for each in summaries):
            raise ValueError("the part files have different columns; they must have the same, in the same order")
        forced = {*named(reading.text, names, "--text"), *named(reading.number, names, "--number")}
        missing = Missing.REFUSE if reading.missing is None else reading.missing
        specs: list[Number | Category] = []
        notes: list[str] = []
        refused: list[str] = []
        for name in _features(names, set(index) - forced, reading, notes):
            files = [each[2][name] for each in summaries]
            try:
                spec, note = learned(name, files, impute=missing is Missing.IMPUTE, forced=name in forced)
            except ValueError as error:  # of all columns together: nobody wants to hear of one after the other
                refused.append(str(error))
                continue
            specs += [] if spec is None else [spec]
            notes += [] if note is None else [note]
        if refused:
            raise ValueError("\nalso ".join(refused))
        if not specs:
            raise ValueError(f"no column is left to learn from; the columns are {', '.join(map(repr, names))}")
        classes = _classes(summaries, reading.target or TARGET)
        return Columns(tuple(specs), missing, classes, reading.decimal, reading.date_format), notes

    def encoded(self, encoding: Encoding, reading: Reading) -> Data:
        if not isinstance(encoding, Columns):
            raise encoding.refuse(self.name, Columns.files)
        roles = self._roles(reading)
        kept, notes = self._kept(encoding, roles, reading)
        rows = np.flatnonzero(kept)
        A, more = self._matrix(encoding, rows)
        target, client, weight = (None if each is None else each.take(rows) for each in roles)
        return Data(
            A=A,
            y=None if target is None else self._plain_target(target),
            clients=None if client is None else self._plain(client),
            encoding=encoding,
            name=self.name,
            weights=None if weight is None else self._weights(weight),
            kept=None if kept.all() else kept,
            notes=(*notes, *more),
        )

    def _roles(self, reading: Reading) -> tuple[Column | None, Column | None, Column | None]:
        """Target, client, weight."""
        target = reading.target or TARGET
        given = {"target": target, "client": reading.client_column, "weight": reading.weight_column}
        names = [name for name in given.values() if name is not None]
        if len(set(names)) < len(names):
            raise ValueError(f"{self.path}: a column cannot be two of {given}; name another")
        for what, name in given.items():
            if name is not None and name not in self.columns and what != "target":
                raise ValueError(f"{self.path}: no {what} column {name!r}; the columns are {', '.join(self.columns)}")
        client, weight = (self.columns[n] if n else None for n in (reading.client_column, reading.weight_column))
        return self.columns.get(target) if reading.labelled else None, client, weight

    def _kept(
        self, encoding: Columns, roles: Sequence[Column | None], reading: Reading
    ) -> tuple[NDArray[np.bool_], list[str]]:
        """Which rows are taken, where values are missing, and what is to be said about it."""
        policy = encoding.missing if reading.missing is None else reading.missing
        absent = [spec.name for spec in encoding.columns if spec.name not in self.columns]
        if absent:
            raise ValueError(f"{self.path}: no column {', '.join(map(repr, absent))}, which the model was trained with")
        gaps = _gaps([self.columns[spec.name] for spec in encoding.columns])
        needed = _gaps([role for role in roles if role is not None])
        if policy is Missing.REFUSE and (gaps or needed):
            raise ValueError(
                f"{self.path}: values are missing (in how many of {self._length:,} rows) in {_counted(gaps | needed)}; "
                "--missing impute fills numbers with the median and makes missing text a value of its own, "
                "--missing drop leaves the rows out"
            )
        fatal, filled = (gaps | needed, {}) if policy is Missing.DROP else (needed, gaps)
        kept = ~np.logical_or.reduce([np.zeros(self._length, dtype=bool), *fatal.values()])
        out = f"{(~kept).sum():,} of {self._length:,} rows are left out: values are missing in {_counted(fatal)}"
        if not kept.any():
            raise ValueError(f"{self.path}: {out}; none is left")
        notes = [*([out] if fatal else []), *([f"missing values are filled in: {_counted(filled)}"] if filled else [])]
        return kept, [f"{self.name}: {note}" for note in notes]

    @property
    def _length(self) -> int:
        return len(next(iter(self.columns.values())).missing)

    def _matrix(self, encoding: Columns, rows: NDArray[Any]) -> tuple[sparse.csr_array, list[str]]:
        parts, notes = [], []
        for spec in encoding.columns:
            column = self.columns[spec.name].take(rows)
            if column.missing.all() and isinstance(spec, Category):
                column = Words(spec.name, np.full(len(rows), -1), ())
            if isinstance(spec, Number) and isinstance(column, Numbers):
                self._refuse_infinite(column)
                parts.append(number_features(spec, column))
            elif isinstance(spec, Category) and isinstance(column, Words):
                features, note = category_features(spec, column)
                parts.append(features)
                notes += [] if note is None else [f"{self.name}: {note}"]
            else:
                there = "text" if isinstance(spec, Category) else "numbers"
                raise ValueError(f"{self.path}: column {spec.name!r} has no {there}, with which the model was trained")
        return sparse.csr_array(sparse.hstack(parts, format="csr")), notes

    def _refuse_infinite(self, column: Numbers) -> None:
        if np.isinf(column.values).any():
            whole = self.columns[column.name]
            assert isinstance(whole, Numbers)
            row = int(np.argmax(np.isinf(whole.values))) + 1
            raise ValueError(
                f"{self.path}: column {column.name!r} has infinity in row {row}; --drop {column.name}, or mend it"
            )

    def _plain_target(self, target: Column) -> NDArray[Any]:
        if isinstance(target, Numbers):
            self._refuse_infinite(target)
            if target.dates:
                raise ValueError(f"{self.path}: the target {target.name!r} has dates; it must have classes or numbers")
        return self._plain(target)

    def _plain(self, column: Column) -> NDArray[Any]:
        try:
            return column.plain()
        except ValueError as error:
            raise ValueError(f"{self.path}: {error}") from error

    def _weights(self, weight: Column) -> Floats:
        if not isinstance(weight, Numbers) or weight.dates:
            raise ValueError(f"{self.path}: the weight column {weight.name!r} must have numbers")
        bad = ~(np.isfinite(weight.values) & (weight.values >= 0))
        if bad.any() or not weight.values.any():
            why = f"is {weight.values[bad][0]:g} in a row" if bad.any() else "is 0 in every row"
            raise ValueError(f"{self.path}: the weight {weight.name!r} {why}; weights are at least 0, and not all 0")
        return weight.values.astype(np.float64)


def _gaps(columns: Sequence[Column]) -> dict[str, NDArray[np.bool_]]:
    """In which rows of which columns values are missing."""
    return {column.name: column.missing for column in columns if column.missing.any()}


def _counted(gaps: dict[str, NDArray[np.bool_]]) -> str:
    return ", ".join(f"{name!r} ({mask.sum():,})" for name, mask in gaps.items())


def _features(names: Sequence[str], index: set[str], reading: Reading, notes: list[str]) -> list[str]:
    """The columns to learn from."""
    only, drop = named(reading.only, names, "--only"), named(reading.drop, names, "--drop")
    target = reading.target or TARGET
    if target not in names:
        first = "; the first line of a table must name its columns" if all(map(_is_number, names[:-1])) else ""
        raise ValueError(f"no target column {target!r}; the columns are {', '.join(map(repr, names))} (--target){first}")
    if target in {*drop, *only}:
        raise ValueError(f"{target!r} is the target, which is no feature; leave it out of --drop and --only")
    others = {target, reading.client_column, reading.weight_column, *drop}
    if only:
        return [name for name in only if name not in others]
    notes += [f"column {name!r} is the index of a pandas table: left out" for name in names if name in index - others]
    return [name for name in names if name not in others | index]


def _classes(summaries: Sequence[Any], target: str) -> bool:
    """Whether the target is text."""
    text = {isinstance(each[2][target], TextSummary) for each in summaries}
    if len(text) > 1:
        raise ValueError(f"the target {target!r} is text in some part files and numbers in others; --text {target}")
    return text.pop()


def _is_number(name: str) -> bool:
    return name.lstrip("+-").replace(".", "", 1).isdigit()


def _as_written(reading: Reading, encoding: Encoding | None) -> Reading:
    """The options with the decimal point and the form of dates that training's file had, where nothing else is said."""
    known = encoding if isinstance(encoding, Columns) else Columns(())
    return replace(
        reading, decimal=reading.decimal or known.decimal or ".", date_format=reading.date_format or known.date_format
    )


def open_table(path: Path, reading: Reading, encoding: Encoding | None) -> TableFile:
    """A table as it is. What a column is by the options or by the encoding, it is whatever it looks like in this file."""
    specs = encoding.columns if isinstance(encoding, Columns) else ()
    reading = _as_written(reading, encoding)
    coerced = {spec.name for spec in specs if isinstance(spec, Number) and spec.coerced}
    if kind(path) == ".parquet":
        columns, index = parquet(path, reading)
    else:
        asked = [word for words in (reading.text, reading.number) for each in words for word in (each, *each.split(","))]
        text = {spec.name for spec in specs if isinstance(spec, Category)} | coerced | set(asked)
        if isinstance(encoding, Columns) and encoding.classes:
            text.add(reading.target or TARGET)
        columns, index = separated(path, reading, text, SEPARATORS[kind(path)]), set()
    names = list(columns)
    if encoding is None:
        coerced = set(named(reading.number, names, "--number"))
    for name in coerced & set(names):
        column = columns[name]
        columns[name] = column.numbers(reading.decimal or ".") if isinstance(column, Words) else column
    return TableFile(path, columns, frozenset(index))
