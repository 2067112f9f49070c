"""Error feedback for sparse models: EF21 with TopK, its theory and its rivals, as in "Error Feedback Shines when
Features are Rare" (Richtarik, Gasanov, Burlachenko 2023).

Names are imported when they are first used, so that `import errorfeedback` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from errorfeedback import caches

if TYPE_CHECKING:
    from errorfeedback.api import *  # noqa: F403
    from errorfeedback.comparison import *  # noqa: F403
    from errorfeedback.estimators import *  # noqa: F403
    from errorfeedback.estimators.model_file import load_model as load_model
    from errorfeedback.exports.exporting import export as export
    from errorfeedback.exports.scikit_learn import to_sklearn as to_sklearn
    from errorfeedback.interop import jax as jax
    from errorfeedback.interop import torch as torch

    __version__: str
HEAVY = {
    **dict.fromkeys(("EF21Classifier", "EF21PoissonRegressor", "EF21Regressor"), "estimators"),
    "load_model": "estimators.model_file",
    "export": "exports.exporting",
    "to_sklearn": "exports.scikit_learn",
    **dict.fromkeys(("Comparison", "compare"), "comparison"),
}
"""They bring scikit-learn or matplotlib along, so they are not in the api; where each of them is."""
FRAMEWORKS = ("torch", "jax")
"""What they add is a namespace each: `ef.torch`, `ef.jax`."""

caches.ensure_kernels()  # before numba is imported by anything


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return _version()
    if name.startswith("_") or find_spec(f"{__name__}.{name}") is not None:
        raise AttributeError(name)  # a part of the package: Python imports it by itself
    if name in FRAMEWORKS:
        return import_module(f"errorfeedback.interop.{name}")
    if name in HEAVY:
        return getattr(import_module(f"errorfeedback.{HEAVY[name]}"), name)
    api = import_module("errorfeedback.api")
    value = vars(api).get(name)
    if value is None:
        value = api.discovered().get(name)
    if value is None:
        raise AttributeError(f"errorfeedback has no {name!r}")
    globals()[name] = value
    return value


def _version() -> str:
    """That of the installed package, which has it from a git tag."""
    metadata = import_module("importlib.metadata")  # takes its time to import: only where it is asked for
    try:
        return str(metadata.version(__name__))
    except metadata.PackageNotFoundError:  # a folder of sources that nobody installed
        return "0+unknown"


def __dir__() -> list[str]:
    api = import_module("errorfeedback.api")
    public = {name for name in vars(api) if not name.startswith("_") and name not in {"annotations", "Any", "ModuleType"}}
    return sorted(public | set(HEAVY) | set(FRAMEWORKS) | set(api.discovered()))
