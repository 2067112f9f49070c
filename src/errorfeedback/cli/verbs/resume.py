"""`errorfeedback resume FOLDER`: finish a run from its last checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from errorfeedback.cli.verbs._begin import begin
from errorfeedback.cli.verbs._words import TIMEOUT


def resume(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="What `train --checkpoint FOLDER` or ef.Checkpoint(FOLDER) wrote.")
    ],
    threads: Annotated[int, typer.Option(min=1, help="Run on that many threads: the same bits.")] = 1,
    mpi: Annotated[bool, typer.Option("--mpi", help="Run on the ranks of mpiexec: the same bits.")] = False,
    timeout: Annotated[float | None, typer.Option(help=TIMEOUT)] = None,
) -> None:
    """Finish a run from its last checkpoint, bit for bit as if it had never stopped.

    A run of `train` ends as `train` does, with the model, the history and the report in its --out folder; the data is read
    again from where it was. A run of ef.solve ends with x.npy and history.csv in FOLDER.
    """
    begin(folders=[folder], shared=mpi, share_by="--mpi")
    from errorfeedback.cli.resume import resume as work

    work(folder, threads=threads, mpi=mpi, timeout=timeout)
