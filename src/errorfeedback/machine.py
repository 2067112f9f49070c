"""Two instructions that numba has no name for."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

UNORDERED = ("nnan", "nsz")
KEPT = 3
"""What is asked for is kept in every cache."""


def _larger(typing: Any, a: Any, b: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.select(builder.fcmp_ordered(">", *args, flags=UNORDERED), *args, flags=UNORDERED)

    return (a(a, a), code) if isinstance(a, types.Float) and a == b else None


def _prefetch(typing: Any, array: Any, index: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        start = context.make_array(signature.args[0])(context, builder, args[0]).data
        at = context.cast(builder, args[1], signature.args[1], types.intp)
        place = builder.bitcast(builder.gep(start, [at]), cgutils.voidptr_t)
        word = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, word, word, word])
        ask = builder.module.declare_intrinsic("llvm.prefetch", [cgutils.voidptr_t], kind)
        builder.call(ask, [place, word(0), word(KEPT), word(1)])  # to be read; data
        return context.get_dummy_value()

    return (types.void(array, index), code) if getattr(array, "layout", "") == "C" else None


larger: Any = intrinsic(_larger)
"""The larger of two floats that are not NaN. Unlike with max(), the largest of many is found in vector registers."""
prefetch: Any = intrinsic(_prefetch)
"""prefetch(array, index): ask for an entry of a contiguous array, so that it is near when it is needed; nothing else."""
