"""`errorfeedback reproduce`: the paper's figures and tables, computed again.

Exit codes: 0 everything asked for is there (claims that do not hold are results, not failures); 1 something is missing or
failed; 2 the command was wrong; 130 interrupted.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from errorfeedback.cli.verbs._begin import begin


def reproduce(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="Which ones; none: all of them.")] = None,
    show: Annotated[bool, typer.Option("--list", help="Show the experiments and what they need.")] = False,
    quick: Annotated[bool, typer.Option(help="Short horizons: everything in about a minute.")] = False,
    rounds: Annotated[
        int | None, typer.Option(min=1, help="Rounds of every curve instead of the authors' horizons.")
    ] = None,
    authors: Annotated[
        bool, typer.Option(help="As published: α = K/d, their start, FP32 on the data sets, their way of counting bits.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of data, shuffles and compressors.")] = 0,
    out: Annotated[Path, typer.Option(help="Where results go; finished curves found there are used.")] = Path(
        "reproduction"
    ),
    jobs: Annotated[int | None, typer.Option(min=1, help="Worker processes; default: one per core.")] = None,
    progress: Annotated[bool, typer.Option(help="Progress bars (never when the output is not a terminal).")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print a summary for programs instead of tables.")] = False,
) -> None:
    """Compute the paper's figures and tables again, check its claims, and write a page about it.

    Exit code 0: all done; 1: something is missing or failed; 130: interrupted (run again to continue).
    """
    if not show:
        begin(folders=[out], pages=True)
    from errorfeedback.cli.reproduce import reproduce as work

    work(
        names,
        show=show,
        quick=quick,
        rounds=rounds,
        authors=authors,
        seed=seed,
        out=out,
        jobs=jobs,
        progress=progress,
        as_json=as_json,
    )
