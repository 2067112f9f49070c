"""A model as a file: numbers in an .npz, everything else as JSON inside it, and a checksum over both. Data, never code.

Entries: `coef` (models, features), `intercept` (models,), `about` (JSON in UTF-8: format, kind, classes, feature encoding,
scaling, provenance), `sha256` (over the other three). Read with allow_pickle=False.
"""

from __future__ import annotations

import json
import zipfile
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

import errorfeedback
from errorfeedback.core import Floats
from errorfeedback.data.tables import Encoding
from errorfeedback.estimators.base import LinearEF21
from errorfeedback.estimators.classifier import EF21Classifier
from errorfeedback.estimators.regressor import EF21Regressor

FORMAT = "errorfeedback model 1"
KINDS: dict[str, type[LinearEF21]] = {"classifier": EF21Classifier, "regressor": EF21Regressor}


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
    about = {
        "format": FORMAT,
        "version": errorfeedback.__version__,
        "kind": kind,
        "classes": model.classes_.tolist() if isinstance(model, EF21Classifier) else None,
        "encoding": asdict(encoding),
        "names": encoding.names,
        "scaling": model.scale,
        "provenance": provenance,
    }
    text = np.frombuffer(json.dumps(about).encode(), dtype=np.uint8)
    coef, intercept = np.atleast_2d(model.coef_), np.atleast_1d(np.asarray(model.intercept_, dtype=np.float64))
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        np.savez(file, coef=coef, intercept=intercept, about=text, sha256=_digest(coef, intercept, text))
    return path


def load(path: Path) -> Saved:
    """Read a model file, or say what is wrong with it."""
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file; `errorfeedback train ... --out {path.parent}` makes one")
    try:
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            coef, intercept, about, digest = (file[name] for name in ("coef", "intercept", "about", "sha256"))
    except KeyError as error:
        raise ValueError(f"{path}: not a model of errorfeedback (it has no {error})") from error
    except (ValueError, OSError, EOFError, zipfile.BadZipFile, zipfile.LargeZipFile) as error:
        raise ValueError(f"{path}: damaged, or not a model of errorfeedback ({error})") from error
    if not np.array_equal(digest, _digest(coef, intercept, about)):
        raise ValueError(f"{path}: damaged: the checksum does not fit the contents")
    found = json.loads(about.tobytes().decode())
    if found.get("format") != FORMAT:
        raise ValueError(f"{path}: the format is {found.get('format')!r}, and this version reads {FORMAT!r}")
    return Saved(_model(found, coef, intercept), _encoding(found["encoding"]), found["provenance"], found["kind"])


def _model(found: dict[str, Any], coef: Floats, intercept: Floats) -> LinearEF21:
    model = KINDS[found["kind"]]()
    model.coef_, model.intercept_, model.n_features_in_ = coef, intercept, coef.shape[1]
    if isinstance(model, EF21Classifier):
        model.classes_ = np.asarray(found["classes"])
    return model


def _encoding(found: dict[str, Any]) -> Encoding:
    columns = tuple((name, None if values is None else tuple(values)) for name, values in found["columns"])
    return Encoding(found["width"], columns)


def _digest(*parts: Any) -> Any:
    hashed = sha256()
    for part in parts:
        hashed.update(np.ascontiguousarray(part).tobytes())
    return np.frombuffer(hashed.digest(), dtype=np.uint8)
