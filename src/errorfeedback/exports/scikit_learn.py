"""A fitted scikit-learn model that says what ours says, to 1e-12, the raw table in.

Our file of a table is read as features by an encoding; the same is done here by a `ColumnTransformer`: numbers as they are
(missing ones filled with the median of training, and marked), text by a `OneHotEncoder` over the values that training saw,
dates as years since the first one of training. A model of a matrix needs none of it. Numbers and text need scikit-learn
alone where the pickle is loaded; dates, and numbers among which there is text, need `errorfeedback` there, for scikit-learn
has no transformer of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.linear_model import HuberRegressor, LogisticRegression, PoissonRegressor, Ridge
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder
from sklearn.svm import LinearSVC

from errorfeedback.core import Floats
from errorfeedback.data.columns import Words
from errorfeedback.data.encoding import YEAR, Category, Columns, Number
from errorfeedback.data.reading import Missing
from errorfeedback.estimators.class_models import HINGE, LOGISTIC, REST
from errorfeedback.estimators.classifier import EF21Classifier
from errorfeedback.estimators.model_file import Saved
from errorfeedback.exports.base import Export
from errorfeedback.storage.pandas_frame import frame

DAY = np.timedelta64(1, "D") / np.timedelta64(1, "us")
VALUE_MODELS: dict[str, Callable[[], BaseEstimator]] = {
    "squared": Ridge,
    "huber": HuberRegressor,
    "poisson": PoissonRegressor,
}
"""Who minimises the same loss in scikit-learn."""
CLASS_MODELS: dict[str, Callable[[], BaseEstimator]] = {LOGISTIC: LogisticRegression, HINGE: LinearSVC}
FLOATS = FunctionTransformer(np.asarray, kw_args={"dtype": np.float64}, feature_names_out="one-to-one")
"""A median may stand between two whole numbers."""
Stage = tuple[str, Any, list[str]]


class ScikitLearn(Export):
    """A file of joblib: a pickle, to be loaded from people one trusts only."""

    name = "sklearn"
    file = "model.joblib"

    def write(self, saved: Saved, path: Path) -> None:
        joblib.dump(to_sklearn(saved), path)


def to_sklearn(saved: Saved) -> Any:
    """`saved` (by `ef.load_model`) as a `LogisticRegression` (or its like for another loss) with our coefficients; for a
    table, a `Pipeline` that ends in it and takes a pandas frame with the columns of the table."""
    model = twin(saved.model)
    if not isinstance(saved.encoding, Columns):
        return model
    return Pipeline([("features", features(saved.encoding)), ("model", model)])


def twin(model: Any) -> Any:
    """Fitted on as few rows as there are classes, all zero, so that it has all that a fitted one has; then the coefficients
    are ours."""
    coef, intercept = np.atleast_2d(model.coef_), np.atleast_1d(model.intercept_)
    if not isinstance(model, EF21Classifier):
        made = VALUE_MODELS[model.loss]().fit(_zeros(2, coef), [1.0, 2.0])
        made.coef_, made.intercept_ = coef[0].copy(), float(intercept[0])
        return made
    base, classes = CLASS_MODELS[model.loss](), model.classes_
    if model.loss == LOGISTIC and len(classes) > 2 and model.multi_class_ == REST:
        made = OneVsRestClassifier(base).fit(_zeros(len(classes), coef), classes)
        for each, weights, constant in zip(made.estimators_, coef, intercept, strict=True):
            each.coef_, each.intercept_ = weights[None, :].copy(), np.array([constant])
        return made
    made = base.fit(_zeros(len(classes), coef), classes)
    made.coef_, made.intercept_ = coef.copy(), intercept.copy()
    return made


def _zeros(rows: int, coef: Floats) -> sparse.csr_matrix:
    return sparse.csr_matrix((rows, coef.shape[1]))


def features(encoding: Columns) -> ColumnTransformer:
    """The columns of a table as the features that the model was trained with, in their order."""
    steps = [step for column in encoding.columns for step in _steps(column, encoding)]
    example = {column.name: _example(column) for column in encoding.columns}
    made = ColumnTransformer(steps, sparse_threshold=1.0, verbose_feature_names_out=False)
    return made.fit(frame(example))


def _steps(column: Number | Category, encoding: Columns) -> Iterator[Stage]:
    if isinstance(column, Category):
        values = np.array([*column.values, *([np.nan] if column.marked else [])], dtype=object)
        yield f"{column.name}=", OneHotEncoder(categories=[values], handle_unknown="ignore"), [column.name]
        return
    impute = encoding.missing is Missing.IMPUTE and column.fill is not None
    fill = [SimpleImputer(strategy="constant", fill_value=column.fill)] if impute else []
    dates = column.origin is not None
    first = [FunctionTransformer(days, kw_args={"form": encoding.date_format})] if dates else []
    first += [FunctionTransformer(numbers, kw_args={"decimal": encoding.decimal or "."})] if column.coerced else []
    last = [FunctionTransformer(years_since, kw_args={"origin": column.origin})] if dates else []
    yield column.name, make_pipeline(*first, FLOATS, *fill, *last), [column.name]
    if column.marked:
        yield f"{column.name} is missing", make_pipeline(*first, MissingIndicator(features="all")), [column.name]


def _example(column: Number | Category) -> Any:
    """One value that the column may have."""
    if isinstance(column, Category):
        return np.array([column.values[0] if column.values else ""], dtype=object)
    return np.zeros(1) if column.origin is None else np.zeros(1, dtype="datetime64[us]")


def numbers(table: Any, decimal: str) -> Floats:
    """The numbers of a column in which there may be text, which is missing."""
    cells = ["" if cell is None else str(cell) for cell in table.iloc[:, 0]]
    return Words(str(table.columns[0]), np.arange(len(cells)), tuple(cells)).numbers(decimal).values[:, None]


def days(table: Any, form: str | None) -> Floats:
    """Days since 1970 of dates, or of text in that form or as 2020-01-31; NaN where there is none."""
    cells = table.iloc[:, 0]
    if form is not None and any(isinstance(cell, str) for cell in cells):
        moments = np.array([_moment(cell, form) for cell in cells], dtype="datetime64[us]")[:, None]
    else:
        moments = table.astype("datetime64[us]").to_numpy()
    return np.where(np.isnat(moments), np.nan, moments.astype(np.int64) / DAY)


def _moment(cell: Any, form: str) -> np.datetime64 | datetime:
    if not isinstance(cell, str):
        return np.datetime64("NaT", "us")
    try:
        return datetime.strptime(cell, form)
    except ValueError:
        return datetime.fromisoformat(cell)


def years_since(days: Floats, origin: float) -> Floats:
    """The feature of a date."""
    return (days - origin) / YEAR
