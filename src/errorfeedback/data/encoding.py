"""What the columns of A mean, learned from the training data and kept with the model: a later file is read in the same way.

LIBSVM files have numbered features (`Indices`), .npz matrices have positions (`Positions`), tables have columns with names
(`Columns`): a `Number` is one feature, a `Category` one feature per value that training saw.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from math import isfinite
from typing import Any, ClassVar, overload

from errorfeedback.data.reading import Missing

YEAR = 365.25
"""Days."""


class Derived(Sequence[str]):
    """Names that are made when they are asked for: there may be ten million of them."""

    def __init__(self, width: int, name: Callable[[int], str]) -> None:
        self.width, self.name = width, name

    def __len__(self) -> int:
        return self.width

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        numbers = range(self.width)[index]
        return [self.name(j) for j in numbers] if isinstance(numbers, range) else self.name(numbers)


class Encoding(ABC):
    """How the columns of a file became features."""

    files: ClassVar[str]
    """What kind of file it is for."""

    @property
    @abstractmethod
    def width(self) -> int:
        """The number of features."""

    @property
    @abstractmethod
    def names(self) -> Sequence[str]:
        """A name for every feature."""

    def refuse(self, name: str, files: str) -> ValueError:
        """A file of another kind."""
        return ValueError(f"{name} is {files}, but the model was trained on {self.files}; give it rows of that kind")


@dataclass(frozen=True)
class Indices(Encoding):
    """Features `base`, ..., `base + count - 1`. base: None in models of a version that did not keep it."""

    count: int
    base: int | None

    files = "a LIBSVM file"

    def __post_init__(self) -> None:
        _whole("the number of features", self.count)
        if self.base not in (None, 0, 1):
            raise ValueError(f"index base = {self.base!r}; it must be 0 or 1")

    @property
    def width(self) -> int:
        return self.count

    @property
    def names(self) -> Sequence[str]:
        return Derived(self.count, lambda j: f"index {j + (1 if self.base is None else self.base)}")


@dataclass(frozen=True)
class Positions(Encoding):
    """Columns of a matrix without its target, which stood before column `target` of them."""

    count: int
    target: int

    files = "an .npz matrix"

    def __post_init__(self) -> None:
        _whole("the number of features", self.count)
        _whole("the target's column", self.target)

    @property
    def width(self) -> int:
        return self.count

    @property
    def names(self) -> Sequence[str]:
        return Derived(self.count, lambda j: f"column {j + (j >= self.target)}")


@dataclass(frozen=True)
class Number:
    """A column of numbers. fill: the median of training (None: not known); marked: a second feature says where the number
    was missing; origin: for dates, the first one of training in days since 1970, and the feature is years since then;
    coerced: what is no number is missing."""

    name: str
    fill: float | None = None
    marked: bool = False
    origin: float | None = None
    coerced: bool = False

    def __post_init__(self) -> None:
        _texts("column", [self.name])
        for what, value in (("the median", self.fill), ("the first date", self.origin)):
            if value is not None and not (isinstance(value, float) and isfinite(value)):
                raise ValueError(f"column {self.name!r}: {what} is {value!r}; it must be a number")

    @property
    def names(self) -> list[str]:
        since = "" if self.origin is None else f" (years since {date(self.origin)})"
        return [f"{self.name}{since}", *([f"{self.name} is missing"] if self.marked else [])]


@dataclass(frozen=True)
class Category:
    """A column of text. marked: one more feature says where the text was missing."""

    name: str
    values: tuple[str, ...]
    marked: bool = False

    def __post_init__(self) -> None:
        _texts("column", [self.name])
        _texts(f"value of column {self.name!r}", self.values)
        if len(set(self.values)) < len(self.values):
            raise ValueError(f"column {self.name!r}: a value is there twice")

    @property
    def names(self) -> list[str]:
        return [*(f"{self.name}={value}" for value in self.values), *([f"{self.name} is missing"] if self.marked else [])]


@dataclass(frozen=True)
class Columns(Encoding):
    """The columns of a table. missing: what was done in training about values that are not there. classes: the target was
    text, and so is '1' in a later file. decimal, date_format: how training's file wrote numbers and dates, where it was
    said."""

    columns: tuple[Number | Category, ...]
    missing: Missing = Missing.REFUSE
    classes: bool = False
    decimal: str | None = None
    date_format: str | None = None

    files = "a table with named columns (.csv, .tsv, .parquet)"

    @property
    def width(self) -> int:
        return len(self.names)

    @property
    def names(self) -> Sequence[str]:
        return [name for column in self.columns for name in column.names]


def date(days: float) -> str:
    """
    >>> date(18262.5)
    '2020-01-01'
    """
    try:
        return (datetime.fromtimestamp(0, UTC) + timedelta(days=days)).date().isoformat()
    except OverflowError:
        return f"day {days:g}"


KINDS: dict[str, Callable[..., Any]] = {kind.__name__: kind for kind in (Indices, Positions, Number, Category)}


def to_json(encoding: Encoding) -> dict[str, Any]:
    """For a model file.

    >>> to_json(Indices(3, base=1))
    {'kind': 'Indices', 'count': 3, 'base': 1}
    """
    if isinstance(encoding, Columns):
        columns = [_to_json(column) for column in encoding.columns]
        written = {"decimal": encoding.decimal, "date_format": encoding.date_format}
        return {"missing": encoding.missing.value, "classes": encoding.classes, **written, "columns": columns}
    return _to_json(encoding)


def from_json(tree: Any) -> Encoding:
    """The encoding again; ValueError where it is none.

    >>> made = Columns((Number("a"), Category("b", ("x", "y"))))
    >>> from_json(to_json(made)) == made
    True
    """
    if isinstance(tree, dict) and "columns" in tree:
        columns = tuple(_from_json(each) for each in tree["columns"])
        if not all(isinstance(column, (Number, Category)) for column in columns):
            raise ValueError("the encoding has a column that is neither numbers nor text")
        written = [tree.get(name) for name in ("decimal", "date_format")]  # None in files of earlier versions
        _texts("how numbers and dates are written:", [each for each in written if each is not None])
        return Columns(columns, Missing(str(tree.get("missing"))), tree.get("classes") is True, *written)
    made = _from_json(tree)
    if not isinstance(made, Encoding):
        raise ValueError(f"{tree!r} is not an encoding")
    return made


def _to_json(part: Any) -> dict[str, Any]:
    return {"kind": type(part).__name__, **asdict(part)}


def _from_json(tree: Any) -> Any:
    try:
        given = {name: tuple(value) if isinstance(value, list) else value for name, value in tree.items()}
        return KINDS[str(given.pop("kind"))](**given)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{tree!r} is not an encoding ({error})") from error


def _whole(what: str, value: Any) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**31:
        raise ValueError(f"{what} is {value!r}; it must be a whole number from 0 to 2147483647")


def _texts(what: str, values: Sequence[Any]) -> None:
    for value in values:
        if not isinstance(value, str):
            raise ValueError(f"{what} {value!r} is not text")
