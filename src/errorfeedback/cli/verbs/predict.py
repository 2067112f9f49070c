"""`errorfeedback predict run/ DATA`: what a trained model says about new rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from errorfeedback.cli.verbs._begin import begin
from errorfeedback.cli.verbs._inputs import with_options
from errorfeedback.cli.verbs._reading import FileOptions


@with_options
def predict(
    options: FileOptions,
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="The folder that `errorfeedback train` wrote, or a model file.")
    ],
    data: Annotated[str, typer.Argument(metavar="DATA", help="Rows in the form of the training data.")],
    out: Annotated[Path | None, typer.Option(help="Write a CSV file instead of printing it.")] = None,
) -> None:
    """Predict every row: its class with all probabilities or scores, or its value, as CSV."""
    begin(files=[out])
    from errorfeedback.cli.predict import predict as work

    work(options, run, data, out=out)
