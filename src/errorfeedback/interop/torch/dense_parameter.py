"""A parameter with dense gradients: J_i is all of it, on every process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import torch

from errorfeedback.core import Integers, Lifted
from errorfeedback.interop.torch.tracked import ONE_BIT, ProcessRank, Tracked
from errorfeedback.methods.base import Method
from errorfeedback.sparsity.support import Support, add_at
from errorfeedback.wire.bits import Bytes
from errorfeedback.wire.codec import decode, encode


class DenseParameter(Tracked):
    """`numbers`: 0, 1, 2, ..., which all parameters share; the process i is the client i of the parameter."""

    kind: ClassVar[str] = "dense"

    def __init__(self, name: str, parameter: torch.Tensor, method: Method, process: ProcessRank, numbers: Integers) -> None:
        super().__init__(name, parameter, method, process)
        d, ends = self.size, np.array([0, self.size])
        owners = np.broadcast_to(process.ranks, (d,))
        self.supports = [
            Support(indptr=ends, indices=numbers[:d], d=d, first=i, counts=owners, n_total=process.ranks)
            for i in range(process.ranks)
        ]
        self.method = method.bind(self.supports[process.rank])
        self.operators = [self.method.compressor.on(support) for support in self.supports]
        self.total = np.empty(d, dtype=self.dtype)

    def lengths(self) -> list[int]:
        known = [self.method.known(operator, self.ctx) for operator in self.operators]
        return [each.frames.cost(len(ONE_BIT), 8 * self.dtype.itemsize).bits // 8 for each in known]

    def message(self, gradient: torch.Tensor) -> Bytes:
        operator = self.operators[self.process.rank]
        message, beside = self.spoken(Lifted(gradient.reshape(-1).numpy()), operator)
        return encode(message, self.method.known(operator, self.ctx), self.ctx, beside, ONE_BIT)

    def estimate(self, sent: Sequence[Bytes]) -> torch.Tensor:
        total = self.total
        total.fill(0.0)
        for rank, (operator, frame) in enumerate(zip(self.operators, sent, strict=True)):
            known = self.method.known(operator, self.ctx)
            message, beside = decode(frame, known, operator.support, self.ctx, self.dtype, ONE_BIT)
            self.heard(rank, beside)
            if message.positions is None:
                total += message.values
            else:
                add_at(total, message.positions, message.values)
        return torch.from_numpy(self.served(total)).view(self.shape)
