"""What a user says about a file: which column is what, what a missing value means, how text becomes numbers."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

LIMIT = 2_000_000_000
"""Bytes that a compressed file may expand to."""


class Missing(StrEnum):
    """What is done about a value that is not there."""

    REFUSE = "refuse"
    IMPUTE = "impute"
    """Numbers: the median of training, and a column that marks the row; text: a value of its own."""
    DROP = "drop"
    """Without the row."""


@dataclass(frozen=True)
class Reading:
    """The options of reading; what a file has no use for is refused.

    drop, only: columns that are not features, or the only ones that are. text, number: columns to be taken as text, or as
    numbers, whatever they look like; what is no number there is missing. missing: None is `refuse` in training, and later
    what it was in training; so are decimal ("." in training) and date_format. index_base: the number of a LIBSVM file's
    first feature; None is found in the training file. labelled: False leaves the target out (predict). limit: bytes that a
    compressed file may expand to.
    """

    target: str | None = None
    client_column: str | None = None
    weight_column: str | None = None
    drop: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    text: tuple[str, ...] = ()
    number: tuple[str, ...] = ()
    missing: Missing | None = None
    index_base: int | None = None
    separator: str | None = None
    decimal: str | None = None
    charset: str = "utf-8"
    date_format: str | None = None
    labelled: bool = True
    limit: int = LIMIT

    def __post_init__(self) -> None:
        if self.index_base not in (None, 0, 1):
            raise ValueError(f"index_base = {self.index_base}; it must be 0 or 1, or None to find it in the file")
        for name, mark in (("separator", self.separator), ("decimal", self.decimal)):
            if mark is not None and (len(mark) != 1 or not mark.isascii() or mark in '"\r\n'):
                raise ValueError(f"{name} = {mark!r}; it must be one ASCII character, and neither a quote nor a line end")
        if self.limit < 1:
            raise ValueError(f"limit = {self.limit}; a file must be allowed to expand to at least 1 byte")
        try:
            codecs.lookup(self.charset)
        except LookupError as error:
            raise ValueError(
                f"charset = {self.charset!r}; no such charset is known (utf-8, latin-1, cp1252, ...)"
            ) from error

    @property
    def later(self) -> Reading:
        """For a file that is read after training: its features are those of the encoding."""
        return replace(self, client_column=None, weight_column=None, drop=(), only=(), text=(), number=())

    def refuse_columns(self, name: str) -> None:
        """For a file whose columns have no names."""
        given = {
            "client column": self.client_column,
            "weight column": self.weight_column,
            "columns to drop": self.drop,
            "columns to keep": self.only,
            "text columns": self.text,
            "number columns": self.number,
        }
        for what, value in given.items():
            if value:
                hint = "; name the clients with --groups" if what == "client column" else ""
                raise ValueError(f"{name} has no columns with names, so {what} = {value!r} cannot be found in it{hint}")


def named(words: Sequence[str], names: Sequence[str], option: str) -> list[str]:
    """The columns that an option names: "Id,Name" are two, unless a column has that very name."""
    chosen = [name for word in words for name in ([word] if word in names else word.split(","))]
    for name in chosen:
        if name not in names:
            raise ValueError(f"{option} {name!r}: no such column; the columns are {', '.join(map(repr, names))}")
    return chosen
