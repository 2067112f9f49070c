"""`errorfeedback train DATA --out run/`: real data in, model out, no step size to choose."""

from __future__ import annotations

from errorfeedback.cli.verbs._begin import begin
from errorfeedback.cli.verbs._inputs import with_options
from errorfeedback.cli.verbs._training import Training


@with_options
def train(options: Training) -> None:
    """Train a linear model across clients; write the model, the history and a report.

    In a folder of parts every file is a client, unless --client-column names the clients in it. Each rank of --engine mpi
    reads its own files only; a single file is read by rank 0, which hands the others their clients' rows.
    """
    begin(folders=[options.out, options.checkpoint], pages=True, shared=options.engine == "mpi", share_by="--engine mpi")
    from errorfeedback.cli.train import train as work

    work(options)
