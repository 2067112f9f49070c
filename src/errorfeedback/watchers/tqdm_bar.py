"""A bar of tqdm, in a terminal or a notebook, with the loss beside it."""

from __future__ import annotations

from errorfeedback.extras import import_extra
from errorfeedback.watchers.base import RunWatcher


class TqdmBar(RunWatcher):
    """`rounds`: how many the run may take; it may stop earlier.

    >>> import errorfeedback as ef
    >>> problem = ef.synthetic(n=10, d=20, m=3, c=2)
    >>> with ef.TqdmBar(rounds=30) as bar:
    ...     result = ef.solve(problem, ef.EF21(ef.TopK(1)), ef.RareFeatures(), rounds=30, every=10, watch=bar)
    >>> bar.bar.n
    30
    """

    def __init__(self, rounds: int) -> None:
        self.bar = import_extra("tqdm.auto", "a progress bar").tqdm(total=rounds, unit="round")

    def __call__(self, row: dict[str, float]) -> None:
        self.bar.update(int(row["round"]) - self.bar.n)
        if "f" in row:
            self.bar.set_postfix_str(f"loss {row['f']:.6g}", refresh=False)

    def close(self) -> None:
        self.bar.close()
