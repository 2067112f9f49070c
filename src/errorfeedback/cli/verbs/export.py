"""`errorfeedback export run/ --to sklearn`: a trained model for others to use."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from errorfeedback.cli.verbs._begin import begin

TO = "csv (coefficients), sklearn (a fitted scikit-learn model, pickled by joblib), or onnx."


def export(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="The folder that `errorfeedback train` wrote, or a model file.")
    ],
    to: Annotated[str, typer.Option(help=TO)],
    out: Annotated[Path | None, typer.Option(help="The file; beside the model by default.")] = None,
) -> None:
    """Write a trained model as coefficients, for scikit-learn or as ONNX.

    What comes out takes the raw table and says what `errorfeedback predict` says, to 1e-12.
    """
    begin(files=[out])
    from errorfeedback.cli.export import export as work

    work(run, to, out)
