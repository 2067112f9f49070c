"""What the server makes of the estimate g: the direction in which x goes, x - gamma * direction."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from errorfeedback.compressors.base import Contractive
from errorfeedback.core import VALUE_BITS, Floats, Integers, Model, PerClient
from errorfeedback.problems.proximal import ElasticNet
from errorfeedback.sparsity.support import Support
from errorfeedback.sums import Quadratic, dot

TELLERS = 0x7E11
"""Keys who tells: no other draw of a run begins with it."""


@dataclass(frozen=True)
class Asking:
    """How clients tell their Hessians where the server asks for them."""

    compressor: Contractive
    """Of what is missing from a client's estimate."""
    clients: int | None = None
    """How many tell: the same ones whenever they are asked, drawn by the run's seed. None: all."""
    above: bool = False
    """What they tell is of quadratics that touch f_i where they stand and are nowhere below it."""
    finer: Contractive | None = None
    """The same where the server asks for more digits; None: it does not."""

    def words(self, finely: bool) -> Contractive:
        """How an exchange is told."""
        return self.finer if finely and self.finer is not None else self.compressor

    def bits(self, finely: bool) -> int:
        """Of an entry where all tell: a gradient that comes with their Hessians is to be as fine as these, and is short
        beside them. 0 where some tell for all."""
        return self.words(finely).coding.width(VALUE_BITS) if self.clients is None else 0

    def among(self, n: int, seed: int) -> Integers:
        """The numbers of those who tell, of n clients in all.

        >>> from errorfeedback.compressors.identity import Identity
        >>> Asking(Identity(), clients=3).among(10, seed=0).tolist()
        [4, 8, 9]
        """
        return _drawn(n if self.clients is None else min(self.clients, n), n, seed)

    def tellers(self, support: Support, seed: int) -> Integers:
        """The places of those who tell among the clients of a shard."""
        numbers = self.among(support.n_total, seed) - support.first
        return numbers[(numbers >= 0) & (numbers < support.n)]

    def told_by(self, support: Support, seed: int) -> Support:
        """The features of those who tell among the clients of a shard."""
        before = int(np.count_nonzero(self.among(support.n_total, seed) < support.first))
        return support.of(self.tellers(support, seed), before, min(self.clients or support.n_total, support.n_total))


@lru_cache(maxsize=8)
def _drawn(count: int, n: int, seed: int) -> Integers:
    numbers = np.arange(n) if count == n else np.sort(np.random.default_rng((TELLERS, seed)).permutation(n)[:count])
    numbers.flags.writeable = False
    return numbers


@dataclass(frozen=True, eq=False)
class Hessians:
    """What the clients told of their Hessians, and what the server knows beside it."""

    mean: Model
    """The mean over all clients of what was missing from their estimates, 0 for those who do not tell: an upper triangle
    (`sparsity.pairs`), in units. Where features are many, its parts: what each has told, divided by n."""
    missing: PerClient
    """The root mean square of what is still missing; nan for those who have not told."""
    units: Model
    """(d,): the entry (j, k) of a Hessian was told times u_j u_k."""
    l2: Floats
    """The curvature of the server's penalty."""
    support: Support
    tellers: Support
    """Of the clients that tell."""


@dataclass(frozen=True)
class Promise:
    """What a direction promises where it begins."""

    descent: float
    """How fast F falls along it, to first order: <gradient, direction>; over all of it where R has kinks."""
    gap: float
    """How far the minimum of the direction's model is below."""


@dataclass(frozen=True)
class Direction(ABC):
    """Memory, if any, is a state that is handed in and out."""

    is_estimate: ClassVar[bool] = False
    """The direction is g itself: what theorems about gradient methods are about."""
    adds_penalty: ClassVar[bool] = False
    """g has the gradient of the server's smooth penalty in it, in place of a proximal step after it."""
    knows_kinks: ClassVar[bool] = False
    """And where the penalty has an l1 part, its model has that too (`with_l1`)."""

    def check(self, prox: ElasticNet | None) -> None:
        """Raise where the direction does not know what to do with the server's penalty."""
        if self.adds_penalty and prox is not None and not (prox.smooth or self.knows_kinks):
            raise ValueError(
                f"{type(self).__name__} adds the gradient of the penalty, and l1 has none at 0; use ef.LBFGS() with l1"
            )

    def start(self, x: Model) -> Any:
        """The memory before round 0."""
        return None

    def rehearse(self, x: Model, kinked: bool) -> None:  # noqa: B027  (most have no kernels)
        """Compile what a run from x compiles, before its clock runs; `kinked`: with an l1 part of the penalty."""

    def with_l1(self, state: Any, l1: Model) -> Any:
        """The memory before round 0, where R has the part sum_j l1_j |x_j|; for directions that know kinks."""
        return state

    @abstractmethod
    def __call__(self, state: Any, x: Model, g: Model) -> tuple[Model, Any]:
        """The direction at x, and the memory for the next round. Neither x nor g may be changed."""

    def corrected(self, state: Any, news: Model) -> Any:
        """The memory, where g at the last accepted point counts as that much more: clients that were away there have told
        what they had missed, which no step has changed."""
        return state

    def refused(self, state: Any, x: Model, g: Model) -> tuple[Model | None, Any]:
        """A rule has refused the step to x, where the estimate is g: a better direction from where the step began, or None
        where the last one stays."""
        return None, state

    @property
    def hessians(self) -> Asking | None:
        """How clients tell their Hessians, where the direction may ask for them."""
        return None

    def asks(self, state: Any, gained: float | None) -> bool:
        """Whether clients are to send what is missing from their Hessian estimates in the coming round. `gained`: how far
        the loss has fallen, where a rule that searches knows."""
        return False

    def finely(self, state: Any) -> bool:
        """Whether what `asks` asks for is to have more digits."""
        return False

    def bent(self, state: Any, answer: Hessians) -> Any:
        """The memory after they have."""
        return state

    def length(self, state: Any) -> float | None:
        """The step size that the direction is made for; None where it does not know."""
        return None

    def promise(self, state: Any, g: Model, direction: Model) -> Promise:
        """That of the direction which was made last, for the gradient g."""
        descent, length = dot(g, direction), self.length(state)
        return Promise(descent, 0.5 * (1.0 if length is None else length) * descent)

    def quadratic(self, state: Any) -> Quadratic | None:
        """The curvature that the last direction believes in, where it has a model of it."""
        return None

    @classmethod
    @abstractmethod
    def examples(cls) -> Sequence[Direction]:
        """Instances for the conformance tests."""
