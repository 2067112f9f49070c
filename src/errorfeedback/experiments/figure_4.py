"""Figure 4: the adaptive step on four data sets: squared gradient norm, c^t and gamma^t (appendix)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from errorfeedback.experiments import classification as data
from errorfeedback.experiments.base import Experiment, Findings, Options
from errorfeedback.experiments.curves import axes, missing
from errorfeedback.experiments.jobs import Job
from errorfeedback.experiments.store import Store
from errorfeedback.plots.figure import Axis, Figure, Lines
from errorfeedback.report.page import Claim

PAPER = {"a9a": 10.0, "phishing": 10.0, "mushrooms": 10.0, "w5a": 1.35}
"""How many times larger the adaptive step is, by the paper."""
ABOUT = 1.25
"""“About x” means within this factor of x."""


class Figure4(Experiment):
    name = "figure-4"
    title = "The adaptive step on four data sets"
    says = (
        "“In datasets A9A, PHISHING, MUSHROOMS we can increase the step size by a factor of 10x using our proposed scheme. "
        "In dataset W5A we can only increase the step size by a small factor of 1.35x. In all experiments, EF21 with our "
        "approximate scheme performs better than the standard EF21. We do not observe any convergence or stability issues.”"
    )
    needs = "a9a, phishing, mushrooms, w5a"

    def jobs(self, options: Options) -> Sequence[Job]:
        return [run for name in PAPER for run in data.runs(name, options)]

    def findings(self, options: Options, store: Store) -> Findings:
        traces = data.load(tuple(PAPER), options, store)
        labels = data.adaptive_labels(options)
        claims = [step_gain(traces, name, label) for label in labels for name in PAPER]
        claims += [data.adaptive_is_ahead(traces, label) for label in labels]
        panels = [panel for name, curves in traces.items() if curves for panel in _row(name, curves)]
        caption = (
            "cᵗ = n‖gᵗ − ∇f(xᵗ)‖²/Gᵗ, against c = n = 300, which the intercept forces; γᵗ is the step of that round. "
            f"{data.precision(options)}"
        )
        figures = [Figure(self.name, panels, axes(options), columns=3, caption=caption)] if panels else []
        return Findings(figures, claims, data.tables(traces))


def _row(name: str, curves: data.Traces) -> list[Lines]:
    return [
        data.panel(name, curves),
        data.side_panel(f"{name}: cᵗ", curves, "c_t", Axis("cᵗ")),
        data.side_panel(f"{name}: γᵗ", curves, "gamma", Axis("γᵗ")),
    ]


def step_gain(traces: Mapping[str, data.Traces], name: str, label: str) -> Claim:
    """The median of gamma^t over the standard gamma, against the paper's factor."""
    paper = PAPER[name]
    statement = f"{name}: the step grows by a factor of about {paper:g} (“{label}”)"
    curves = traces[name]
    if label not in curves or data.STANDARD not in curves:
        return missing(statement, data.STANDARD, label)
    ratios = curves[label].gammas / curves[data.STANDARD].gamma
    median = curves[label].gamma / curves[data.STANDARD].gamma
    span = f"from {ratios.min():.3g} to {ratios.max():.3g}, {ratios[-1]:.3g} at the end"
    figures = f"median {median:.3g} times the standard step, {span}"
    return Claim(statement, paper / ABOUT <= median <= paper * ABOUT, f"{figures} (about: within {ABOUT:g} times)")
