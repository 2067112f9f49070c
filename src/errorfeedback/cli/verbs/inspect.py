"""`errorfeedback inspect DATA --clients N`: know before you run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from errorfeedback.cli.verbs._begin import begin
from errorfeedback.cli.verbs._inputs import Inputs, with_options
from errorfeedback.cli.verbs._words import NETWORK
from errorfeedback.extras import require


@with_options
def inspect(
    inputs: Inputs,
    k: Annotated[
        list[int] | None, typer.Option("--k", min=1, help="Levels of TopK and RandK; default: 1, 2, 4, ...")
    ] = None,
    epsilon: Annotated[float, typer.Option(help="The goal, as a share of ||grad f(0)||^2.")] = 1e-3,
    network: Annotated[list[str] | None, typer.Option(help=NETWORK)] = None,
    rounds: Annotated[
        int, typer.Option(min=0, help="Rounds of every run of the trial, a simulation; 0: theory alone.")
    ] = 500,
    every_plan: Annotated[bool, typer.Option("--all", help="Show all plans.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything for programs.")] = False,
    report: Annotated[Path | None, typer.Option(help="Write a self-contained page.")] = None,
    draw: Annotated[Path | None, typer.Option(help="Write the figures (PNG and SVG) into that folder.")] = None,
) -> None:
    """What to run on these data, how rare their features are, and what every theorem promises."""
    begin(folders=[draw], files=[report])
    if report is not None:
        require("plotly", f"--report {report}")
    from errorfeedback.cli.inspect import inspect as work

    work(
        inputs,
        k=k,
        epsilon=epsilon,
        network=network,
        rounds=rounds,
        every_plan=every_plan,
        as_json=as_json,
        report=report,
        draw=draw,
    )
