"""`ef.inspect(problem)`: know before you run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from errorfeedback.core import Floats
from errorfeedback.planner.census import Census, census, pattern
from errorfeedback.planner.plan import Plan, origin
from errorfeedback.planner.plans import plans
from errorfeedback.planner.units import human_bytes, human_seconds
from errorfeedback.planner.verdict import Verdict, verdict
from errorfeedback.problems.base import Problem
from errorfeedback.records.network import Network
from errorfeedback.smoothness.constants import smoothness
from errorfeedback.smoothness.spectral import L_plus_spectral
from errorfeedback.stepsizes.theory import analyse

EPSILON = 1e-3
"""The default goal: ||grad f||^2 down to a thousandth of its start."""
PLAN_COLUMNS = ("method", "rule", "gamma", "rounds", "up per client", "memory")


@dataclass(frozen=True)
class Constant:
    """A smoothness constant and how it was computed."""

    name: str
    value: str
    how: str


@dataclass(frozen=True, eq=False)
class Inspection:
    """What is known about a problem before a single round; `print` it, or take `json()`."""

    census: Census
    pattern: Floats
    constants: list[Constant]
    plans: list[Plan]
    """Sorted by bits."""
    verdict: Verdict
    epsilon: float
    network: Network | None

    def facts(self) -> list[tuple[str, str]]:
        """Name and value, as a person reads them."""
        c = self.census
        names = {label: ", ".join(f"{f.name} ({f.clients})" for f in found) for label, found in self._ends()}
        return [
            ("clients n", f"{c.n:,}"),
            ("features d", f"{c.d:,}" + f" ({c.dropped} columns that no client has were dropped)" * bool(c.dropped)),
            ("rows", f"{c.rows:,}" + f" ({c.discarded_rows} discarded by the even split)" * bool(c.discarded_rows)),
            ("nonzeros", f"{c.nonzeros:,} ({c.nonzeros / (c.rows * c.d):.3g} of all)"),
            ("c (clients per feature, most)", f"{c.c:,}, c/n = {c.c / c.n:.4g}"),
            ("r (features per client, most)", f"{c.r:,}, r/d = {c.r / c.d:.4g}"),
            ("rarest features (clients)", names["rarest"]),
            ("most common features (clients)", names["commonest"]),
        ]

    def _ends(self) -> list[tuple[str, Any]]:
        return [("rarest", self.census.rarest), ("commonest", self.census.commonest)]

    def head(self) -> list[str]:
        """The columns of `rows`."""
        return [*PLAN_COLUMNS, *(["time"] if self.network else [])]

    def rows(self, most: int | None = None) -> list[list[str]]:
        """The plans as a table's rows: the first `most`, and DGD and the best EF21 wherever they stand."""
        shown = self.plans if most is None else self.plans[:most]
        anchors = [next((p for p in self.plans if p.error_feedback), None), next(p for p in self.plans if p.method == "DGD")]
        extra = sorted({id(p): p for p in anchors if p is not None and p not in shown}.values(), key=lambda p: p.bits)
        return [self._row(plan) for plan in [*shown, *extra]]

    def _row(self, plan: Plan) -> list[str]:
        bits = human_bytes(plan.bits / 8) + " (expected)" * plan.in_expectation
        cells = [plan.method, plan.rule, f"{plan.gamma:.4g}", f"{plan.rounds:,}", bits, human_bytes(plan.memory_bytes)]
        return cells + ([human_seconds(plan.seconds)] if plan.seconds is not None else [])

    def json(self) -> dict[str, Any]:
        """Everything but the picture, for machines."""
        return {
            "census": self.census.json(),
            "constants": [vars(c) for c in self.constants],
            "epsilon": self.epsilon,
            "network": None if self.network is None else self.network.json(),
            "plans": [plan.json() for plan in self.plans],
            "verdict": {
                "winner": self.verdict.winner.json(),
                "reason": self.verdict.reason,
                "error_feedback_helps": self.verdict.helps,
                "error_feedback": self.verdict.error_feedback,
                "practice": self.verdict.practice,
            },
        }

    def __str__(self) -> str:
        facts = [f"{name}: {value}" for name, value in self.facts()]
        constants = [f"{c.name} = {c.value}  {c.how}" for c in self.constants]
        table = [self.head(), *self.rows(12)]
        widths = [max(len(row[k]) for row in table) for k in range(len(table[0]))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table]
        goal = f"plans to (1/T) sum ||grad f||^2 <= {self.epsilon:g} ||grad f(0)||^2, by bits up:"
        return "\n".join([*facts, "", *constants, "", goal, *lines, "", str(self.verdict)])


def inspect(
    problem: Problem,
    *,
    epsilon: float = EPSILON,
    k: Sequence[int] | None = None,
    network: Network | None = None,
    names: Sequence[str] | None = None,
) -> Inspection:
    """The facts, the constants and what every theorem promises, before you run.

    `epsilon`: the goal as a share of ||grad f(0)||^2. `k`: the levels of TopK and RandK to plan (default 1, 2, 4,
    ...). `names`:
    what the columns are called.

    >>> import errorfeedback as ef
    >>> seen = ef.inspect(ef.synthetic(n=10, d=20, m=3, c=2))
    >>> seen.census.c, seen.verdict.winner is seen.plans[0]
    (2, True)
    """
    for level in k or ():
        if isinstance(level, bool) or not isinstance(level, int) or level < 1:
            raise ValueError(f"k = {level!r}; every level must be a whole number of at least 1")
    facts = census(problem, names)
    found = plans(problem, origin(problem, epsilon), network, k)
    return Inspection(facts, pattern(problem.support), constants(problem), found, verdict(facts, found), epsilon, network)


def constants(problem: Problem) -> list[Constant]:
    """L, L_i, L_tilde, L_plus, L_pm, and how each was computed."""
    s, theory = smoothness(problem), analyse(problem)
    spectral, how = L_plus_spectral(problem)
    ratio = (theory.c / theory.n) ** 0.5 * spectral / s.L
    found = [
        Constant("L", f"{s.L:.6g}", s.how["L"]),
        Constant("L_i", f"{s.L_i.min():.6g} to {s.L_max:.6g}", s.how["L_i"]),
        Constant("L_tilde", f"{s.L_tilde:.6g}", "the quadratic mean of the L_i"),
        Constant("L_plus", f"{s.L_plus:.6g}", s.how["L_plus"]),
    ]
    if spectral < s.L_plus:
        found.append(Constant("L_plus, spectral", f"{spectral:.6g}", how))
    found.append(Constant("sqrt(c/n) L_plus / L", f"{ratio:.6g}", "at least 1; the nearer to 1, the better for EF21"))
    return found
