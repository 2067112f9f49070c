"""How good a fitted model is on rows with known targets: the usual measures, weighted where the rows are."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn import metrics

from errorfeedback.core import Floats
from errorfeedback.estimators.base import LinearEF21
from errorfeedback.estimators.classifier import EF21Classifier
from errorfeedback.estimators.poisson_regressor import EF21PoissonRegressor, counts, explained
from errorfeedback.estimators.regressor import numbers


def measured(model: LinearEF21, scores: Floats, y: ArrayLike, weights: Floats | None = None) -> dict[str, float]:
    """Accuracy, log loss and AUC (where all classes are there, and where the loss has them), R2 and the errors of a
    regression, or D2 and the deviance of counts; `scores` are `model.decision` of the rows."""
    if isinstance(model, EF21Classifier):
        return _classified(model, scores, np.asarray(y), weights)
    if isinstance(model, EF21PoissonRegressor):
        return _counted(model, scores[:, 0], counts(np.asarray(y)), weights)
    return _predicted(scores[:, 0], numbers(np.asarray(y)), weights)


def _classified(model: EF21Classifier, scores: Floats, y: NDArray[Any], weights: Floats | None) -> dict[str, float]:
    unknown = sorted(set(np.unique(y).tolist()) - set(model.classes_.tolist()))
    if unknown:
        raise ValueError(f"the target has {unknown[0]!r}, but the model knows the classes {model.classes_.tolist()}")
    p = model.probabilities(scores)
    measures = {"accuracy": float(np.average(model.labels(scores) == y, weights=weights))}
    if p is not None:
        measures["log loss"] = float(metrics.log_loss(y, p, labels=model.classes_, sample_weight=weights))
    ranks = scores if p is None else p[:, 1:] if p.shape[1] == 2 else p
    if len(np.unique(y)) == len(model.classes_) and (p is not None or ranks.shape[1] == 1):
        ranks = ranks[:, 0] if ranks.shape[1] == 1 else ranks
        auc = metrics.roc_auc_score(y, ranks, multi_class="ovr", labels=model.classes_, sample_weight=weights)
        measures["AUC"] = float(auc)
    return measures


def _counted(model: EF21PoissonRegressor, scores: Floats, y: Floats, weights: Floats | None) -> dict[str, float]:
    deviance = 2.0 * float(np.average(model.value_model.loss.values(scores, y), weights=weights))
    measures = {"mean Poisson deviance": deviance, "RMSE": _squared(model.value_model.predicted(scores), y, weights) ** 0.5}
    return {"D2": explained(model.value_model, scores, y, weights), **measures} if len(y) > 1 else measures


def _predicted(said: Floats, y: Floats, weights: Floats | None) -> dict[str, float]:
    squared = _squared(said, y, weights)
    measures = {"RMSE": squared**0.5, "mean squared error": squared}
    return {"R2": float(metrics.r2_score(y, said, sample_weight=weights)), **measures} if len(y) > 1 else measures


def _squared(said: Floats, y: Floats, weights: Floats | None) -> float:
    with np.errstate(over="ignore"):
        return float(np.average(np.square(y - said), weights=weights))
