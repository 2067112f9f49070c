"""`errorfeedback explain run/`: a finished run in one page and a few lines."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from errorfeedback.cli.verbs._begin import begin
from errorfeedback.cli.verbs._words import NETWORK


def explain(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder that `errorfeedback train` wrote.")],
    network: Annotated[list[str] | None, typer.Option(help=NETWORK)] = None,
    out: Annotated[Path | None, typer.Option(help="The page; explained.html beside the model by default.")] = None,
) -> None:
    """What a model learned, what the run cost, and what it would have cost on another link."""
    begin(files=[out], pages=True)
    from errorfeedback.cli.explain import explain as work

    work(run, network or [], out)
