"""What the processes of `ddp_runs` do: they train a small model with an embedding table, over minibatches of their own."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.nn.parallel.distributed import _MixedPrecision

import errorfeedback as ef

ROWS, WIDTH, HIDDEN, BATCH = 40, 4, 5, 8


class Clicks(nn.Module):
    """A table, a small network behind it, and a layer that not every batch uses."""

    def __init__(self, sparse, layout=torch.contiguous_format):
        super().__init__()
        self.table = nn.EmbeddingBag(ROWS, WIDTH, sparse=sparse, mode="sum")
        self.first, self.second = nn.Linear(WIDTH, HIDDEN), nn.Linear(HIDDEN, 1)
        self.image = nn.Conv2d(2, 2, 2).to(memory_format=layout)

    def forward(self, items):
        hidden = torch.tanh(self.first(self.table(items)))
        return self.second(hidden) + self.image(hidden[:, :2, None, None].expand(-1, -1, 2, 2)).sum((1, 2, 3))[:, None]


def batch(rank, t):
    """Keyed by process and step, so that a resumed run has the same."""
    draw = torch.Generator().manual_seed(1000 * rank + t)
    items = torch.randint(0, ROWS // 2, (BATCH, 3), generator=draw) + 10 * rank
    return items, (items % 3 == 0).double().mean(1, keepdim=True)


def loss_of(model, rank, t):
    items, wanted = batch(rank, t)
    out = model(items)
    return ((out - wanted.to(out.dtype)) ** 2).mean()


def fresh(sparse=True, dtype=torch.float32, layout=torch.contiguous_format):
    torch.manual_seed(7)
    return Clicks(sparse, layout).to(dtype)


def bits(model):
    """All parameters, as a short text."""
    return hashlib.sha256(b"".join(p.detach().double().numpy().tobytes() for p in model.parameters())).hexdigest()[:16]


@dataclass(frozen=True)
class Case:
    """How a model is trained."""

    method: object
    sparse: bool = True
    dtype: torch.dtype = torch.float32
    layout: torch.memory_format = torch.contiguous_format
    options: tuple = ()
    """What DDP is told."""
    momentum: float = 0.0
    """Of the optimiser, which then has a memory too."""

    def begin(self):
        model = fresh(self.sparse, self.dtype, self.layout)
        ddp = DistributedDataParallel(model, **dict(self.options))
        hook = ef.torch.hook(ddp, self.method, seed=3)
        return ddp, hook, torch.optim.SGD(model.parameters(), lr=0.1, momentum=self.momentum)


def step(ddp, optimiser, rank, t):
    optimiser.zero_grad()
    loss_of(ddp, rank, t).backward()
    optimiser.step()


def trained(rank, ranks, case, steps=6):
    """The bits after every step, and the bytes that were sent."""
    ddp, hook, optimiser = case.begin()
    seen = []
    for t in range(steps):
        step(ddp, optimiser, rank, t)
        seen.append(bits(ddp.module))
    return seen, hook.bytes_sent


def all_trained(rank, ranks, cases):
    return [trained(rank, ranks, case) for case in cases]


def observed(rank, ranks, case, steps=6):
    """In every step: the gradients that all processes had, and what the hook made of them, by parameter."""
    ddp, _, optimiser = case.begin()
    rows = []
    for t in range(steps):
        own = torch.autograd.grad(loss_of(ddp.module, rank, t), list(ddp.module.parameters()))
        everybody = [None] * ranks
        dist.all_gather_object(everybody, [g.numpy() for g in own])
        step(ddp, optimiser, rank, t)
        rows.append((everybody, [p.grad.numpy().copy() for p in ddp.module.parameters()]))
    return rows


def saving(rank, ranks, case, folder, steps, every):
    """Train from the newest state of the folder, if any, and save often; the bits at the end."""
    ddp, hook, optimiser = case.begin()
    first = newest(folder, ranks)
    if first:
        kept = torch.load(Path(folder) / f"{rank}-{first}.pt", weights_only=True)
        ddp.module.load_state_dict(kept["model"])
        optimiser.load_state_dict(kept["optimizer"])
        hook.load_state_dict(kept["hook"])
    for t in range(first, steps):
        step(ddp, optimiser, rank, t)
        if (t + 1) % every == 0:
            file = Path(folder) / f"{rank}-{t + 1}.pt"
            parts = {"model": ddp.module, "optimizer": optimiser, "hook": hook}
            torch.save({name: part.state_dict() for name, part in parts.items()}, file.with_suffix(".part"))
            os.replace(file.with_suffix(".part"), file)
    return first, bits(ddp.module)


def newest(folder, ranks):
    """The latest step that all processes have saved; 0 where there is none."""
    steps = [{int(file.stem.partition("-")[2]) for file in Path(folder).glob(f"{rank}-*.pt")} for rank in range(ranks)]
    return max(set.intersection(*steps), default=0)


def from_mean(rank, ranks, case, states, steps=3):
    """Begin with the mean of other processes' states: what this one remembers then, and the bits after some steps."""
    ddp, hook, optimiser = case.begin()
    hook.load_state_dict(ef.torch.mean_state(states))
    began = hook.state_dict()["parameters"]
    for t in range(steps):
        step(ddp, optimiser, rank, t)
    return began, bits(ddp.module)


def not_finite(rank, ranks, case, name):
    """Where process 1 has a gradient that is not finite in step 1: what is said, and what it remembers before and after."""
    ddp, hook, optimiser = case.begin()
    step(ddp, optimiser, rank, 0)
    before = hook.state_dict()["parameters"]
    if rank == 1:
        ddp.module.get_parameter(name).register_hook(lambda gradient: gradient * float("nan"))
    try:
        step(ddp, optimiser, rank, 1)
    except RuntimeError as error:
        return str(error), before, hook.state_dict()["parameters"]


def accumulated(rank, ranks, case):
    """Gradients of a step over two batches, the first of them without synchronising; and of all processes' batches."""
    ddp, hook, _ = case.begin()
    with ddp.no_sync():
        loss_of(ddp, rank, 0).backward()
    loss_of(ddp, rank, 1).backward()
    model = fresh(case.sparse)
    sum(loss_of(model, i, t) for i in range(ranks) for t in (0, 1)).div(ranks).backward()
    steps = {each["step"] for each in hook.state_dict()["parameters"].values()}
    return [p.grad for p in ddp.module.parameters()], [p.grad for p in model.parameters()], steps


class Sometimes(nn.Module):
    """Two layers; the second is used by process 0 in even steps and by nobody in odd ones."""

    def __init__(self):
        super().__init__()
        self.always, self.seldom = nn.Linear(2, 2), nn.Linear(2, 2)

    def forward(self, x, both):
        return self.seldom(self.always(x)).sum() if both else self.always(x).sum()


def unused(rank, ranks, method):
    """The bits after every step, and where the gradient of the second layer is None."""
    torch.manual_seed(7)
    ddp = DistributedDataParallel(Sometimes(), find_unused_parameters=True)
    ef.torch.hook(ddp, method)
    optimiser, seen = torch.optim.SGD(ddp.parameters(), lr=0.1), []
    for t in range(4):
        optimiser.zero_grad()
        ddp(torch.ones(3, 2), rank == 0 and t % 2 == 0).backward()
        optimiser.step()
        seen.append((bits(ddp.module), ddp.module.seldom.weight.grad is None))
    return seen


def by_share(name, parameter):
    """A tenth of every table and matrix, and all of every vector."""
    return ef.EF14(ef.TopK(max(1, parameter.numel() // 10)) if parameter.ndim > 1 else ef.Identity())


def by_name(name, parameter):
    """Not a method."""
    return ef.TopK(3)


def refusals(rank, ranks, attempts):
    """What is said to each attempt."""
    return [_refusal(attempt) for attempt in attempts]


def _refusal(attempt):
    try:
        attempt()
    except (TypeError, ValueError) as error:
        return str(error)
    return "nothing"


def not_ddp():
    ef.torch.hook(nn.Linear(2, 2), ef.EF14(ef.TopK(3)))


def hooked(method, dtype=torch.float32, unused=False, table=False, width=2):
    model = nn.Embedding(width, width, sparse=True) if table else nn.Linear(width, width, bias=False, dtype=dtype)
    return ef.torch.hook(DistributedDataParallel(model, find_unused_parameters=unused), method)


def hooked_twice():
    method = ef.EF14(ef.TopK(3))
    ddp = DistributedDataParallel(nn.Linear(2, 2))
    ef.torch.hook(ddp, method)
    ef.torch.hook(ddp, method)


def mixed():
    precision = _MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16)
    ef.torch.hook(DistributedDataParallel(nn.Linear(2, 2), mixed_precision=precision), ef.EF14(ef.TopK(3)))


def loaded(method=None, renamed="weight", width=2, **changed):
    """A state of EF14 on two by two numbers, changed in some way."""
    own = ef.EF14(ef.TopK(3))
    state = hooked(own).state_dict()
    parameters = {renamed: state["parameters"]["weight"]}
    hooked(own if method is None else method, width=width).load_state_dict({**state, "parameters": parameters, **changed})


def uneven(rank, ranks, case):
    """Process 1 has two batches more; what both have in the end."""
    ddp, _, optimiser = case.begin()
    with ddp.join():
        for t in range(3 + 2 * rank):
            step(ddp, optimiser, rank, t)
    return bits(ddp.module)
