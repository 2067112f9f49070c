"""What a linear model has learned, weight by weight: score = intercept + sum_j weight_j * feature_j.

Two classes: a feature that is larger by 1 multiplies the odds of the second class by exp(weight). More classes: those of the
class against all others alike. Counts: the expected count. A number: it adds the weight to the prediction.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp
from typing import Any

import numpy as np

from errorfeedback.estimators.classifier import EF21Classifier
from errorfeedback.estimators.model_file import Saved

FAR = 700.0
"""exp of more is no float."""


@dataclass(frozen=True)
class Weight:
    """A weight, the class whose score it adds to (None: a number is predicted), and what it does."""

    label: Any
    feature: str
    value: float
    effect: str

    def __str__(self) -> str:
        return self.feature if self.label is None else f"{self.feature} -> {self.label}"


@dataclass(frozen=True)
class Learned:
    """The model in a few facts."""

    largest: list[Weight]
    count: int
    """Weights other than 0."""
    of: int
    half: int
    """How many of the largest have half of the sum of all magnitudes."""


def learned_by(saved: Saved, most: int) -> Learned:
    """At most so many weights, the largest first."""
    model, names = saved.model, saved.encoding.names
    coef = np.atleast_2d(model.coef_)
    labels = model.classes_.tolist()[-len(coef) :] if isinstance(model, EF21Classifier) else [None]
    order = np.argsort(-np.abs(coef), axis=None, kind="stable")
    share = np.cumsum(np.abs(coef).ravel()[order])
    half = int(np.searchsorted(share, share[-1] / 2)) + 1 if share[-1] else 0
    places = [divmod(int(place), coef.shape[1]) for place in order[:most]]
    weights = [(labels[m], names[j], float(coef[m, j])) for m, j in places if coef[m, j]]
    largest = [Weight(label, name, value, _effect(saved, label, value)) for label, name, value in weights]
    return Learned(largest, int(np.count_nonzero(coef)), coef.size, half)


def _effect(saved: Saved, label: Any, value: float) -> str:
    times = f"{exp(value):.3g}" if abs(value) < FAR else f"exp({value:.4g})"
    if isinstance(saved.model, EF21Classifier):
        probable = saved.model.loss == "logistic"
        return f"multiplies the odds of {label} by {times}" if probable else f"adds {value:.3g} to the score of {label}"
    return f"multiplies the expected count by {times}" if saved.kind == "poisson" else f"adds {value:.3g} to the prediction"
