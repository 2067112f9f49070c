"""One problem from the clients of several places."""

from __future__ import annotations

import hashlib

import numpy as np

from errorfeedback.core import PerClient
from errorfeedback.problems.base import Problem, Twice, is_bounded, setup_bits
from errorfeedback.problems.conversation import Conversation, Seat
from errorfeedback.problems.spread import Spread, check_owned, joined_support
from errorfeedback.smoothness.constants import smoothness


def joined_problem(part: Problem, seat: Seat) -> Conversation[Problem]:
    """The problem of all places' clients, where `part` is this one's (`problems.spread.shard_of_all`, or that scaled)."""
    return part if seat.of == 1 else (yield from spread_over(part))


def spread_over(part: Problem) -> Conversation[Spread]:
    """The same as everybody can know it: without anybody's rows but those of this place."""
    owned = part.support.by_feature
    L_i = smoothness(part).L_i if is_bounded(part) else PerClient(np.full(part.n, np.inf))
    bends = isinstance(part, Twice) and part.bends
    rows = part.hessian_rows if isinstance(part, Twice) and bends else 0
    everyone = yield owned.sizes, owned.indices, L_i, part.work, digests(part), rows
    sizes, indices, norms, work, hashes, counts_of_rows = zip(*everyone, strict=True)
    for place, (counts, features) in enumerate(zip(sizes, indices, strict=True)):
        check_owned(place, counts, features, owned.d)
    whole = Spread(
        support=joined_support(sizes, np.concatenate(indices), owned.d).times(part.support.outputs),
        columns=part.columns,
        width=part.width,
        dtype=part.dtype,
        L_i=PerClient(np.concatenate(norms)),
        size=sum(work),
        exchange=setup_bits(part),
        lower=part.lower_bound,
        digest=hashlib.sha256(np.concatenate(hashes).tobytes()).hexdigest(),
        units=part.hessian_units if isinstance(part, Twice) and bends else None,
        rows=sum(counts_of_rows),
    )
    return whole.lying([len(each) for each in sizes], part)


def digests(part: Problem) -> np.ndarray[tuple[int, int], np.dtype[np.uint8]]:
    """(n, 32): what every client's rows make of two points."""
    grads = [part.gradients_at(np.full(part.d, value)) for value in (0.0, 1.0)]
    ends = part.support.indptr
    hashed = [hashlib.sha256(b"".join(g[ends[i] : ends[i + 1]].tobytes() for g in grads)).digest() for i in range(part.n)]
    return np.frombuffer(b"".join(hashed), dtype=np.uint8).reshape(part.n, -1)
