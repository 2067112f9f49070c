"""What the verbs that read data share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import typer
from numpy.typing import NDArray

from errorfeedback.cli.verbs._reading import ColumnOptions, FileOptions, IndexBase
from errorfeedback.data.read import read
from errorfeedback.data.reading import Reading
from errorfeedback.data.rows import Data
from errorfeedback.engines.base import Engine
from errorfeedback.engines.local import Local
from errorfeedback.engines.mpi import MPI
from errorfeedback.engines.ray import Ray
from errorfeedback.engines.threads import Threads
from errorfeedback.estimators.model_file import Saved, load_model
from errorfeedback.planner.network import quantity

SIZES = {"B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9}
MOST_NOTES = 40
"""A folder may have thousands of parts, each with something to say."""
ENGINES: dict[str, Callable[[], Engine]] = {"local": Local, "threads": Threads, "mpi": MPI, "ray": Ray}


def engine_of(name: str, timeout: float | None) -> Engine:
    """The engine of that name."""
    if name not in ENGINES:
        raise ValueError(f"engine = {name!r}; it must be one of {', '.join(ENGINES)}")
    return with_timeout(ENGINES[name](), timeout)


def with_timeout(engine: Engine, timeout: float | None) -> Engine:
    """An engine that waits no longer than that for a silent rank."""
    if timeout is None:
        return engine
    if not isinstance(engine, MPI):
        raise ValueError(f"timeout = {timeout:g}, but nobody waits for others here; it is for the ranks of mpiexec")
    return MPI(timeout)


def budget_of(text: str) -> float | None:
    """Bytes, from "1MB"."""
    size = quantity("budget", text, SIZES) if text else None
    if size == 0:
        raise ValueError(f"budget = {text!r}; it must be above 0")
    return size


def reading_of(options: FileOptions) -> Reading:
    """What the options say about a file."""
    made = Reading(
        target=options.target,
        missing=options.missing,
        index_base=None if options.index_base is IndexBase.AUTO else int(options.index_base),
        separator="\t" if options.separator == r"\t" else options.separator,
        decimal=options.decimal,
        charset=options.charset,
        date_format=options.date_format,
        limit=int(quantity("expand limit", options.expand_limit, SIZES)),
    )
    if not isinstance(options, ColumnOptions):
        return made
    return replace(
        made,
        client_column=options.client_column,
        weight_column=options.weight_column,
        drop=tuple(options.drop or ()),
        only=tuple(options.only or ()),
        text=tuple(options.text or ()),
        number=tuple(options.number or ()),
    )


def say(notes: Sequence[str]) -> None:
    """What was decided, filled in or left out while reading; not among the results."""
    for note in notes[:MOST_NOTES]:
        typer.echo(note, err=True)
    if len(notes) > MOST_NOTES:
        typer.echo(f"... and {len(notes) - MOST_NOTES} more such notes", err=True)


def groups_of(path: Path | None, data: Data) -> NDArray[Any] | None:
    """One client per row: from a file with one name per line, or from the data's own column."""
    if path is None:
        return data.clients
    names = np.asarray([line.strip() for line in path.read_text(encoding="utf-8").splitlines()])
    if len(names) != data.file_rows:
        raise ValueError(f"{path} names {len(names)} clients, but {data.name} has {data.file_rows} rows; give one per row")
    if "" in names:
        raise ValueError(f"{path}: line {names.tolist().index('') + 1} is empty; name a client in every line")
    return names if data.kept is None else names[data.kept]


def model_and_data(run: Path, source: str, reading: Reading) -> tuple[Saved, Data]:
    """A trained model and data in its encoding."""
    saved = load_model(run)
    given = reading.target if reading.target is not None else saved.provenance.get("target")
    rows = read(source, replace(reading, target=given), encoding=saved.encoding)
    say(rows.notes)
    return saved, rows
