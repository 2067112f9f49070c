"""What a module must be to be a problem, and what its user should know of how it is read."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

from errorfeedback.interop.models import SUMMED, doubled
from errorfeedback.interop.torch.client_data import Example
from errorfeedback.interop.torch.modules import TorchLoss

DTYPES: dict[torch.dtype, np.dtype[Any]] = {torch.float64: np.dtype(np.float64), torch.float32: np.dtype(np.float32)}


def checked_module(module: nn.Module) -> tuple[np.dtype[Any], list[str]]:
    """Its precision and the names of its trainable parameters."""
    if not isinstance(module, nn.Module):
        raise ValueError(f"{module!r:.60} is no torch.nn.Module")
    for name, parameter in module.named_parameters():
        if parameter.dtype not in DTYPES:
            raise ValueError(f"the parameter {name!r} is of {parameter.dtype}; all must be of float64 or all of float32")
    trained = {name: p for name, p in module.named_parameters() if p.requires_grad}
    if not trained:
        raise ValueError(f"{type(module).__name__} has no parameters that require gradients, so there is nothing to train")
    first: nn.Parameter = next(iter(trained.values()))
    for name, parameter in trained.items():
        if parameter.dtype != first.dtype or parameter.device != first.device:
            raise ValueError(
                f"the parameter {name!r} is of {parameter.dtype} on {parameter.device}, but others of {first.dtype} on "
                f"{first.device}; use one for all (module.double(), module.to(device))"
            )
    return DTYPES[first.dtype], list(trained)


def checked_runs(module: nn.Module, loss: TorchLoss, example: Example) -> list[str]:
    """Remarks; raises where the module cannot be run, or is no function of its parameters."""
    _check_modes(module)
    before = {name: buffer.clone() for name, buffer in module.named_buffers()}
    first, second = (_loss_of(module, loss, example) for _ in range(2))
    for name, buffer in module.named_buffers():
        if not torch.equal(buffer, before[name]):
            raise ValueError(f"the buffer {name!r} changes while the module computes; freeze it with module.eval()")
    if not torch.equal(first, second):
        raise ValueError(
            "the module gives another loss for the same data when it is asked twice; take the randomness out of it"
        )
    if first.ndim and len(first) != example.m:
        raise ValueError(
            f"the loss has shape {tuple(first.shape)} for {example.m} rows; it must be one number, or one per row"
        )
    if not first.ndim:
        _check_mean(module, loss, example, first)
    frozen = [name for name, p in module.named_parameters() if not p.requires_grad]
    dropout = [name for name, layer in module.named_modules() if isinstance(layer, _DropoutNd) and layer.p]
    remarks = {"buffers are frozen": list(before), "parameters are frozen": frozen, "dropout is off (eval)": dropout}
    return [f"{words}: {', '.join(names)}" for words, names in remarks.items() if names]


def _check_modes(module: nn.Module) -> None:
    for name, layer in module.named_modules():
        if isinstance(layer, _DropoutNd) and layer.training and layer.p:
            raise ValueError(
                f"{name!r} drops out at random in training mode, so that f_i is no function; call module.eval()"
            )


def _check_mean(module: nn.Module, loss: TorchLoss, example: Example, value: Tensor) -> None:
    """Raise where a loss of one number is a sum over the rows: over a sample of them it would have another scale."""
    twice = _loss_of(module, loss, example.like([torch.cat([each, each]) for each in example.tensors]))
    if doubled(float(value), float(twice)):
        raise ValueError(SUMMED)


def _loss_of(module: nn.Module, loss: TorchLoss, example: Example) -> Tensor:
    try:
        with torch.no_grad():
            out = loss(module(*example.args, **example.kwargs), example.target)
    except Exception as error:
        raise ValueError(f"the module cannot compute the loss of client 0: {type(error).__name__}: {error}") from error
    if not isinstance(out, Tensor) or not out.dtype.is_floating_point:
        raise ValueError(f"the loss is {out!r:.60}; it must be a tensor of one real number, or of one per row")
    return out
