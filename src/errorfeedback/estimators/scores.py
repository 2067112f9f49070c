"""How good a fitted model is on rows with known targets: the usual measures, weighted where the rows are."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn import metrics

from errorfeedback.core import Floats
from errorfeedback.estimators.base import LinearEF21
from errorfeedback.estimators.classifier import EF21Classifier
from errorfeedback.estimators.regressor import numbers


def measured(model: LinearEF21, scores: Floats, y: ArrayLike, weights: Floats | None = None) -> dict[str, float]:
    """Accuracy, log loss and AUC (where all classes are there), or R2 and the errors of a regression; `scores` are
    `model.decision` of the rows."""
    if isinstance(model, EF21Classifier):
        return _classified(model, scores, np.asarray(y), weights)
    return _predicted(scores[:, 0], numbers(np.asarray(y)), weights)


def _classified(model: EF21Classifier, scores: Floats, y: NDArray[Any], weights: Floats | None) -> dict[str, float]:
    unknown = sorted(set(np.unique(y).tolist()) - set(model.classes_.tolist()))
    if unknown:
        raise ValueError(f"the target has {unknown[0]!r}, but the model knows the classes {model.classes_.tolist()}")
    p = model.probabilities(scores)
    measures = {
        "accuracy": float(np.average(model.labels(scores) == y, weights=weights)),
        "log loss": float(metrics.log_loss(y, p, labels=model.classes_, sample_weight=weights)),
    }
    if len(np.unique(y)) == len(model.classes_):
        ranks = p[:, 1] if p.shape[1] == 2 else p
        auc = metrics.roc_auc_score(y, ranks, multi_class="ovr", labels=model.classes_, sample_weight=weights)
        measures["AUC"] = float(auc)
    return measures


def _predicted(said: Floats, y: NDArray[Any], weights: Floats | None) -> dict[str, float]:
    squared = float(metrics.mean_squared_error(y, said, sample_weight=weights))
    measures = {"RMSE": squared**0.5, "mean squared error": squared}
    return {"R2": float(metrics.r2_score(y, said, sample_weight=weights)), **measures} if len(y) > 1 else measures
