"""Figure 6: linear regression with a non-convex penalty (appendix, "... with non-convex regularization")."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import ClassVar

from errorfeedback import api as ef
from errorfeedback.experiments.base import Experiment, Findings, Options
from errorfeedback.experiments.curves import missing
from errorfeedback.experiments.jobs import Job
from errorfeedback.experiments.recipes import Nonconvex
from errorfeedback.experiments.regression import PUBLISHED, SHARES, THEOREM, Sweep, Traces, gap_claims, shown, theorem_claim
from errorfeedback.experiments.store import Store
from errorfeedback.methods.base import Method
from errorfeedback.methods.ef21 import EF21
from errorfeedback.problems.glm import GLM
from errorfeedback.problems.regularizers import NoPenalty
from errorfeedback.report.page import Claim
from errorfeedback.stepsizes.base import Fixed
from errorfeedback.stepsizes.ef21_standard import published_alpha
from errorfeedback.theory.analysis import Theory, xi


@dataclass(frozen=True)
class PublishedNonconvex(Fixed):
    """The authors' step: alpha = K/d, and L_plus of the least squares alone. No theorem covers it."""

    methods: ClassVar[tuple[type[Method], ...]] = (EF21,)

    def gamma(self, theory: Theory, method: Method | None = None) -> float:
        problem = theory.problem
        assert isinstance(problem, GLM), "figure 6 is about least squares"
        plain = ef.analyse(replace(problem, regularizer=NoPenalty()))
        return 1.0 / (theory.L + plain.L_plus * sqrt(theory.c / theory.n) * xi(published_alpha(theory)))


SWEEP = Sweep(Nonconvex, published=PublishedNonconvex(), rounds=(10_000, 1_000), gd_rounds=(1_000, 100))


class Figure6(Experiment):
    name = "figure-6"
    title = "Linear regression with a non-convex penalty"
    says = (
        "“As c/n goes to zero, our new analysis allows us to increase the step size of EF21. As c/n goes to one, the step "
        "size of EF21 becomes more similar to the standard one.”"
    )

    def jobs(self, options: Options) -> Sequence[Job]:
        return SWEEP.all_runs(options)

    def findings(self, options: Options, store: Store) -> Findings:
        traces = SWEEP.load(options, store)
        claims = gap_claims(traces, PUBLISHED, "as published: α = K/d, L₊ without the penalty")
        if not options.authors:
            own = gap_claims(traces, THEOREM, "Theorem 1's own α and L₊")
            claims = [*own, *claims, published_is_allowed(traces), theorem_claim(traces)]
        caption = (
            "The problems of figure 2 plus λ Σ x_j²/(1 + x_j²) on J_i with λ = 3 max L_i, K = 1. The published step left "
            "the penalty out of L₊, so it is above what Theorem 1 allows; the solid curve has the theorem's own constants."
        )
        return shown(self.name, options, traces, claims, caption)


def published_is_allowed(traces: Mapping[str, Traces]) -> Claim:
    """Whether the step of the published curves is one that Theorem 1 allows."""
    statement = "The new step of the published curves is one that Theorem 1 allows"
    there = [curves for curves in traces.values() if PUBLISHED in curves and THEOREM in curves]
    if len(there) < len(SHARES):
        return missing(statement, PUBLISHED, THEOREM)
    ratios = [curves[PUBLISHED].gamma / curves[THEOREM].gamma for curves in there]
    figures = ", ".join(f"{ratio:.3g}" for ratio in ratios)
    return Claim(statement, max(ratios) <= 1, f"it is {figures} times the theorem's at c/n = 0.05, 0.5, 0.9")
