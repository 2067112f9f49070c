"""`errorfeedback resume FOLDER`: finish a run from its last checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from errorfeedback.cli.verbs._begin import begin


def resume(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where ef.Checkpoint(FOLDER) wrote the run.")],
    threads: Annotated[int, typer.Option(min=1, help="Run on that many threads: the same bits.")] = 1,
    mpi: Annotated[bool, typer.Option("--mpi", help="Run on the ranks of mpiexec: the same bits.")] = False,
) -> None:
    """Finish a run from its last checkpoint, bit for bit as if it had never stopped; adds x.npy and history.csv."""
    begin(folders=[folder], shared=mpi, share_by="--mpi")
    from errorfeedback.cli.resume import resume as work

    work(folder, threads=threads, mpi=mpi)
