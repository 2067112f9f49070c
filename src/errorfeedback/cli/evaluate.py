"""`errorfeedback evaluate run/ DATA`: accuracy, log loss and AUC, the errors of a regression, or the deviance of counts."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from errorfeedback.cli._data import model_and_data, reading_of
from errorfeedback.cli.verbs._reading import FileOptions
from errorfeedback.estimators.scores import measured


def evaluate(options: FileOptions, run: Path, data: str, *, weight_column: str | None, as_json: bool) -> None:
    """How good a trained model is on data with known targets."""
    saved, rows = model_and_data(run, data, replace(reading_of(options), weight_column=weight_column))
    if rows.y is None:
        raise ValueError(f"{data} has no target column; name it with --target")
    scores = measured(saved.model, saved.model.decision(rows.A), rows.y, rows.weights)
    if as_json:
        print(json.dumps(scores))
        return
    for name, value in scores.items():
        print(f"{name}: {value:.6g}")
