"""`errorfeedback train DATA --out run/`: real data in, model out, no step size to choose."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from errorfeedback.cli.verbs._begin import begin
from errorfeedback.cli.verbs._inputs import Inputs, with_options
from errorfeedback.cli.verbs._words import NETWORK


@with_options
def train(
    inputs: Inputs,
    out: Annotated[Path, typer.Option(help="Folder for the model, the history and the report.")],
    valid: Annotated[str | None, typer.Option(help="Held-out data: stop when its loss stops falling.")] = None,
    k: Annotated[int, typer.Option("--k", "-k", min=1, help="Numbers that a client sends per round.")] = 1,
    budget: Annotated[str, typer.Option(help="Bytes up per client, as in 1MB.")] = "",
    rounds: Annotated[int, typer.Option(min=1, help="At most that many rounds.")] = 2000,
    network: Annotated[list[str] | None, typer.Option(help=NETWORK)] = None,
    tolerance: Annotated[float, typer.Option(min=0, help="Stop when the loss falls by less than that share.")] = 1e-6,
    quiet: Annotated[bool, typer.Option("--quiet", help="No live view.")] = False,
    engine: Annotated[str, typer.Option(help="local, threads (two), or mpi: on the ranks of mpiexec.")] = "local",
    checkpoint: Annotated[Path | None, typer.Option(help="Folder to write the state to, or to go on from.")] = None,
) -> None:
    """Train a linear model across clients; write the model, the history and a report.

    In a folder of parts every file is a client, unless --client-column names the clients in it. Each rank of --engine mpi
    reads its own files only; a single file is read by rank 0, which hands the others their clients' rows.
    """
    begin(folders=[out, checkpoint], pages=True, shared=engine == "mpi", share_by="--engine mpi")
    from errorfeedback.cli.train import train as work

    work(
        inputs,
        out=out,
        valid=valid,
        k=k,
        budget=budget,
        rounds=rounds,
        network=network,
        tolerance=tolerance,
        quiet=quiet,
        engine=engine,
        checkpoint=checkpoint,
    )
