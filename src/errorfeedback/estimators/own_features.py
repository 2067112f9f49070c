"""Whether features that one client alone has are left to it (`problems.reduced`), and what that takes.

They are where most rows have such a feature: an id, a history, a rare word. It takes an exchange at the end, in which
clients say their weights (16 or 24 bits each), so it is not for a few.

Nobody knows what is its own before the server says so. So clients say of all their features that they have them, and how
they curve; the server answers with a bit for each, whether others have it too, and the scale of those that are shared.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from errorfeedback.clients.own_weights import bits_for, own_bits
from errorfeedback.core import Integers, Model, PerClient, PerColumn
from errorfeedback.problems.conversation import Conversation
from errorfeedback.problems.glm import GLM
from errorfeedback.problems.reduced import irreducible, reduced
from errorfeedback.problems.scaling import Scaled, down_bits
from errorfeedback.runtime.begin import Begin
from errorfeedback.runtime.ledger import ownership_bits

SHARE = 1 / 2
"""Of all rows, that must have a feature which their client alone has."""
MOST_WORK = 2.0**33
"""For Hessians of all clients: some seconds."""


@dataclass(frozen=True, eq=False)
class OwnFeatures:
    """What features that were left to their clients are and cost, in bits of all clients."""

    share: float
    """Of all rows, that have one."""
    columns: Integers
    """Of the data."""
    sizes: PerClient
    """How many every client has."""
    listed: int
    """For saying at the start who has them."""
    weights: PerClient
    """For saying at the end what their weights are, every client."""


def own_features_left(scaling: Scaled, l2: PerColumn, tolerance: float) -> Conversation[tuple[Scaled, OwnFeatures | None]]:
    """The same problem where own features are left to the clients; None where they are not. `l2`: the curvature of the
    server's penalty; `tolerance`: what may be left of all progress at the end."""
    rows, shared = scaling.inner, scaling.support.counts > 1
    assert isinstance(rows, GLM), "training begins with rows"
    if shared.all():
        return scaling, None
    have = np.diff(np.concatenate([[0], np.cumsum(~shared[rows.A.indices])])[rows.A.indptr]) > 0
    everyone = yield int(have.sum()), len(have), not irreducible(rows, Model(l2[rows.columns]))
    *counts, reducible = zip(*everyone, strict=True)
    share = sum(counts[0]) / sum(counts[1])
    if share < SHARE or not all(reducible):
        return scaling, None
    inner = replace(reduced(rows, l2), weight_bits=bits_for(tolerance))
    support = inner.support
    scale, powers = (None if each is None else Model(each[shared]) for each in (scaling.scale, scaling.powers))
    assert scale is not None, "it is scaled"
    owned = ownership_bits(rows) - ownership_bits(inner)
    answer = rows.support.size + down_bits(support, scale, powers is not None)
    said = yield owned, answer, inner.hessian_work, rows.support.sizes - support.sizes, own_bits(inner)
    listed, down, work, sizes, weights = zip(*said, strict=True)
    every = [PerClient(np.concatenate(each)) for each in (sizes, weights)]
    own = OwnFeatures(share, rows.columns[~shared], every[0], sum(listed), every[1])
    made = Scaled(
        support=support,
        columns=inner.columns,
        width=rows.width,
        dtype=rows.dtype,
        inner=replace(inner, with_hessians=sum(work) <= MOST_WORK),
        scale=scale,
        exchange=(scaling.exchange[0] + own.listed + int(own.weights.sum()), sum(down)),
        powers=powers,
        reference=scaling.reference,
    )
    return made, own


def without(begin: Begin, own: OwnFeatures) -> Begin:
    """A start in which own features are 0: nobody needs to know of any other."""
    x = begin.x.copy()
    x[own.columns] = 0.0
    return replace(begin, x=x)
