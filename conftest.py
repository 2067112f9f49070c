"""Doctests of modules whose optional package is not installed are left out; every other import that fails is an error."""

from __future__ import annotations

from importlib.util import find_spec

OPTIONAL = {
    "torch": ["interop/torch/*"],
    "jax": ["interop/jax/*"],
    "flwr": ["federated/flower/*"],
    "cryptography": ["engines/stream.py", "clients/joining.py"],
    "mlflow": ["watchers/mlflow_run.py"],
    "tensorboardX": ["watchers/tensor_board.py"],
    "tqdm": ["watchers/tqdm_bar.py"],
}
collect_ignore_glob = [
    f"src/errorfeedback/{path}" for name, paths in OPTIONAL.items() if find_spec(name) is None for path in paths
]
