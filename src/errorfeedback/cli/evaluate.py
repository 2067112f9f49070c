"""`errorfeedback evaluate run/ DATA`: accuracy, log loss and AUC, or the errors of a regression."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from errorfeedback.cli._data import clear_errors, model_and_data, reading_of
from errorfeedback.cli.verbs._reading import FileOptions
from errorfeedback.estimators.classifier import EF21Classifier


def evaluate(options: FileOptions, run: Path, data: str, *, as_json: bool) -> None:
    """How good a trained model is on data with known targets."""
    with clear_errors():
        saved, found = model_and_data(run, data, reading_of(options))
        if found.y is None:
            raise ValueError(f"{data} has no target column; name it with --target")
        scores = measured(saved.model, found.A, found.y)
    if as_json:
        print(json.dumps(scores))
        return
    for name, value in scores.items():
        print(f"{name}: {value:.6g}")


def measured(model: Any, X: Any, y: Any) -> dict[str, float]:
    """The usual measures."""
    from sklearn import metrics  # noqa: PLC0415  (slow to import)

    if not isinstance(model, EF21Classifier):
        said = model.predict(X)
        return {"R2": float(metrics.r2_score(y, said)), "mean squared error": float(metrics.mean_squared_error(y, said))}
    unknown = sorted(set(np.unique(y).tolist()) - set(model.classes_.tolist()))
    if unknown:
        raise ValueError(f"the target has {unknown[0]!r}, but the model knows the classes {model.classes_.tolist()}")
    p = model.predict_proba(X)
    found = {
        "accuracy": float(model.score(X, y)),
        "log loss": float(metrics.log_loss(y, p, labels=model.classes_)),
    }
    if len(np.unique(y)) == len(model.classes_):  # AUC needs all classes
        ranks = p[:, 1] if len(model.classes_) == 2 else p
        found["AUC"] = float(metrics.roc_auc_score(y, ranks, multi_class="ovr", labels=model.classes_))
    return found
