"""`errorfeedback train DATA --out run/`: real data in, model out, no step size to choose."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from errorfeedback.cli.verbs._begin import begin
from errorfeedback.cli.verbs._words import NETWORK


def train(
    data: Annotated[
        str, typer.Argument(metavar="DATA", help="LIBSVM, .csv, .tsv, .parquet, .npz, a known name, or a folder of parts.")
    ],
    out: Annotated[Path, typer.Option(help="Folder for the model, the history and the report.")],
    clients: Annotated[int, typer.Option(min=1, help="Deal the rows evenly to that many clients.")] = 10,
    groups: Annotated[Path | None, typer.Option(help="A file that names the client of each row, one per line.")] = None,
    client_column: Annotated[str | None, typer.Option(help="The column of a table that names the client.")] = None,
    target: Annotated[str | None, typer.Option(help="The column to predict (tables: 'target'; .npz: the last).")] = None,
    valid: Annotated[str | None, typer.Option(help="Held-out data: stop when its loss stops falling.")] = None,
    k: Annotated[int, typer.Option("--k", "-k", min=1, help="Numbers that a client sends per round.")] = 1,
    l1: Annotated[float, typer.Option(min=0, help="Weight of ||x||_1.")] = 0.0,
    l2: Annotated[float, typer.Option(min=0, help="Weight of ||x||^2 / 2.")] = 1e-4,
    regression: Annotated[bool, typer.Option(help="Least squares instead of classification.")] = False,
    intercept: Annotated[str, typer.Option(help="topk, exact (sent every round), or none.")] = "topk",
    scale: Annotated[bool, typer.Option(help="Bring all features to the same curvature first.")] = True,
    budget: Annotated[str, typer.Option(help="Bytes up per client, as in 1MB.")] = "",
    rounds: Annotated[int, typer.Option(min=1, help="At most that many rounds.")] = 2000,
    network: Annotated[list[str] | None, typer.Option(help=NETWORK)] = None,
    tolerance: Annotated[float, typer.Option(min=0, help="Stop when the loss falls by less than that share.")] = 1e-6,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the deal.")] = 0,
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
        data,
        out=out,
        clients=clients,
        groups=groups,
        client_column=client_column,
        target=target,
        valid=valid,
        k=k,
        l1=l1,
        l2=l2,
        regression=regression,
        intercept=intercept,
        scale=scale,
        budget=budget,
        rounds=rounds,
        network=network,
        tolerance=tolerance,
        seed=seed,
        quiet=quiet,
        engine=engine,
        checkpoint=checkpoint,
    )
