"""`errorfeedback compare DATA`: GD, EF21 with every rule, MARINA and EF14 on the same data and budget."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from errorfeedback.cli.verbs._begin import begin
from errorfeedback.cli.verbs._words import NETWORK


def compare(
    data: Annotated[str, typer.Argument(metavar="DATA", help="LIBSVM, .csv, .tsv, .parquet, .npz, or a known name.")],
    out: Annotated[Path, typer.Option(help="Folder for the figure, the table and the report.")],
    clients: Annotated[int, typer.Option(min=1, help="Deal the rows evenly to that many clients.")] = 300,
    groups: Annotated[Path | None, typer.Option(help="A file that names the client of each row, one per line.")] = None,
    client_column: Annotated[str | None, typer.Option(help="The column of a table that names the client.")] = None,
    target: Annotated[str | None, typer.Option(help="The column to predict.")] = None,
    k: Annotated[int, typer.Option("--k", "-k", min=1, help="Numbers that a compressed message holds.")] = 1,
    l1: Annotated[float, typer.Option(min=0, help="Weight of ||x||_1.")] = 0.0,
    l2: Annotated[float, typer.Option(min=0, help="Weight of ||x||^2 / 2.")] = 1e-4,
    scale: Annotated[bool, typer.Option(help="Bring all features to the same curvature first.")] = True,
    budget: Annotated[str, typer.Option(help="Bytes up per client for every method.")] = "20kB",
    rounds: Annotated[int, typer.Option(min=1, help="At most that many rounds.")] = 2000,
    network: Annotated[list[str] | None, typer.Option(help=NETWORK)] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the deal and of random compressors.")] = 0,
) -> None:
    """Loss against bytes of all methods on the objective of `train`, and what each needs for every target."""
    begin(folders=[out], pages=True)
    from errorfeedback.cli.compare import compare as work

    work(
        data,
        out=out,
        clients=clients,
        groups=groups,
        client_column=client_column,
        target=target,
        k=k,
        l1=l1,
        l2=l2,
        scale=scale,
        budget=budget,
        rounds=rounds,
        network=network,
        seed=seed,
    )
