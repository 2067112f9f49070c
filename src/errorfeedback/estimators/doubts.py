"""What a user must know before trusting a model that was just trained."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sklearn.exceptions import ConvergenceWarning

from errorfeedback.runtime.stopping import STUCK
from errorfeedback.storage.history import History

if TYPE_CHECKING:
    from errorfeedback.estimators.base import LinearEF21


class TrainingWarning(UserWarning):
    """The model may not be what the user hopes for."""


class NotConvergedWarning(TrainingWarning, ConvergenceWarning):  # type: ignore[misc]
    """The rounds ran out."""


def share_left(history: History) -> float:
    """Of all progress, by the last estimate; 0 where there is none."""
    gap, f = history["estimated_gap"][-1], history["f"]
    progress = max(f[0] - f[-1], 0.01 * abs(f[-1])) + gap
    return float(gap / progress) if gap > 0 and progress > 0 else 0.0


def doubts_about(model: LinearEF21) -> Iterator[tuple[type[TrainingWarning], str]]:
    """The kind of every doubt, and its sentence."""
    if model.n_iter_ >= model.max_iter and model.tol > 0:
        yield (
            NotConvergedWarning,
            f"not converged: all {model.n_iter_} rounds were run and the loss was still falling; allow more rounds "
            "(max_iter, --rounds) or a larger tolerance (tol, --tolerance)",
        )
    if model.stopped_.startswith(STUCK) and (left := share_left(model.history_)) > model.tol:
        yield (
            NotConvergedWarning,
            f"not converged: {model.stopped_}, and an estimated {left:.1e} of all progress is left, more than tol = "
            f"{model.tol:g}; bring the target and the features to sizes near 1, or use a larger penalty (l2)",
        )
    if isinstance(model.k, int) and model.k * model.max_iter < model.most_features_:
        yield (
            TrainingWarning,
            f"k = {model.k} numbers in {model.max_iter} rounds: a client with {model.most_features_} features cannot even "
            "send each of them once; allow more rounds (max_iter, --rounds), a larger k, or leave k out",
        )
    if model.validation_loss_ >= model.constant_loss_:
        yield (
            TrainingWarning,
            f"the model is no better than a constant on the held-out rows: its loss is {model.validation_loss_:.6g}, and "
            f"that of saying the same of every row is {model.constant_loss_:.6g}; use more rows, fewer features or a "
            "larger penalty (l2, l1)",
        )
