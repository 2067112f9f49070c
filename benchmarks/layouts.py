"""Where dense blocks overtake sparse rows: the gradient of all clients in both layouts, against the fill of their blocks.

The constant FILL of `problems/blocks/dense.py` is the fill at which this table's ratio crosses 1, taken a little higher
because dense blocks also take more memory. Least squares, 100 clients with 12 rows of 200 features each, one core.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy import sparse

from errorfeedback.problems.blocks.csr import CSR
from errorfeedback.problems.blocks.dense import FILL, Dense
from errorfeedback.sparsity.support import support_of

CLIENTS, ROWS, FEATURES, REPEATS = 100, 12, 200, 9


def seconds(call: Callable[[], None], times: int = 20) -> float:
    begin = time.perf_counter()
    for _ in range(times):
        call()
    return (time.perf_counter() - begin) / times


def main() -> None:
    table = Table(title=f"a gradient of all clients: time in dense blocks / time in sparse rows (FILL = {FILL})")
    for column in ("fill", "dense, us", "sparse, us", "ratio (spread)", "bytes, dense / sparse"):
        table.add_column(column)
    for fill in (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 1.0):
        rng = np.random.default_rng(0)
        A = sparse.random_array((CLIENTS * ROWS, FEATURES), density=fill, rng=rng, format="csr")
        A.setdiag(1.0)
        A = sparse.csr_array(A)
        rows = np.arange(0, CLIENTS * ROWS + 1, ROWS)
        support, positions = support_of(A.indptr[rows], A.indices, FEATURES)
        lifted = sparse.csr_array((A.data, positions, A.indptr), shape=(len(A.indptr) - 1, support.size))
        x, b = rng.standard_normal(FEATURES), rng.standard_normal(rows[-1])
        both = [layout.make(lifted, support, rows) for layout in (Dense, CSR)]
        found = [np.empty(support.size) for _ in both]
        calls = [partial(blocks.residual, x, b, b, out) for blocks, out in zip(both, found, strict=True)]
        times = [[seconds(call) for call in calls] for _ in range(REPEATS + 1)]
        np.testing.assert_allclose(found[0], found[1], atol=1e-9)
        dense, csr = np.array(times[1:]).T
        ratios = dense / csr
        actual = lifted.nnz / float(np.diff(rows) @ support.sizes)
        table.add_row(
            f"{actual:.2f}",
            f"{1e6 * np.median(dense):.0f}",
            f"{1e6 * np.median(csr):.0f}",
            f"{np.median(ratios):.2f} ({ratios.min():.2f} to {ratios.max():.2f})",
            f"{both[0].bytes / both[1].bytes:.2f}",
        )
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
