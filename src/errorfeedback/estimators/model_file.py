"""A model as a file: numbers in an .npz, everything else as JSON inside it, and a checksum over both. Data, never code.

Entries: `coef` (the coefficients other than 0), `places` (where they stand in the matrix of models x features, row after
row), `intercept` (models,), `about` (JSON in UTF-8: format, kind, classes, shape, feature encoding, scaling, provenance),
`sha256` (over the other four). Names of features are derived from the encoding. Files of format 1, with a dense `coef` and
no `places`, are read too; they did not keep where the indices of LIBSVM files start, nor medians. Format 3 is format 2 for
a multinomial model of more than two classes, so that versions that know one against the rest only refuse it; format 4 is
format 2 with a `loss` that says what scores mean, for models that those before would misread.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import errorfeedback
from errorfeedback.core import Floats
from errorfeedback.data.encoding import Category, Columns, Encoding, Indices, Number, from_json, to_json
from errorfeedback.data.read import read
from errorfeedback.data.reading import Reading
from errorfeedback.data.rows import Data
from errorfeedback.estimators.base import LinearEF21
from errorfeedback.estimators.class_models import HINGE, MULTINOMIAL, REST
from errorfeedback.estimators.classifier import EF21Classifier
from errorfeedback.estimators.poisson_regressor import EF21PoissonRegressor
from errorfeedback.estimators.regressor import EF21Regressor
from errorfeedback.notebook import shown, table
from errorfeedback.storage.files import LONG, WRONG, archived

WITH_LOSS = "errorfeedback model 4"
SOFTMAX = "errorfeedback model 3"
FORMAT = "errorfeedback model 2"
BEFORE = "errorfeedback model 1"
KINDS: dict[str, type[LinearEF21]] = {
    "classifier": EF21Classifier,
    "regressor": EF21Regressor,
    "poisson": EF21PoissonRegressor,
}
MISREAD = (("classifier", HINGE), ("poisson", "poisson"))
"""Kinds and losses that need format 4."""
SHOWN = ("data", "rows", "clients", "loss", "rounds", "bytes up per client", "bytes down per client")
"""What of its provenance a model shows at a glance."""
MODEL = "model.npz"
"""The model's file in the folder of a run."""
MOST = 2**29
"""Coefficients of a model that is read: 4 GB of them."""


@dataclass(frozen=True, eq=False, repr=False)
class Saved:
    """What a model file holds."""

    model: LinearEF21
    """The fitted estimator; its features are those of the encoding."""
    encoding: Encoding
    provenance: dict[str, Any]
    """How it was trained, how good it was, and what that cost."""
    kind: str

    def features(self, source: str) -> Data:
        """The rows of a file in the form of the training data, as the model takes them."""
        reading = Reading(target=self.provenance.get("target"), labelled=False)
        return read(source, reading, encoding=self.encoding)

    def predict(self, source: str) -> NDArray[Any]:
        """What the model says about the rows of a file."""
        return self.model.predict(self.features(source).A)

    def __repr__(self) -> str:
        return f"<{self._title}: {', '.join(f'{name}: {shown(value)}' for name, value in self._facts.items())}>"

    def _repr_html_(self) -> str:
        return table(self._title, list(self._facts.items()))

    @property
    def _title(self) -> str:
        return f"Model: {self.kind} with {self.encoding.width:,} features"

    @property
    def _facts(self) -> dict[str, Any]:
        return {name: self.provenance[name] for name in SHOWN if name in self.provenance}


def save(path: Path, model: LinearEF21, encoding: Encoding, provenance: dict[str, Any]) -> Path:
    """Write the fitted model."""
    kind = next(name for name, cls in KINDS.items() if isinstance(model, cls))
    coef, loss = np.atleast_2d(model.coef_), model.loss
    about = {
        "format": WITH_LOSS if (kind, loss) in MISREAD else _format(model),
        "version": errorfeedback.__version__,
        "kind": kind,
        "loss": loss,
        "classes": model.classes_.tolist() if isinstance(model, EF21Classifier) else None,
        "shape": coef.shape,
        "encoding": to_json(encoding),
        "scaling": model.scale,
        "provenance": provenance,
    }
    places = np.flatnonzero(coef)
    parts = {
        "coef": coef.ravel()[places],
        "places": places,
        "intercept": np.atleast_1d(np.asarray(model.intercept_, dtype=np.float64)),
        "about": np.frombuffer(json.dumps(about).encode(), dtype=np.uint8),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        np.savez(file, **parts, sha256=_digest(parts))  # type: ignore[arg-type]
    return path


def _format(model: LinearEF21) -> str:
    many = isinstance(model, EF21Classifier) and len(model.classes_) > 2
    return SOFTMAX if many and model.multi_class_ == MULTINOMIAL else FORMAT


def load_model(run: str | PathLike[str]) -> Saved:
    """The model that `errorfeedback train` wrote into a folder, or a model file: `load_model("run/").predict("new.csv")`."""
    path = Path(run)
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such folder or model file; `errorfeedback train DATA --out {path}` makes one")
    return load(path / MODEL if path.is_dir() else path)


def load(path: Path) -> Saved:
    """Read a model file, or say what is wrong with it."""
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file; `errorfeedback train ... --out {path.parent}` makes one")
    try:
        return _saved(_parts(path.read_bytes()))
    except WRONG as error:
        what = f"{type(error).__name__}: {error}"
        raise ValueError(f"{path}: damaged, or not a model of errorfeedback ({what[:LONG]})") from error


def _parts(content: bytes) -> dict[str, NDArray[Any]]:
    parts = archived(content)
    for name in ("coef", "intercept", "about", "sha256"):
        if name not in parts:
            raise ValueError(f"it has no {name!r}")
    if not np.array_equal(parts.pop("sha256"), _digest(parts)):
        raise ValueError("the checksum does not fit the contents")
    return parts


def _saved(parts: Mapping[str, NDArray[Any]]) -> Saved:
    """A checksum that fits says that the file is whole, not that a model is in it: everything is checked."""
    about = json.loads(parts["about"].tobytes().decode())
    if about["format"] not in (WITH_LOSS, SOFTMAX, FORMAT, BEFORE):
        raise ValueError(f"the format is {about['format']!r}, and this version reads up to {WITH_LOSS!r}")
    encoding = _encoding_before(about["encoding"]) if about["format"] == BEFORE else from_json(about["encoding"])
    provenance = about["provenance"]
    if not isinstance(provenance, dict) or not isinstance(provenance.get("target"), str | None):
        raise ValueError("the provenance does not say which column is the target")
    model = _model(about, _coefficients(about, parts, encoding.width), parts["intercept"])
    return Saved(model, encoding, provenance, about["kind"])


def _coefficients(about: dict[str, Any], parts: Mapping[str, NDArray[Any]], width: int) -> Floats:
    """(models, features)."""
    values = _numbers("coefficient", parts["coef"])
    models, features = values.shape if about["format"] == BEFORE else (int(number) for number in about["shape"])
    if features != width or models < 1:
        raise ValueError(f"{models} models with {features} coefficients for {width} features")
    if about["format"] == BEFORE:
        return values
    places = parts["places"]
    if places.dtype.kind != "i" or places.shape != values.shape or values.ndim != 1:
        raise ValueError("the coefficients have no places")
    if len(places) and not 0 <= places.min() <= places.max() < models * features:
        raise ValueError("a coefficient stands outside the matrix")
    if models * features > MOST:
        raise ValueError(f"{models} models of {features} features; at most {MOST:,} numbers are read")
    coef = np.zeros(models * features)
    coef[places] = values
    return coef.reshape(models, features)


def _numbers(what: str, array: NDArray[Any]) -> Floats:
    if array.dtype.kind not in "fiu":
        raise ValueError(f"a {what} is not a number")
    values = array.astype(np.float64)
    if not np.isfinite(values).all():
        raise ValueError(f"a {what} is not finite")
    return values


def _model(about: dict[str, Any], coef: Floats, intercept: NDArray[Any]) -> LinearEF21:
    model = KINDS[about["kind"]]()
    if (about["format"] == WITH_LOSS) != ((about["kind"], about.get("loss")) in MISREAD):
        raise ValueError(f"the loss {about.get('loss')!r} of a {about['kind']} in a file of the format {about['format']!r}")
    model.coef_, model.intercept_, model.n_features_in_ = coef, _numbers("intercept", intercept), coef.shape[1]
    if model.intercept_.shape != (len(coef),):
        raise ValueError(f"{model.intercept_.size} intercepts for {len(coef)} models")
    models = 1
    if isinstance(model, EF21Classifier):
        model.classes_ = _classes(about["classes"])
        rest = about["format"] != SOFTMAX and len(model.classes_) > 2
        model.multi_class = model.multi_class_ = REST if rest else MULTINOMIAL
        model.loss = HINGE if about["format"] == WITH_LOSS else model.loss
        models = 1 if len(model.classes_) == 2 else len(model.classes_)
    if len(coef) != models:
        raise ValueError(f"{len(coef)} models where there must be {models}")
    return model


def _classes(labels: Any) -> NDArray[Any]:
    """Names or numbers, in their order: that is how the models are numbered."""
    if not isinstance(labels, list) or len(labels) < 2:
        raise ValueError("there are not at least two classes")
    kinds = {type(label) for label in labels}
    if kinds not in ({str}, {bool}) and not kinds <= {int, float}:
        raise ValueError("the classes are neither names nor numbers")
    classes = np.asarray(labels)
    if classes.dtype.kind not in "Ubif" or not np.array_equal(classes, np.unique(classes)):
        raise ValueError("the classes are not different ones in their order")
    return classes


def _encoding_before(saved: dict[str, Any]) -> Encoding:
    """The encoding of a file of format 1."""
    columns = [Number(name) if values is None else Category(name, tuple(values)) for name, values in saved["columns"]]
    return Columns(tuple(columns)) if columns else Indices(saved["width"], base=None)


def _digest(parts: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
    hashed = sha256()
    for name in ("coef", "places", "intercept", "about"):
        if name in parts:
            hashed.update(np.ascontiguousarray(parts[name]).tobytes())
    return np.frombuffer(hashed.digest(), dtype=np.uint8)
