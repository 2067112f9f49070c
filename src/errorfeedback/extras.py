"""What a plain `pip install errorfeedback` does not bring: which packages, and the extra that has each of them."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

EXTRAS = {
    "plotly": "report",
    "pyarrow": "tables",
    "pandas": "pandas",
    "onnx": "onnx",
    "tqdm": "tqdm",
    "tensorboardX": "tensorboard",
    "mlflow": "mlflow",
    "mpi4py": "mpi",
    "torch": "torch",
    "jax": "jax",
    "cryptography": "stream",
    "flwr": "flower",
    "ray": "ray",
}


class MissingExtraError(ImportError):
    """A package is missing that an extra would have brought."""


def installed(package: str) -> bool:
    """Whether the package of an extra is there; nothing is imported."""
    return find_spec(package) is not None


def require(package: str, purpose: str) -> None:
    """Refuse to begin what would fail later for want of a package."""
    if not installed(package):
        raise MissingExtraError(f"{purpose} needs {package}: {how_to_get(package)}")


def how_to_get(package: str) -> str:
    """What to type.

    >>> how_to_get("plotly")
    "pip install 'errorfeedback[report]'"
    """
    return f"pip install 'errorfeedback[{EXTRAS[package]}]'"


def import_extra(module: str, purpose: str) -> Any:
    """Import a module of an extra, or say what it is needed for and how to get it."""
    package = module.partition(".")[0]
    try:
        return import_module(module)
    except (ImportError, RuntimeError) as error:  # RuntimeError: mpi4py is there, an MPI is not
        raise MissingExtraError(f"{purpose} needs {package} ({error}): {how_to_get(package)}") from error
