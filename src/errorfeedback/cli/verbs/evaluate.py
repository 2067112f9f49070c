"""`errorfeedback evaluate run/ DATA`: accuracy, log loss and AUC, or the errors of a regression."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from errorfeedback.cli.verbs._begin import begin


def evaluate(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="The folder that `errorfeedback train` wrote, or a model file.")
    ],
    data: Annotated[str, typer.Argument(metavar="DATA", help="Rows in the form of the training data, with their targets.")],
    target: Annotated[str | None, typer.Option(help="The target column; by default the one of training.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print for programs.")] = False,
) -> None:
    """How good a trained model is on data with known targets."""
    begin()
    from errorfeedback.cli.evaluate import evaluate as work

    work(run, data, target=target, as_json=as_json)
