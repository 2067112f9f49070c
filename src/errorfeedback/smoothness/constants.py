"""The smoothness constants of section 5.1, each an upper bound and each with the way it was computed.

With H_i = A_i' diag(w) A_i + diagonal * I on J_i (see `CurvatureBound`):
    L_i   = ||H_i||,   L = ||(1/n) sum_i H_i||        exact where the bound on the Hessian is attained at one point
    L_max = max_i L_i, L_tilde^2 = (1/n) sum_i L_i^2
    L_plus^2 = (1/n) ||sum_i H_i^2|| = ||P' blockdiag(H_i)^2 P|| / n       exact for quadratics
    L_plus <= sqrt(max_j sum_{i in I_j} L_i^2 / n)                         Lemma 2, otherwise
    L_pm^2 = ||(1/n) sum_i H_i^2 - ((1/n) sum_i H_i)^2||                   quadratics (MARINA with PermK)
A model of q outputs has H_i kron I_q in place of H_i: the constants are those of H_i, over features in place of numbers.
A penalty with curvature 2 lam adds 2 lam to L_i, and at most 2 lam sqrt(c/n) to L_plus (triangle inequality in the
lifted space).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from errorfeedback.core import Floats, PerClient
from errorfeedback.problems.base import CurvatureBound, Normed, Problem, curvature_of
from errorfeedback.smoothness.clients import client_norms
from errorfeedback.smoothness.products import squares_times, times, transposed_times
from errorfeedback.smoothness.spectrum import ROUNDING, Eigenvalue, key_of, largest_eigenvalue
from errorfeedback.sparsity.support import Support

LARGEST = 1e70
"""Values of the data (times the square root of their weight) up to this, and down to its inverse, have curvatures whose
squares a float64 holds."""


@dataclass(frozen=True, eq=False)
class Smoothness:
    """L, L_i, L_max, L_tilde, L_plus, L_pm of a problem; computed when asked for, once."""

    problem: Problem

    @property
    def support(self) -> Support:
        """Who owns which feature: what is known of a feature's numbers is the same for all of them."""
        return self.problem.support.by_feature

    @cached_property
    def curvature(self) -> CurvatureBound:
        return _in_range(curvature_of(self.problem))

    @cached_property
    def key(self) -> int:
        """A hash of all the data that the constants come from."""
        k = self.curvature
        return key_of(k.A.data, k.A.indices, k.A.indptr, k.weights, k.rows, np.array([k.diagonal]))

    @property
    def L(self) -> float:
        """Smoothness of f (Assumption 1)."""
        return self._L.upper

    @cached_property
    def L_i(self) -> PerClient:
        """Smoothness of every f_i (Assumption 2)."""
        k = self.curvature
        return PerClient(client_norms(k, self.support) + k.diagonal)

    @cached_property
    def shared_eigenvalues(self) -> dict[bytes, Eigenvalue]:
        """Eigenvalues that several rules can use (`spectral`), by their set of rare features."""
        return {}

    @property
    def L_max(self) -> float:
        return float(self.L_i.max())

    @property
    def L_tilde(self) -> float:
        return float(np.sqrt(np.mean(self.L_i**2)))

    @property
    def L_plus(self) -> float:
        """Average smoothness (Assumption 4)."""
        return self._L_plus[0]

    @property
    def convex(self) -> bool:
        """Whether every f_i is convex."""
        return self.curvature.convex

    @property
    def attained(self) -> bool:
        """Whether the Hessians attain their bounds."""
        return self.curvature.attained

    @property
    def estimated(self) -> bool:
        """Whether the constants are guesses, of which no theorem speaks."""
        return False

    @property
    def L_plus_exact(self) -> bool:
        return self.curvature.quadratic and not self.curvature.diagonal

    @property
    def lemma_2(self) -> float:
        """Lemma 2's bound on L_plus."""
        return float(np.sqrt(self.support.max_over_features(PerClient(self.L_i**2)) / self.support.n))

    @property
    def L_pm(self) -> float:
        """L_pm for quadratics, and its bound L_plus otherwise."""
        return self._L_pm[0]

    @property
    def how(self) -> dict[str, str]:
        """How each constant was computed."""
        return {
            "L": self._L.words,
            "L_i": self._norms_from,
            "L_plus": self._L_plus[1],
            "L_pm": self._L_pm[1],
        }

    @property
    def _norms_from(self) -> str:
        kind = "exact" if self.attained else "bound"
        return f"{kind} (dense eigenvalue of the smaller Gram matrix, Lanczos for large clients)"

    @cached_property
    def _L(self) -> Eigenvalue:
        k, n = self.curvature, self.support.n
        if not k.diagonal:
            top = largest_eigenvalue(self._hessian, self.support.d, self.key)
        else:
            penalty = k.diagonal * self.support.counts / n  # phi sits on coordinate j of |I_j| clients
            top = largest_eigenvalue(lambda v: self._hessian(v) + penalty * v, self.support.d, self.key)
        return replace(top, tight=top.tight and k.attained)

    @cached_property
    def _squares(self) -> Eigenvalue:
        return largest_eigenvalue(self._mean_square, self.support.d, self.key)

    @cached_property
    def _L_plus(self) -> tuple[float, str]:
        if not self.curvature.quadratic:
            return self.lemma_2, "bound (Lemma 2)"
        root = float(np.sqrt(self._squares.upper))
        if self.L_plus_exact:
            return root, self._squares.words
        with_penalty = root + self.curvature.diagonal * float(np.sqrt(self.support.c / self.support.n))
        return min(
            (with_penalty, f"bound (rows' part {self._squares.words}, plus the penalty's 2 lam sqrt(c/n))"),
            (self.lemma_2, "bound (Lemma 2)"),
        )

    @cached_property
    def _L_pm(self) -> tuple[float, str]:
        if not self.L_plus_exact:
            return self.L_plus, "bound (L_plus)"
        top = largest_eigenvalue(lambda v: self._mean_square(v) - self._hessian(self._hessian(v)), self.support.d, self.key)
        # The difference of two operators of norm L_plus^2 carries their rounding, not its own.
        slack = ROUNDING * np.sqrt(self.support.d) * self._squares.upper
        return float(np.sqrt(top.upper + slack)), top.words

    def _hessian(self, v: Floats) -> Floats:
        """(1/n) sum_i A_i' diag(w) A_i v."""
        k = self.curvature
        out: Floats = transposed_times(k.A, k.weights * times(k.A, v))
        out /= self.support.n
        return out

    def _mean_square(self, v: Floats) -> Floats:
        """(1/n) sum_i (A_i' diag(w) A_i)^2 v."""
        out: Floats = squares_times(self.curvature, self.support, v)
        out /= self.support.n
        return out


class Bounds(Smoothness):
    """What the L_i alone say, where nobody has all rows, or where there are none:

    L <= (1/n) max_j sum_{i in I_j} L_i, because <v, H_i v> <= L_i ||v on J_i||^2; L_plus as in Lemma 2.
    """

    @cached_property
    def L_i(self) -> PerClient:
        return self._normed.norms

    @property
    def estimated(self) -> bool:
        return self._normed.estimated

    @property
    def _normed(self) -> Normed:
        assert isinstance(self.problem, Normed), "others have Smoothness"
        return self.problem

    @property
    def _norms_from(self) -> str:
        return self._normed.norms_from

    @property
    def convex(self) -> bool:
        return False  # unknown here

    @property
    def attained(self) -> bool:
        return False  # unknown here

    @property
    def L_plus_exact(self) -> bool:
        return False

    @cached_property
    def _L(self) -> Eigenvalue:
        return Eigenvalue(self.support.max_over_features(self.L_i) / self.support.n, "sums of the L_i", tight=False)

    @cached_property
    def _L_plus(self) -> tuple[float, str]:
        return self.lemma_2, "bound (Lemma 2)"


def _in_range(k: CurvatureBound) -> CurvatureBound:
    """Refuse data whose curvature would be 0 or infinite by rounding, and every step size with it."""
    largest = max(k.A.data.max(initial=0.0), -k.A.data.min(initial=0.0))
    size = max(float(largest * np.sqrt(k.weights.max(initial=0.0))), float(np.sqrt(k.diagonal)))
    if not 1 / LARGEST <= size <= LARGEST:
        rule = f"step sizes need fourth powers of it, which a float64 holds from {1 / LARGEST:g} to {LARGEST:g}"
        fix = "multiply the features by a constant that brings them near 1 (ef.scaled(problem) does so for each)"
        raise ValueError(f"the largest value of the data is {largest:.3g} ({size:.3g} with its weight); {rule}: {fix}")
    return k


def smoothness(problem: Problem) -> Smoothness:
    """The constants of a problem (computed once per problem)."""
    return problem.memo(_smoothness)


def _smoothness(problem: Problem) -> Smoothness:
    return Bounds(problem) if isinstance(problem, Normed) else Smoothness(problem)
