"""Columns as a pandas frame: the only file that imports pandas, which is an extra."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from errorfeedback.extras import import_extra

if TYPE_CHECKING:
    import pandas


def frame(columns: Mapping[str, Any]) -> pandas.DataFrame:
    """A frame with these columns."""
    made: pandas.DataFrame = import_extra("pandas", "a table in memory").DataFrame(dict(columns))
    return made
