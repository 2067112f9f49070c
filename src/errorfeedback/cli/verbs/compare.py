"""`errorfeedback compare DATA`: methods on the same data and budget, kept and continued."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from errorfeedback.cli.verbs._begin import begin
from errorfeedback.cli.verbs._inputs import Inputs, with_options
from errorfeedback.cli.verbs._words import NETWORK

METHODS = (
    "all, or names as in EF21,DIANA: each with its theorem's step, its best constant step 2^k (in hindsight), and the rules "
    "that find one; default: GD, EF21 with every rule, MARINA and EF14."
)


@with_options
def compare(
    inputs: Inputs,
    out: Annotated[Path, typer.Option(help="Folder for the figure, the table and the report.")],
    methods: Annotated[list[str] | None, typer.Option("--methods", "-m", help=METHODS)] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Seeds for what is random in a method; figures have bands.")] = 1,
    k: Annotated[
        list[int] | None,
        typer.Option("--k", "-k", min=1, help="Numbers in a compressed message; default: 1, and what inspect tries."),
    ] = None,
    budget: Annotated[str, typer.Option(help="Stop every method after that many bytes per client, up and down.")] = "",
    time: Annotated[str, typer.Option(help="Stop every method after that time on the network, as in 10min.")] = "",
    rounds: Annotated[int, typer.Option(min=1, help="At most that many rounds.")] = 2000,
    network: Annotated[list[str] | None, typer.Option(help=NETWORK)] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="Runs side by side; default: one per core.")] = None,
) -> None:
    """Loss against bytes and time of all methods on the objective of `train`; who gets there first, and at what price.

    Runs are kept in --out: the same command with more methods, seeds or networks runs only what is missing.
    """
    begin(folders=[out], pages=True)
    from errorfeedback.cli.compare import compare as work

    work(
        inputs,
        out=out,
        methods=methods,
        seeds=seeds,
        k=k,
        budget=budget,
        time=time,
        rounds=rounds,
        network=network,
        jobs=jobs,
    )
