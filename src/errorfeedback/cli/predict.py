"""`errorfeedback predict run/ DATA`: what a trained model says about new rows."""

from __future__ import annotations

import csv
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from errorfeedback.cli._data import model_and_data, reading_of
from errorfeedback.cli.verbs._reading import FileOptions
from errorfeedback.core import Floats
from errorfeedback.estimators.classifier import EF21Classifier


def predict(options: FileOptions, run: Path, data: str, *, out: Path | None) -> None:
    """Predict every row: its class with all probabilities (or scores, where the loss has none), or its value, as CSV."""
    saved, table = model_and_data(run, data, replace(reading_of(options), labelled=False))
    model: Any = saved.model
    said = model.predict(table.A)
    head, rows = ["prediction"], [[value] for value in said.tolist()]
    if isinstance(model, EF21Classifier):
        names, said_of_each = _each_class(model, model.decision(table.A))
        head += names
        rows = [row + each for row, each in zip(rows, said_of_each.tolist(), strict=True)]
    if table.kept is not None:  # a row that was left out keeps its line
        lines = iter(rows)
        rows = [next(lines) if kept else [""] * len(head) for kept in table.kept]
    if out is None:
        csv.writer(sys.stdout, lineterminator="\n").writerows([head, *rows])
        return
    out.parent.mkdir(parents=True, exist_ok=True)
    with out.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([head, *rows])


def _each_class(model: EF21Classifier, scores: Floats) -> tuple[list[str], Floats]:
    """The columns beside the prediction: probabilities, or scores where there are none (of two, that of the second)."""
    classes, p = model.classes_.tolist(), model.probabilities(scores)
    if p is not None:
        return [f"p({name})" for name in classes], p
    return [f"score({name})" for name in (classes if scores.shape[1] > 1 else classes[1:])], scores
