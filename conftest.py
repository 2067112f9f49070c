"""Doctests of modules whose optional package is not installed are left out; every other import that fails is an error."""

from __future__ import annotations

from importlib.util import find_spec

OPTIONAL = {"torch": "interop/torch", "jax": "interop/jax", "flwr": "federated/flower"}
collect_ignore_glob = [f"src/errorfeedback/{folder}/*" for name, folder in OPTIONAL.items() if find_spec(name) is None]
