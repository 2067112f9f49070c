"""Every column of the history as a scalar of TensorBoard, over the rounds."""

from __future__ import annotations

from os import PathLike

from errorfeedback.extras import import_extra
from errorfeedback.watchers.base import RunWatcher, measures


class TensorBoard(RunWatcher):
    """`folder`: what `tensorboard --logdir` reads.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import errorfeedback as ef
    >>> problem = ef.synthetic(n=10, d=20, m=3, c=2)
    >>> with TemporaryDirectory() as folder:
    ...     with ef.TensorBoard(folder) as board:
    ...         result = ef.solve(problem, ef.EF21(ef.TopK(1)), ef.RareFeatures(), rounds=30, every=10, watch=board)
    ...     [path.name[:10] for path in Path(folder).iterdir()]
    ['events.out']
    """

    def __init__(self, folder: str | PathLike[str]) -> None:
        self.writer = import_extra("tensorboardX", "a log for TensorBoard").SummaryWriter(str(folder))

    def __call__(self, row: dict[str, float]) -> None:
        for name, value in measures(row).items():
            self.writer.add_scalar(name, value, int(row["round"]))

    def close(self) -> None:
        self.writer.close()
