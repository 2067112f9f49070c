"""`errorfeedback evaluate run/ DATA`: accuracy, log loss and AUC, the errors of a regression, or the deviance of counts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from errorfeedback.cli.verbs._begin import begin
from errorfeedback.cli.verbs._inputs import with_options
from errorfeedback.cli.verbs._reading import FileOptions


@with_options
def evaluate(
    options: FileOptions,
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="The folder that `errorfeedback train` wrote, or a model file.")
    ],
    data: Annotated[str, typer.Argument(metavar="DATA", help="Rows in the form of the training data, with their targets.")],
    weight_column: Annotated[str | None, typer.Option(help="The column of a table with the weight of every row.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print for programs.")] = False,
) -> None:
    """How good a trained model is on data with known targets."""
    begin()
    from errorfeedback.cli.evaluate import evaluate as work

    work(options, run, data, weight_column=weight_column, as_json=as_json)
