"""score = intercept + sum_j coefficient_j * feature_j, as a table: the intercepts, then the coefficients other than 0.

Columns: `class` (for classes: whose score it adds to; of two, the second), `feature`, `coefficient`, in the units of the
data. A number is written with all its digits, so that it is read back as it was.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from errorfeedback.estimators.classifier import EF21Classifier
from errorfeedback.estimators.model_file import Saved
from errorfeedback.exports.base import Export

INTERCEPT = "(intercept)"


class CoefficientTable(Export):
    """A CSV file."""

    name = "csv"
    file = "coefficients.csv"

    def write(self, saved: Saved, path: Path) -> None:
        with path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(_lines(saved))


def _lines(saved: Saved) -> Iterator[list[object]]:
    model, names = saved.model, saved.encoding.names
    coef, intercept = np.atleast_2d(model.coef_), np.atleast_1d(model.intercept_)
    classes = isinstance(model, EF21Classifier)
    labels = model.classes_.tolist()[-len(coef) :] if isinstance(model, EF21Classifier) else [None]
    yield [*(["class"] if classes else []), "feature", "coefficient"]
    for label, weights, constant in zip(labels, coef, intercept.tolist(), strict=True):
        about = [label] if classes else []
        yield [*about, INTERCEPT, repr(constant)]
        yield from ([*about, names[j], repr(float(weights[j]))] for j in np.flatnonzero(weights).tolist())
