"""Error feedback in PyTorch's DistributedDataParallel: in place of an all-reduce of gradients,

    process i sends C(...) of its method's client side,   all take g = the server side of the mean,

and the optimiser steps with g. One all-gather of bytes for every bucket, in the frames of `wire.codec`; a parameter's
message does not depend on its bucket, which DDP changes after the first step.
"""
# No postponed annotations here: DDP compares those of a hook with its own classes.

from collections.abc import Callable
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from errorfeedback.compressors.base import Contractive
from errorfeedback.interop.torch.dense_parameter import DenseParameter
from errorfeedback.interop.torch.saved_state import State, restore, state_of
from errorfeedback.interop.torch.table_parameter import TableParameter
from errorfeedback.interop.torch.tracked import ProcessRank, Tracked
from errorfeedback.methods.base import Method

MethodOf: TypeAlias = Callable[[str, torch.nn.Parameter], Method]
"""The method of a parameter, by its name and the parameter."""
FLOATING = (torch.float64, torch.float32, torch.bfloat16, torch.float16)


def hook(ddp: DistributedDataParallel, method: Method | MethodOf, *, seed: int = 0) -> "Hook":
    """Synchronise gradients by a `method` of error feedback: `ef.torch.hook(ddp, ef.EF14(ef.TopK(1000)))`.

    Every parameter is compressed by itself: K numbers of each, all where it has fewer. For a share of each, or another
    method for some, give a function: `lambda name, p: ef.EF14(ef.TopK(max(1, p.numel() // 100)))`. `seed` is for
    compressors that draw. Call it after DDP and before the first step, once.
    """
    if not isinstance(ddp, DistributedDataParallel):
        raise TypeError(
            f"the model is a {type(ddp).__name__}; a hook needs torch.nn.parallel.DistributedDataParallel(model)"
        )
    if ddp.mixed_precision is not None:
        raise ValueError("DDP with mixed_precision has a hook of its own; use torch.autocast in its place")
    group = ddp.process_group
    process = ProcessRank(dist.get_rank(group), dist.get_world_size(group), seed)
    made = Hook(ddp, method, process)
    try:
        ddp.register_comm_hook(made, _run)
    except RuntimeError as error:
        raise ValueError(
            "the model has a communication hook already, and DDP takes one; wrap the module anew: "
            "DistributedDataParallel(ddp.module)"
        ) from error
    return made


class Hook:
    """What `hook(ddp, method)` returns: the memory of this `process`. `bytes_sent`: how long its messages were so far."""

    def __init__(self, ddp: DistributedDataParallel, method: Method | MethodOf, process: ProcessRank) -> None:
        self.group, self.process, self.bytes_sent = ddp.process_group, process, 0
        named = [(n, p) for n, p in ddp.module.named_parameters() if p.requires_grad and n not in ddp.parameters_to_ignore]
        tables = {
            module.weight
            for module in ddp.module.modules()
            if isinstance(module, (torch.nn.Embedding, torch.nn.EmbeddingBag)) and module.sparse
        }
        numbers = np.arange(max((p.numel() for _, p in named if p not in tables), default=0), dtype=np.int32)
        self.tracked: dict[torch.Tensor, Tracked] = {}
        for name, p in named:
            own = method if isinstance(method, Method) else method(name, p)
            _check(name, p, own, ddp)
            self.tracked[p] = (
                TableParameter(name, p, own, process) if p in tables else DenseParameter(name, p, own, process, numbers)
            )

    def state_dict(self) -> State:
        """All that later steps of this process depend on, beside model and optimiser. Every process saves its own."""
        return state_of(list(self.tracked.values()), self.process)

    def load_state_dict(self, state: State) -> None:
        """Go on, bit for bit, from a state of this process, or from the `mean_state` of any number of processes."""
        restore(state, list(self.tracked.values()), self.process)

    def step(self, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:  # type: ignore[name-defined]
        """Send what the methods have to say about a bucket's gradients; its future is their estimates."""
        buffer, tracked = bucket.buffer(), [self.tracked[p] for p in bucket.parameters()]
        gradients = [buffer] if buffer.is_sparse else bucket.gradients()
        lengths = np.array([each.lengths() for each in tracked])  # (parameters, processes)
        ends = np.vstack([np.zeros_like(lengths[:1]), np.cumsum(lengths, axis=0)])
        mine = np.zeros(ends[-1].max(), dtype=np.uint8)
        for each, gradient, start in zip(tracked, gradients, ends[:-1, self.process.rank], strict=True):
            message = each.message(_on_host(gradient, each))
            mine[start : start + len(message)] = message
        self.bytes_sent += len(mine)
        own = torch.from_numpy(mine).to(buffer.device)
        everybody = own.new_empty(self.process.ranks * len(own))
        work = dist.all_gather_single(everybody, own, group=self.group, async_op=True)

        def receive(_: object) -> torch.Tensor:
            sent = everybody.cpu().numpy().reshape(self.process.ranks, -1)
            estimates = [
                each.estimate([row[lo:hi] for row, lo, hi in zip(sent, start, stop, strict=True)])
                for each, (start, stop) in zip(tracked, pairwise(ends), strict=True)
            ]
            if buffer.is_sparse:
                return estimates[0].to(buffer.device, buffer.dtype)
            for gradient, estimate in zip(gradients, estimates, strict=True):
                gradient.copy_(estimate)
            return buffer

        return work.get_future().then(receive)


def _run(state: Hook, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:  # type: ignore[name-defined]
    return state.step(bucket)


def _on_host(gradient: torch.Tensor, tracked: Tracked) -> torch.Tensor:
    """In main memory and in a precision of the wire; the gradient itself where it is so already."""
    return gradient.detach().to("cpu", torch.float64 if tracked.dtype == np.float64 else torch.float32)


def _check(name: str, parameter: torch.nn.Parameter, method: Method, ddp: DistributedDataParallel) -> None:
    """Raise where a parameter cannot be synchronised by the method."""
    if not isinstance(method, Method):
        raise TypeError(f"the method of {name!r} is {method!r}; give a method such as ef.EF14(ef.TopK(1000))")
    if not issubclass(method.requires, Contractive):
        raise ValueError(
            f"the method of {name!r} is {type(method).__name__}, which has no error feedback; give ef.EF14 or one of ef.EF21"
        )
    if not (method.announces and method.compressor.announces):
        who = method.compressor if method.announces else type(method).__name__
        raise ValueError(
            f"the method of {name!r} is {who}, whose messages have no length that others could know; "
            "give ef.EF14 or one of ef.EF21, with a compressor such as ef.TopK"
        )
    if parameter.dtype not in FLOATING:
        raise ValueError(f"{name!r} is of {parameter.dtype}; gradients are sent as float64 or float32, so it must be real")
    if ddp.find_unused_parameters and not method.error_feedback:
        raise ValueError(
            f"find_unused_parameters=True with {type(method).__name__}: what is sent for {name!r} in a step in which nobody "
            "used it is thrown away by DDP; take a method that keeps gradient estimates (EF21), or use all parameters"
        )
