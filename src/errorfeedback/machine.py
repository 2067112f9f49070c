"""An instruction that numba has no name for."""

from __future__ import annotations

from typing import Any

from numba.core import types
from numba.extending import intrinsic

UNORDERED = ("nnan", "nsz")


def _larger(typing: Any, a: Any, b: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.select(builder.fcmp_ordered(">", *args, flags=UNORDERED), *args, flags=UNORDERED)

    return (a(a, a), code) if isinstance(a, types.Float) and a == b else None


larger: Any = intrinsic(_larger)
"""The larger of two floats that are not NaN. Unlike with max(), the largest of many is found in vector registers."""
