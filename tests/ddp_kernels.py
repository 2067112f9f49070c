"""Imported once, by the server that processes of `ddp_runs` are forked from: torch, and the kernels of two parameters."""

from __future__ import annotations

import torch
import torch._dynamo  # DistributedDataParallel wants it

import errorfeedback as ef
from errorfeedback.interop.torch.dense_parameter import DenseParameter
from errorfeedback.interop.torch.table_parameter import TableParameter
from errorfeedback.interop.torch.tracked import ProcessRank

alone, numbers, gradient = ProcessRank(0, 1, 0), torch.arange(6, dtype=torch.int32).numpy(), torch.ones(3, 2)
for compressor in (ef.TopK(2), ef.PowersOfTwo(4), ef.Rounded(ef.TopK(2), ef.PowersOfTwo(4))):
    for method in (ef.EF14(compressor), ef.EF21(compressor, "compressed")):
        dense = DenseParameter("dense", gradient, method, alone, numbers)
        dense.estimate([dense.message(gradient)])
table = TableParameter("table", gradient, ef.EF14(ef.TopK(2)), alone)
table.estimate([table.message(gradient.to_sparse(1))])
