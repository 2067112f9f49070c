"""A problem made from another one: what it passes on, and where it may differ."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

from errorfeedback.problems.base import Bounded, CurvatureBound, Prepared, Problem, Twice, as_bounded


@dataclass(frozen=True, eq=False, repr=False)
class Wrapped(Problem, Bounded, Twice, Prepared):
    """The problem `inner`, changed."""

    inner: Problem

    @property
    def samples(self) -> bool:
        return self.inner.samples

    @property
    def work(self) -> int:
        return self.inner.work

    @property
    def lower_bound(self) -> float:
        return self.inner.lower_bound

    @property
    def bounded(self) -> bool:
        return as_bounded(self.inner).bounded

    def curvature(self) -> CurvatureBound:
        return self._changed(as_bounded(self.inner).curvature())

    def typical_curvature(self) -> CurvatureBound:
        return self._changed(as_bounded(self.inner).typical_curvature())

    @abstractmethod
    def _changed(self, k: CurvatureBound) -> CurvatureBound:
        """What becomes of a bound on the curvature of `inner`."""

    @property
    def bends(self) -> bool:
        return isinstance(self.inner, Twice) and self.inner.bends

    @property
    def hessian_rows(self) -> int:
        return self._bent.hessian_rows

    @property
    def _bent(self) -> Twice:
        assert isinstance(self.inner, Twice), "who asks has looked whether it bends"
        return self.inner
