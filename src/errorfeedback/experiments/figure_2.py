"""Figure 2: linear regression on rare features, EF21 + Top1 with the standard and the new step (section 6.1)."""

from __future__ import annotations

from collections.abc import Sequence

from errorfeedback import api as ef
from errorfeedback.experiments.base import Experiment, Findings, Options
from errorfeedback.experiments.jobs import Job
from errorfeedback.experiments.recipes import Synthetic
from errorfeedback.experiments.regression import PUBLISHED, THEOREM, Sweep, gap_claims, shown, theorem_claim
from errorfeedback.experiments.store import Store

SWEEP = Sweep(Synthetic, published=ef.RareFeatures(alpha="K/d"), rounds=(100_000, 3_000))


class Figure2(Experiment):
    name = "figure-2"
    title = "Linear regression: standard and new step of EF21"
    says = (
        "“The performance gap between EF21 with the standard and new stepsizes is significant when the parameter c is much "
        "smaller than its maximum value n. Conversely, as c approaches n, the difference in performance becomes negligible.”"
    )

    def jobs(self, options: Options) -> Sequence[Job]:
        return SWEEP.all_runs(options)

    def findings(self, options: Options, store: Store) -> Findings:
        traces = SWEEP.load(options, store)
        claims = gap_claims(traces, PUBLISHED, "α = K/d, as published")
        if not options.authors:
            claims = [*gap_claims(traces, THEOREM, "Theorem 1's own α = K/|J_i|"), *claims, theorem_claim(traces)]
        caption = (
            "n = 100 clients, d = 500 features, m = 12 rows each, K = 1. The standard step has α = K/d as in its paper. "
            "Theorem 1 allows α = min K/|J_i|; the published curves used α = K/d there too, which is a smaller step."
        )
        return shown(self.name, options, traces, claims, caption)
