"""Figure 3: logistic regression with the adaptive step on phishing, mushrooms and w5a (section 6.2)."""

from __future__ import annotations

from collections.abc import Sequence

from errorfeedback.experiments import classification as data
from errorfeedback.experiments.base import Experiment, Findings, Options
from errorfeedback.experiments.curves import axes
from errorfeedback.experiments.jobs import Job
from errorfeedback.experiments.store import Store
from errorfeedback.plots.figure import Figure

NAMES = ("phishing", "mushrooms", "w5a")


class Figure3(Experiment):
    name = "figure-3"
    title = "Logistic regression with the adaptive step"
    says = (
        "“Our results demonstrate that adaptive computation of cᵗ can be a promising direction for further investigation.”"
    )
    needs = "phishing, mushrooms, w5a"

    def jobs(self, options: Options) -> Sequence[Job]:
        return [run for name in NAMES for run in data.runs(name, options)]

    def findings(self, options: Options, store: Store) -> Findings:
        traces = data.load(NAMES, options, store)
        labels = data.adaptive_labels(options)
        claims = [data.adaptive_is_ahead(traces, label) for label in labels] + [data.gd_in_bits(traces, labels[0])]
        panels = [data.panel(name, curves) for name, curves in traces.items() if curves]
        caption = (
            "n = 300 clients, K = 1, an intercept, x⁰ uniform in ±√(1/D). The adaptive step needs ∇f(xᵗ), which a server "
            "does not have: a simulation only. “As published” uses α = K/d instead of K/|J_i|; on phishing every client has "
            f"every feature and the two are one. {data.precision(options)}"
        )
        figures = [Figure(self.name, panels, axes(options), caption=caption)] if panels else []
        return Findings(figures, claims, data.tables(traces))
