"""A model as a file: numbers in an .npz, everything else as JSON inside it, and a checksum over both. Data, never code.

Entries: `coef` (the coefficients other than 0), `places` (where they stand in the matrix of models x features, row after
row), `intercept` (models,), `about` (JSON in UTF-8: format, kind, classes, shape, feature encoding, scaling, provenance),
`sha256` (over the other four). Names of features are derived from the encoding. Files of format 1, with a dense `coef` and
no `places`, are read too; they did not keep where the indices of LIBSVM files start, nor medians.
"""

from __future__ import annotations

import json
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import errorfeedback
from errorfeedback.core import Floats
from errorfeedback.data.encoding import Category, Columns, Encoding, Indices, Number, from_json, to_json
from errorfeedback.estimators.base import LinearEF21
from errorfeedback.estimators.classifier import EF21Classifier
from errorfeedback.estimators.regressor import EF21Regressor

FORMAT = "errorfeedback model 2"
BEFORE = "errorfeedback model 1"
KINDS: dict[str, type[LinearEF21]] = {"classifier": EF21Classifier, "regressor": EF21Regressor}
UNREADABLE = (ValueError, OSError, EOFError, SyntaxError, zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error)


@dataclass(frozen=True, eq=False)
class Saved:
    """What a model file holds."""

    model: LinearEF21
    encoding: Encoding
    provenance: dict[str, Any]
    kind: str


def save(path: Path, model: LinearEF21, encoding: Encoding, provenance: dict[str, Any]) -> Path:
    """Write the fitted model."""
    kind = next(name for name, cls in KINDS.items() if isinstance(model, cls))
    coef = np.atleast_2d(model.coef_)
    about = {
        "format": FORMAT,
        "version": errorfeedback.__version__,
        "kind": kind,
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


def load(path: Path) -> Saved:
    """Read a model file, or say what is wrong with it."""
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file; `errorfeedback train ... --out {path.parent}` makes one")
    parts = _parts(path)
    try:
        about = json.loads(parts["about"].tobytes().decode())
        if about["format"] not in (FORMAT, BEFORE):
            raise ValueError(f"the format is {about['format']!r}, and this version reads {FORMAT!r}")
        encoding = _encoding_before(about["encoding"]) if about["format"] == BEFORE else from_json(about["encoding"])
        model = _model(about, _coefficients(about, parts), parts["intercept"])
        if model.n_features_in_ != encoding.width:
            raise ValueError(f"{model.n_features_in_} coefficients for {encoding.width} features")
        if not isinstance(about["provenance"], dict):
            raise ValueError("the provenance is no table")
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError, MemoryError) as error:
        raise ValueError(f"{path}: damaged, or not a model of errorfeedback ({type(error).__name__}: {error})") from error
    return Saved(model, encoding, about["provenance"], about["kind"])


def _parts(path: Path) -> dict[str, NDArray[Any]]:
    try:
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            parts = {name: file[name] for name in file.files}
            digest = parts.pop("sha256")
    except KeyError as error:
        raise ValueError(f"{path}: not a model of errorfeedback (it has no {error})") from error
    except (*UNREADABLE, AttributeError, MemoryError) as error:  # AttributeError: an .npy file has no `files`
        raise ValueError(f"{path}: damaged, or not a model of errorfeedback ({error})") from error
    for name in ("coef", "intercept", "about"):
        if name not in parts:
            raise ValueError(f"{path}: not a model of errorfeedback (it has no {name!r})")
    if not np.array_equal(digest, _digest(parts)):
        raise ValueError(f"{path}: damaged: the checksum does not fit the contents")
    return parts


def _coefficients(about: dict[str, Any], parts: Mapping[str, NDArray[Any]]) -> Floats:
    """(models, features)."""
    values = np.asarray(parts["coef"], dtype=np.float64)
    if about["format"] == BEFORE:
        return values
    models, features = (int(number) for number in about["shape"])
    places = parts["places"]
    if places.dtype.kind != "i" or places.shape != values.shape or values.ndim != 1 or models < 1 or features < 0:
        raise ValueError("the coefficients have no places")
    if len(places) and not 0 <= places.min() <= places.max() < models * features:
        raise ValueError("a coefficient stands outside the matrix")
    coef = np.zeros(models * features)
    coef[places] = values
    return coef.reshape(models, features)


def _model(about: dict[str, Any], coef: Floats, intercept: Floats) -> LinearEF21:
    model = KINDS[about["kind"]]()
    intercept = np.asarray(intercept, dtype=np.float64)
    if coef.ndim != 2 or intercept.shape != (len(coef),) or not (np.isfinite(coef).all() and np.isfinite(intercept).all()):
        raise ValueError("the coefficients are not one finite row per model, with one intercept each")
    model.coef_, model.intercept_, model.n_features_in_ = coef, intercept, coef.shape[1]
    if isinstance(model, EF21Classifier):
        model.classes_ = np.asarray(about["classes"])
        if model.classes_.ndim != 1 or len(coef) != (1 if len(model.classes_) == 2 else len(model.classes_)):
            raise ValueError(f"{len(coef)} models for the classes {about['classes']}")
    return model


def _encoding_before(found: dict[str, Any]) -> Encoding:
    """The encoding of a file of format 1."""
    columns = [Number(name) if values is None else Category(name, tuple(values)) for name, values in found["columns"]]
    return Columns(tuple(columns)) if columns else Indices(found["width"], base=None)


def _digest(parts: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
    hashed = sha256()
    for name in ("coef", "places", "intercept", "about"):
        if name in parts:
            hashed.update(np.ascontiguousarray(parts[name]).tobytes())
    return np.frombuffer(hashed.digest(), dtype=np.uint8)
