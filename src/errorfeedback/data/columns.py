"""Columns of a table as a file has them, and what training learns from them.

A column is numbers, or text. Dates are numbers: days since 1970, and the feature is years since the first date of training.
Left out with a word: text that is another one in nearly every row (it would be learned by heart), a number that only counts
the rows, and a column with one value everywhere, or none. A column that looks like numbers or dates and is not quite is
refused.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from errorfeedback.core import Floats
from errorfeedback.data.encoding import YEAR, Category, Number, date

NUMBER_LIKE = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*")
COMMA_LIKE = re.compile(r"\s*[+-]?(\d+|\d{1,3}(\.\d{3})+)(,\d+)?\s*")
THOUSANDS_LIKE = re.compile(r"\s*[+-]?\d{1,3}(,\d{3})*(\.\d+)?\s*")
MONEY_LIKE = re.compile(r"\s*[+-]?([$€£¥]\s*[\d.,]+|[\d.,]+\s*[%$€£¥])\s*")
UNIT_LIKE = re.compile(r"\s*[+-]?[\d.,]*\d\s*([^\d\s.,;:_-]{1,6})\s*")
DATE_LIKE = re.compile(r"\s*(\d{1,4})([./-])\d{1,2}[./-]\d{1,4}(\D.*)?", re.DOTALL)
FEW = 20
"""Rows or values that are too few to say that a column names its rows."""
MOST = 0.5
"""Text with more different values than that share of its rows names the rows."""


@dataclass(frozen=True)
class NumberSummary:
    """What is to be known of a file's column of numbers. same: the number of every row (None: they differ); counts: 1, 2, 3,
    ... from that number on (None: it does not); names: a whole number in every row, another one in each."""

    present: int
    missing: int
    median: float
    lowest: float
    dates: bool
    same: float | None
    counts: int | None
    names: bool
    coerced: bool


@dataclass(frozen=True)
class TextSummary:
    """What is to be known of a file's column of text."""

    present: int
    missing: int
    values: tuple[str, ...]
    doubt: str | None = None
    """Why it may not be meant as text."""

    @property
    def same(self) -> str | None:
        """The text of every row (None: they differ)."""
        return self.values[0] if len(self.values) == 1 else None


Summary = NumberSummary | TextSummary


@dataclass(frozen=True, eq=False)
class Numbers:
    """values: NaN where there is none. dtype: what they were before they were floats. dates: they are days since 1970."""

    name: str
    values: Floats
    dtype: np.dtype[Any]
    dates: bool = False
    coerced: bool = False

    @property
    def missing(self) -> NDArray[np.bool_]:
        return np.isnan(self.values)

    def plain(self) -> NDArray[Any]:
        """As the file has them; none may be missing."""
        return self.values.astype(self.dtype)

    def take(self, rows: NDArray[Any]) -> Numbers:
        return Numbers(self.name, self.values[rows], self.dtype, self.dates, self.coerced)

    def summary(self) -> NumberSummary:
        there = self.values[~self.missing]
        whole = self.dtype.kind in "iu" and len(there) == len(self.values) > 0
        counts = int(there[0]) if whole and np.array_equal(np.diff(there), np.ones(len(there) - 1)) else None
        order = np.sort(there[np.isfinite(there)]) if np.isfinite(there).any() else np.zeros(1)
        return NumberSummary(
            present=len(there),
            missing=len(self.values) - len(there),
            median=0.5 * float(order[(len(order) - 1) // 2]) + 0.5 * float(order[len(order) // 2]),
            lowest=float(order[0]),
            dates=self.dates,
            same=float(order[0]) if len(order) == len(there) and order[0] == order[-1] else None,
            counts=counts,
            names=whole and bool(np.diff(order).all()),
            coerced=self.coerced,
        )


@dataclass(frozen=True, eq=False)
class Words:
    """Text: row by row a place in `values`, -1 where there is none."""

    name: str
    codes: NDArray[np.int64]
    values: tuple[str, ...]
    typed: bool = False
    """The file itself says that it is text."""

    @property
    def missing(self) -> NDArray[np.bool_]:
        return self.codes < 0

    def plain(self) -> NDArray[Any]:
        """As the file has it; none may be missing."""
        for value in self.values:
            if value.endswith("\0"):  # numpy fills text up with them, and takes them off again
                raise ValueError(f"column {self.name!r} has {value!r}; text cannot end in a zero byte, mend it")
        return np.asarray(self.values, dtype=str)[self.codes]

    def take(self, rows: NDArray[Any]) -> Words:
        return Words(self.name, self.codes[rows], self.values, self.typed)

    def summary(self) -> TextSummary:
        missing = int(self.missing.sum())
        return TextSummary(len(self.codes) - missing, missing, self.values, self._doubt())

    def numbers(self, decimal: str) -> Numbers:
        """What is a number in it; all else is missing."""
        said = [value.strip().replace(decimal, ".") for value in self.values]
        known = [float(value) if NUMBER_LIKE.fullmatch(value) and "," not in value else np.nan for value in said]
        return Numbers(self.name, np.array([*known, np.nan])[self.codes], np.dtype(np.float64), coerced=True)

    def _doubt(self) -> str | None:
        """Text that is mostly numbers, or mostly dates, was not meant as text."""
        if self.typed:
            return None
        for matches, kind, remedy in (
            (NUMBER_LIKE.fullmatch, "numbers", f"--number {self.name} takes what is no number as missing"),
            (MONEY_LIKE.fullmatch, "amounts with a sign", "write the numbers alone"),
            (THOUSANDS_LIKE.fullmatch, "numbers with commas", "write them without, or --decimal , for decimal commas"),
            (COMMA_LIKE.fullmatch, "numbers with a decimal comma", "--decimal , reads them"),
            (_is_date, "dates", "they must all be of one form, as 2020-01-31 or 2020-01-31 12:00:00"),
            (
                DATE_LIKE.fullmatch,
                "dates in another form than 2020-01-31",
                f"--date-format {_date_format(self.values)} says how they are written",
            ),
            (_with_unit(self.values), "numbers with a unit", "write the numbers alone"),
        ):
            alike = [bool(matches(value)) for value in self.values]
            if sum(alike) > MOST * len(alike):
                odd = (
                    "" if all(alike) else f", but has {self.values[alike.index(False)]!r} in {self._row(alike.index(False))}"
                )
                example = repr(self.values[alike.index(True)])
                return f"looks like {kind} ({example}){odd}; {remedy}; --text {self.name} takes it as text"
        return None

    def _row(self, code: int) -> str:
        return f"row {int(np.argmax(self.codes == code)) + 1}"


@dataclass(frozen=True, eq=False)
class Opaque:
    """Values of which no feature is made: lists, pictures. They may be there as long as nobody wants them."""

    name: str
    kind: str
    rows: int

    @property
    def missing(self) -> NDArray[np.bool_]:
        return np.zeros(self.rows, dtype=bool)

    def plain(self) -> NDArray[Any]:
        raise ValueError(f"column {self.name!r} {self._why()}")

    def take(self, rows: NDArray[Any]) -> Opaque:
        return Opaque(self.name, self.kind, len(rows))

    def summary(self) -> TextSummary:
        return TextSummary(self.rows, 0, (), self._why())

    def _why(self) -> str:
        return f"has values of type {self.kind}, of which nothing is made"


Column = Numbers | Words | Opaque


def _with_unit(values: Sequence[str]) -> Callable[[str], bool]:
    """Whether a value is a number with the unit that most have. Few values may well be names (2wd and 4wd), and so may what
    has many units (postcodes: 1012 AB)."""
    units = Counter(match[1] for match in map(UNIT_LIKE.fullmatch, values) if match)
    ((common, _),) = units.most_common(1) if units and len(values) > FEW else [("", 0)]

    def has(value: str) -> bool:
        match = UNIT_LIKE.fullmatch(value)
        return match is not None and match[1] == common

    return has


def _date_format(values: Sequence[str]) -> str:
    """How the first of them is probably written.

    >>> _date_format(["31.01.2020"]), _date_format(["2020/01/31"])
    ('%d.%m.%Y', '%Y/%m/%d')
    """
    match = next((match for match in map(DATE_LIKE.fullmatch, values) if match), None)
    if match is None:
        return "%d/%m/%Y"
    return match[2].join(("%Y", "%m", "%d") if len(match[1]) == 4 else ("%d", "%m", "%Y"))


def _is_date(text: str) -> bool:
    try:
        datetime.fromisoformat(text.strip())
    except ValueError:
        return False
    return True


def learned(
    name: str, files: Sequence[Summary], *, impute: bool, forced: bool
) -> tuple[Number | Category | None, str | None]:
    """What a column becomes, from its summaries in all files; None with the reason where it is left out."""
    known = [each for each in files if each.present]
    if not known:
        return None, f"column {name!r} has no value at all: left out"
    if len({type(each) for each in known}) > 1:
        raise ValueError(
            f"column {name!r} has text in some part files and numbers in others; --text {name} takes it as text"
        )
    gaps = any(each.missing for each in files)
    marked = impute and gaps
    texts = [each for each in known if isinstance(each, TextSummary)]
    if not forced and not gaps and _same(known):
        option = "--text" if texts else "--number"
        return None, f"column {name!r} has the same value in every row: left out ({option} {name} keeps it)"
    if texts:
        return _category(name, texts, marked, forced)
    return _number(name, [each for each in known if isinstance(each, NumberSummary)], marked, forced)


def _same(files: Sequence[Summary]) -> bool:
    """Whether all rows have one value, from which nothing is learned that the intercept does not have."""
    values = {each.same for each in files}
    return len(values) == 1 and None not in values and sum(each.present for each in files) >= FEW


def _category(name: str, files: Sequence[TextSummary], marked: bool, forced: bool) -> tuple[Category | None, str | None]:
    values, present = sorted({value for each in files for value in each.values}), sum(each.present for each in files)
    doubts = [each.doubt for each in files if each.doubt]
    if doubts and not forced:
        raise ValueError(f"column {name!r} {doubts[0]}; --drop {name} leaves it out")
    if not forced and len(values) >= FEW and len(values) > MOST * present:
        return None, (
            f"column {name!r} is text with {len(values):,} different values in {present:,} rows, so that it names the rows: "
            f"left out (--text {name} keeps it)"
        )
    return Category(name, tuple(values), marked), None


def _number(name: str, files: Sequence[NumberSummary], marked: bool, forced: bool) -> tuple[Number | None, str | None]:
    rows = sum(each.present for each in files)
    starts = [each.counts for each in files if each.counts is not None]
    if not forced and rows >= FEW and len(starts) == len(files) and min(starts) in (0, 1):
        return None, f"column {name!r} only counts the rows: left out (--number {name} keeps it)"
    if len({each.dates for each in files}) > 1:
        raise ValueError(f"column {name!r} has dates in some part files and numbers in others")
    fill, coerced = _median(files), any(each.coerced for each in files)
    if not files[0].dates:
        named = not forced and rows >= FEW and all(each.names for each in files)
        note = f"column {name!r} has another whole number in every row; if these only name the rows, --drop {name}"
        return Number(name, fill, marked, coerced=coerced), note if named else None
    origin = min(each.lowest for each in files)
    return Number(name, fill, marked, origin, coerced), f"column {name!r} has dates: it becomes years since {date(origin)}"


def _median(files: Sequence[NumberSummary]) -> float:
    """The median; of several files, the median of theirs, each as heavy as it has rows."""
    order = sorted(files, key=lambda each: each.median)
    heavy = np.cumsum([each.present for each in order])
    return order[int(np.searchsorted(heavy, heavy[-1] / 2))].median


def number_features(spec: Number, column: Numbers) -> Any:
    """The features of a column of numbers: (rows, 1), or (rows, 2) where missing ones are marked."""
    values, missing = column.values, column.missing
    if missing.any():
        if spec.fill is None:
            raise ValueError(
                f"column {spec.name!r} has missing values, and the model is of a version that kept no medians; "
                "train it again with --missing impute, or leave the rows out with --missing drop"
            )
        values = np.where(missing, spec.fill, values)
    if spec.origin is not None:
        values = (values - spec.origin) / YEAR
    return sparse.csr_array(np.column_stack([values, missing]) if spec.marked else values[:, None])


def category_features(spec: Category, column: Words) -> tuple[Any, str | None]:
    """One feature per value, and what is to be said about values that training did not see: they have none."""
    place = {value: j for j, value in enumerate(spec.values)}
    if spec.marked:
        places = np.array([place.get(value, -1) for value in column.values] + [len(spec.values)])  # [-1]: missing
    else:
        places = np.array([place.get(value, -1) for value in column.values] + [-1])
    columns = places[column.codes]
    rows = np.flatnonzero(columns >= 0)
    indicators = sparse.csr_array((np.ones(len(rows)), (rows, columns[rows])), shape=(len(column.codes), len(spec.names)))
    unseen = np.unique(column.codes[(columns < 0) & ~column.missing])
    if not len(unseen):
        return indicators, None
    count = int(np.isin(column.codes, unseen).sum())
    return (
        indicators,
        f"column {spec.name!r}: {count:,} rows have a value that training did not see ({_listed(column, unseen)}); ignored",
    )


def _listed(column: Words, codes: NDArray[Any]) -> str:
    return ", ".join(repr(column.values[code]) for code in codes[:3]) + (", ..." if len(codes) > 3 else "")
