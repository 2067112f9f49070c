"""What a verb is told about a file: `FileOptions` for every file, `ColumnOptions` where a model is to be trained."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

import typer

from errorfeedback.data.reading import LIMIT, Missing

PANEL = "Reading the data"
MISSING = "Rows with missing values: refuse them, impute (median and a mark; text: a value of its own), or drop them."


class IndexBase(StrEnum):
    """The number of a LIBSVM file's first feature."""

    AUTO = "auto"
    ZERO = "0"
    ONE = "1"


def _option(text: str, *names: str, default: str | bool = True) -> Any:
    return typer.Option(*names, help=text, rich_help_panel=PANEL, show_default=default)


@dataclass(frozen=True, kw_only=True)
class FileOptions:
    """How a file is written, and what its gaps mean."""

    target: Annotated[str | None, _option("The column to predict (tables: 'target'; .npz: its number, or the last).")] = None
    missing: Annotated[Missing | None, _option(MISSING, default="refuse; later: as in training")] = None
    index_base: Annotated[
        IndexBase,
        _option("The first index of LIBSVM files. auto: 0 if the training data has one, then the same."),
    ] = IndexBase.AUTO
    separator: Annotated[str | None, _option("Between the columns of a .csv.", default="found in its first line")] = None
    decimal: Annotated[str | None, _option("The decimal point of a .csv file.", default=".; later: as in training")] = None
    charset: Annotated[str, _option("What a .csv file is written in, as latin-1.")] = "utf-8"
    date_format: Annotated[
        str | None, _option("How a .csv file writes dates, as %d/%m/%Y.", default="2020-01-31; later: as in training")
    ] = None
    expand_limit: Annotated[str, _option("What a compressed file may expand to.")] = f"{LIMIT / 1e9:g}GB"


@dataclass(frozen=True, kw_only=True)
class ColumnOptions(FileOptions):
    """Which column is what."""

    client_column: Annotated[str | None, _option("The column of a table that names the client.")] = None
    weight_column: Annotated[str | None, _option("The column of a table with the weight of every row.")] = None
    drop: Annotated[list[str] | None, _option("Columns that are not features: Id,Name.")] = None
    only: Annotated[list[str] | None, _option("The only columns that are features.")] = None
    text: Annotated[list[str] | None, _option("Columns to be taken as text, whatever they look like.")] = None
    number: Annotated[list[str] | None, _option("Columns of numbers, where what is no number is missing.")] = None
