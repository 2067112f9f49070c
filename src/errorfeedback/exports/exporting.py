"""`ef.export("run/", to="sklearn")`: the model of a run in another form, beside it or where it is asked for."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from errorfeedback import exports
from errorfeedback.estimators.model_file import load_model
from errorfeedback.exports.base import Export
from errorfeedback.registry import members


def forms() -> dict[str, type[Export]]:
    """Every form by its name.

    >>> sorted(forms())
    ['csv', 'onnx', 'sklearn']
    """
    return {form.name: form for form in members(exports, Export).values()}  # type: ignore[type-abstract]


def export(run: str | PathLike[str], to: str, out: str | PathLike[str] | None = None) -> Path:
    """Write the model of a `run`, a folder that `errorfeedback train` made (or a model file), as `to`: csv (coefficients),
    sklearn (a fitted scikit-learn model, pickled by joblib) or onnx. Gives the file: `out`, or one in that folder."""
    known = forms()
    if to not in known:
        raise ValueError(f"to = {to!r}; it must be one of {', '.join(known)}")
    saved, form, place = load_model(run), known[to], Path(run)
    path = (place if place.is_dir() else place.parent) / form.file if out is None else Path(out)
    path.parent.mkdir(parents=True, exist_ok=True)
    form().write(saved, path)
    return path
