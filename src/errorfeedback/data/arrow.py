"""CSV, TSV and Parquet by pyarrow, an optional extra: a file -> columns of numbers and of text.

Whole numbers that a float cannot tell apart (above 2^53) are text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from errorfeedback.data.columns import Column, Numbers, Opaque, Words
from errorfeedback.data.decompressing import chunks, damage, lines, seekable, too_large
from errorfeedback.data.reading import Reading
from errorfeedback.extras import import_extra

DAY = 86_400_000_000
"""Microseconds."""


def arrow(module: str = "pyarrow") -> Any:
    """pyarrow, where it is installed."""
    return import_extra(module, "reading CSV, TSV and Parquet")


def separated(path: Path, reading: Reading, text: Collection[str], default: str | None) -> dict[str, Column]:
    """The columns of a CSV file. text: columns that are text whatever they look like."""
    arrow_csv, invalid = arrow("pyarrow.csv"), arrow().ArrowException
    mark = reading.separator or default or _separator(_head(path, reading))
    if mark == reading.decimal:
        raise ValueError(f"{path}: {mark!r} separates the columns, so it cannot be the decimal point too")
    formats = [arrow_csv.ISO8601] if reading.date_format is None else [reading.date_format, arrow_csv.ISO8601]
    try:
        with seekable(path, reading.limit) as file:
            table = arrow_csv.read_csv(
                file,
                read_options=arrow_csv.ReadOptions(encoding=reading.charset),
                parse_options=arrow_csv.ParseOptions(delimiter=mark, newlines_in_values=True),
                convert_options=arrow_csv.ConvertOptions(
                    column_types=dict.fromkeys(text, arrow().string()),
                    strings_can_be_null=True,
                    decimal_point=reading.decimal,
                    timestamp_parsers=formats,
                ),
            )
            names = table.column_names
    except (invalid, UnicodeError) as error:
        raise _not_utf8(path, reading) or ValueError(f"{path}: {damage(error)}") from error
    _refuse_twice(path, names)
    if any(arrow().types.is_binary(field.type) for field in table.schema):
        raise _not_utf8(path, reading) or ValueError(f"{path}: the file has bytes that are not text")
    return _columns(path, table, names)


def parquet(path: Path, reading: Reading) -> tuple[dict[str, Column], set[str]]:
    """The columns of a Parquet file, and which of them are pandas' index."""
    reader, invalid = arrow("pyarrow.parquet"), arrow().ArrowException
    try:
        with seekable(path, reading.limit) as file, reader.ParquetFile(file, page_checksum_verification=True) as opened:
            size = sum(opened.metadata.row_group(g).total_byte_size for g in range(opened.metadata.num_row_groups))
            cells = opened.metadata.num_rows * opened.metadata.num_columns
            if max(size, 8 * cells) > reading.limit:
                raise too_large(path, reading.limit)
            table = opened.read()
            names = table.column_names
    except (invalid, OSError, UnicodeError, KeyError, TypeError, OverflowError) as error:
        raise ValueError(f"{path}: not a Parquet file, or damaged ({damage(error)})") from error
    _refuse_twice(path, names)
    columns = _columns(path, table, names)
    typed = {n: replace(c, typed=True) if isinstance(c, Words) else c for n, c in columns.items()}
    return typed, _index(table) & set(names)


def _index(table: Any) -> set[str]:
    """Columns that pandas wrote for its index."""
    try:
        indices = json.loads((table.schema.metadata or {}).get(b"pandas", b"{}"))["index_columns"]
        named = {name for name in indices if isinstance(name, str)}
    except (ValueError, KeyError, TypeError):
        named = set()
    return named | {name for name in table.column_names if re.fullmatch(r"__index_level_\d+__", name)}


def _columns(path: Path, table: Any, names: Sequence[str]) -> dict[str, Column]:
    if not table.num_rows:
        raise ValueError(f"{path}: the table has no rows")
    try:
        return {name: _column(name, table.column(k)) for k, name in enumerate(names)}
    except (arrow().ArrowException, UnicodeError) as error:
        raise ValueError(f"{path}: damaged ({damage(error)})") from error


def _column(name: str, column: Any) -> Column:
    """A column by its type."""
    pa = arrow()
    kinds: list[tuple[Callable[[Any], bool], Callable[[str, Any], Column]]] = [
        (pa.types.is_dictionary, lambda n, c: _column(n, c.cast(c.type.value_type))),
        (pa.types.is_integer, _whole),
        (pa.types.is_boolean, lambda n, c: Numbers(n, _floats(c), np.dtype(bool))),
        (pa.types.is_floating, lambda n, c: Numbers(n, _floats(c), np.dtype(np.float64))),
        (pa.types.is_decimal, lambda n, c: Numbers(n, _floats(c), np.dtype(np.float64))),
        (pa.types.is_null, lambda n, c: Numbers(n, np.full(len(c), np.nan), np.dtype(np.float64))),
        (pa.types.is_date, _dates),
        (pa.types.is_timestamp, _dates),
        (pa.types.is_time, lambda n, c: _seconds(n, c, pa.time64("us"))),
        (pa.types.is_duration, lambda n, c: _seconds(n, c, pa.duration("us"))),
        (pa.types.is_string, _words),
        (pa.types.is_large_string, _words),
        (pa.types.is_string_view, _words),
    ]
    for matches, made in kinds:
        if matches(column.type):
            return made(name, column)
    return Opaque(name, str(column.type), len(column))


def _floats(column: Any) -> Any:
    return arrow("pyarrow.compute").cast(column, arrow().float64(), safe=False).fill_null(np.nan).to_numpy()


def _whole(name: str, column: Any) -> Column:
    compute = arrow("pyarrow.compute")
    extent = compute.min_max(column).as_py()
    if max(abs(extent["min"] or 0), abs(extent["max"] or 0)) > 2**53:
        return replace(_words(name, column.cast(arrow().string())), typed=True)
    return Numbers(name, _floats(column), np.dtype(np.int64))


def _dates(name: str, column: Any) -> Numbers:
    pa, compute = arrow(), arrow("pyarrow.compute")
    zone = column.type.tz if pa.types.is_timestamp(column.type) else None
    moments = compute.cast(column, pa.timestamp("us", zone), safe=False)
    return Numbers(name, _floats(compute.cast(moments, pa.int64())) / DAY, np.dtype(np.float64), dates=True)


def _seconds(name: str, column: Any, kind: Any) -> Numbers:
    compute = arrow("pyarrow.compute")
    ticks = compute.cast(compute.cast(column, kind, safe=False), arrow().int64())
    return Numbers(name, _floats(ticks) / 1e6, np.dtype(np.float64))


def _words(name: str, column: Any) -> Words:
    encoded = column.cast(arrow().large_string()).combine_chunks().dictionary_encode()
    codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    return Words(name, codes, tuple(encoded.dictionary.to_pylist()))


def _head(path: Path, reading: Reading) -> str:
    """The first line."""
    start = b""
    for chunk in chunks(path, reading.limit):
        start += chunk
        if b"\n" in chunk or b"\r" in chunk:
            break
    if not start.strip():
        raise ValueError(f"{path}: the file is empty")
    line = start.replace(b"\r", b"\n").lstrip(b"\n").partition(b"\n")[0]
    try:
        return line.decode(reading.charset).removeprefix("\ufeff")
    except UnicodeError as error:
        raise _not_utf8(path, reading) or ValueError(f"{path}: {error}") from error


def _separator(head: str) -> str:
    """The first of , ; and tab that is in the first line outside quotes."""
    bare = re.sub(r'"[^"]*"', "", head)
    return next((mark for mark in ",;\t" if mark in bare), ",")


def _refuse_twice(path: Path, names: Sequence[str]) -> None:
    twice = sorted({name for name in names if list(names).count(name) > 1})
    if twice:
        raise ValueError(f"{path}: several columns are called {', '.join(map(repr, twice))}; rename all but one of them")


def _not_utf8(path: Path, reading: Reading) -> ValueError | None:
    """The line that is not in the charset."""
    number = 0
    for batch in lines(path, reading.limit):
        for line in batch:
            number += 1
            try:
                line.decode(reading.charset)
            except UnicodeError as error:
                return ValueError(
                    f"{path}, line {number}: not {reading.charset} ({error}); say what it is written in: --charset latin-1"
                )
    return None
