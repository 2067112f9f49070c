"""Figure 7: the problems of figure 2 with gradient descent beside EF21 (appendix, "EF21 versus GD on convex objective")."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from errorfeedback.experiments.base import Experiment, Findings, Options
from errorfeedback.experiments.curves import AXES, ahead, axes, missing, times
from errorfeedback.experiments.figure_2 import SWEEP as FIGURE_2
from errorfeedback.experiments.jobs import Job
from errorfeedback.experiments.regression import GD, SHARES, STANDARD, Traces, new_label, shown
from errorfeedback.experiments.store import Store
from errorfeedback.report.page import Claim

SWEEP = replace(FIGURE_2, gd_rounds=(2_000, 300))


class Figure7(Experiment):
    name = "figure-7"
    title = "Linear regression: EF21 against gradient descent"
    says = (
        "“As we see GD behaves better compared to the classical analysis of EF21 and our proposed analysis if do not tune "
        "step sizes.”"
    )

    def jobs(self, options: Options) -> Sequence[Job]:
        return SWEEP.all_runs(options)

    def findings(self, options: Options, store: Store) -> Findings:
        traces = SWEEP.load(options, store)
        shown_axes = list(axes(options))[:2]
        claims = [gd_is_ahead(traces, label, axis) for axis in shown_axes for label in (STANDARD, new_label(options))]
        caption = "The problems of figure 2; GD sends |J_i| numbers per client and round, EF21 one number and its index."
        return shown(self.name, options, traces, claims, caption)


def gd_is_ahead(traces: Mapping[str, Traces], label: str, axis: str) -> Claim:
    """Whether GD gets to the common level first, at every c/n."""
    statement = f"With theoretical steps GD is ahead of “{label}”, counted in {AXES[axis].label}"
    there = {where: curves for where, curves in traces.items() if GD in curves and label in curves}
    if len(there) < len(SHARES):
        return missing(statement, GD, label)
    ratios = {where: ahead(curves[GD], curves[label], axis) for where, curves in there.items()}
    figures = "; ".join(f"{where}: {times(ratio)}" for where, ratio in ratios.items())
    return Claim(statement, all(ratio > 1 for ratio in ratios.values()), f"EF21 needs, against GD, {figures} as much")
