"""`ef.inspect(problem)`: know before you run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from errorfeedback.compressors.top_k import TopK
from errorfeedback.core import Floats
from errorfeedback.notebook import table
from errorfeedback.planner.census import Census, census, pattern, rows_of
from errorfeedback.planner.contest import summary
from errorfeedback.planner.contestants import Compress, spaced
from errorfeedback.planner.network import Links, Network, Pace
from errorfeedback.planner.plan import Plan, origin
from errorfeedback.planner.plans import plans
from errorfeedback.planner.trial import ROUNDS, Trial, trial
from errorfeedback.planner.units import human_bytes, human_seconds
from errorfeedback.planner.verdict import PlanVerdict, verdict
from errorfeedback.problems.base import Problem
from errorfeedback.problems.proximal import ElasticNet
from errorfeedback.runtime.begin import Begin
from errorfeedback.smoothness.constants import smoothness
from errorfeedback.smoothness.spectral_constants import L_plus_spectral
from errorfeedback.theory.analysis import analyse

EPSILON = 1e-3
"""The default goal: ||grad f||^2 down to a thousandth of its start."""
PLAN_COLUMNS = ("method", "rule", "gamma", "rounds", "total", "up", "down", "memory")


@dataclass(frozen=True)
class SmoothnessConstant:
    """A smoothness constant and how it was computed."""

    name: str
    value: str
    how: str


@dataclass(frozen=True, eq=False)
class Inspection:
    """What is known about a problem before a single round; `print` it, or take `json()`.

    >>> import errorfeedback as ef
    >>> seen = ef.inspect(ef.synthetic(n=10, d=20, m=3, c=2), rounds=0)
    >>> seen.head()
    ['method', 'rule', 'gamma', 'rounds', 'total', 'up', 'down', 'memory']
    >>> seen.best("DGD").rule, len(seen.plans) == len(seen.rows())
    ('InverseL', True)
    """

    census: Census
    """How many of everything, and who has which feature."""
    pattern: Floats
    """The same as a picture: clients by features, in few pixels."""
    constants: list[SmoothnessConstant]
    """L, L_i, L_plus and how each was computed."""
    plans: list[Plan]
    """The cheapest first, by time on the network where there is one, else by bits up and down."""
    trial: Trial | None
    """Short runs on the data; None where there were none."""
    verdict: PlanVerdict
    """What to run, and why."""
    epsilon: float
    """The goal of the plans, as a share of ||grad f(0)||^2."""
    network: Links | None
    """The links that time is counted on."""
    penalised: bool
    """Whether a penalty stands beside f, of which the theorems know nothing."""

    def facts(self) -> list[tuple[str, str]]:
        """Name and value, as a person reads them."""
        c = self.census
        names = {label: ", ".join(f"{f.name} ({f.clients})" for f in features) for label, features in self._ends()}
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

    def goal(self) -> str:
        """What the plans promise, and in which order they stand."""
        order = (
            f"the fastest first on a network with {self.network}" if self.network else "the fewest bytes up and down first"
        )
        penalty = "; the penalty is not in f here" * self.penalised
        return f"Plans to {self.epsilon:g} of ||grad f(0)||^2 by the theorems, per client, {order}{penalty}"

    def rows(self, most: int | None = None) -> list[list[str]]:
        """The plans as a table's rows. The first `most` methods, each with its best rule, and DGD and the best EF21 with
        TopK and with few bits wherever they stand; all plans where `most` is None."""
        if most is None:
            return [self._row(plan) for plan in self.plans]
        anchors = [self.best(kind) for kind in ("DGD", "few bits", "TopK")]
        return [self._row(plan) for k, plan in enumerate(self.by_method()) if k < most or plan in anchors]

    def best(self, kind: str) -> Plan | None:
        """The cheapest plan of a kind (`Plan.kind`)."""
        return next((plan for plan in self.plans if plan.kind == kind), None)

    def by_method(self) -> list[Plan]:
        """Every method with its best rule and start, the cheapest first."""
        best: dict[str, Plan] = {}
        for plan in self.plans:
            best.setdefault(plan.wherever_it_starts, plan)
        return list(best.values())

    def _row(self, plan: Plan) -> list[str]:
        total, up, down = (human_bytes(bits / 8) for bits in (plan.total_bits, plan.up_bits, plan.down_bits))
        cells = [plan.method, plan.rule, f"{plan.gamma:.4g}", f"{plan.rounds:,}"]
        cells += [total + " (expected)" * plan.in_expectation, up, down, human_bytes(plan.memory_bytes)]
        return cells + ([human_seconds(plan.seconds)] if plan.seconds is not None else [])

    def json(self) -> dict[str, Any]:
        """Everything but the picture, for machines."""
        return {
            "census": self.census.json(),
            "constants": [vars(c) for c in self.constants],
            "epsilon": self.epsilon,
            "network": None if self.network is None else self.network.json(),
            "plans": [plan.json() for plan in self.plans],
            "trial": None if self.trial is None else summary(self.trial.contest),
            "verdict": {
                "practice": self.verdict.practice,
                "k": None if self.trial is None else self.trial.k,
                "winner": self.verdict.winner.json(),
                "reason": self.verdict.reason,
                "error_feedback_helps": self.verdict.helps,
                "error_feedback": self.verdict.error_feedback,
                "few_bits": vars(self.verdict.few_bits),
                "top_k": vars(self.verdict.top_k),
            },
        }

    def __repr__(self) -> str:
        return f"<Inspection: {self.census.n:,} clients, {self.census.d:,} features, {len(self.plans)} plans; print it>"

    def _repr_html_(self) -> str:
        """The cheapest plans."""
        return table(self.goal(), self.rows(2), self.head())

    def __str__(self) -> str:
        facts = [f"{name}: {value}" for name, value in self.facts()]
        constants = [f"{c.name} = {c.value}  {c.how}" for c in self.constants]
        every = [self.head(), *self.rows(12)]
        widths = [max(len(row[k]) for row in every) for k in range(len(every[0]))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in every]
        return "\n".join([str(self.verdict), "", *facts, "", *constants, "", f"{self.goal()}:", *lines])


def inspect(
    problem: Problem,
    *,
    epsilon: float = EPSILON,
    k: Sequence[int] | None = None,
    network: Network | Links | None = None,
    names: Sequence[str] | None = None,
    prox: ElasticNet | None = None,
    rounds: int = ROUNDS,
    compress: Compress = TopK,
    begin: Begin | None = None,
) -> Inspection:
    """What to run on the `problem`, the facts, the constants and what every theorem promises.

    `epsilon`: the goal as a share of ||grad f(0)||^2. `k`: the levels of TopK and RandK to plan (default 1, 2, 4, ...) and
    to try (default: a few from 1 to r). `network`: the links, for time. `names`: what the columns are called. `prox`: the
    penalty beside f. `rounds` of every run of the trial, which is a simulation; 0: none. `compress`: K -> the compressor
    that is tried. `begin`: where what `train` chooses begins in it (`Objective.begin`).

    >>> import errorfeedback as ef
    >>> seen = ef.inspect(ef.synthetic(n=10, d=20, m=3, c=2), rounds=50)
    >>> seen.census.c, seen.verdict.winner.method, seen.trial.k  # no K: what `train` chooses by itself
    (2, 'EF21 SmallFloat(3, 2)', None)
    """
    for level in k or ():
        if isinstance(level, bool) or not isinstance(level, int) or level < 1:
            raise ValueError(f"k = {level!r}; every level must be a whole number of at least 1")
    facts, links = census(problem, names), Links({"*": network}) if isinstance(network, Network) else network
    each = None if links is None else links.of(rows_of(problem).names.tolist())
    ranked = plans(problem, origin(problem, epsilon), None if each is None else Pace.of(each), k)
    tried = None
    if rounds:
        levels = list(k) if k else spaced(problem.support.r)
        tried = trial(
            problem,
            levels,
            rounds=rounds,
            prox=prox,
            networks=each,
            network=str(links or ""),
            compress=compress,
            begin=begin,
        )
    return Inspection(
        census=facts,
        pattern=pattern(problem.support),
        constants=constants(problem),
        plans=ranked,
        trial=tried,
        verdict=verdict(facts, ranked) if tried is None else verdict(facts, ranked, tried.advice()),
        epsilon=epsilon,
        network=links,
        penalised=prox is not None,
    )


def constants(problem: Problem) -> list[SmoothnessConstant]:
    """L, L_i, L_tilde, L_plus, L_pm, and how each was computed."""
    s, theory = smoothness(problem), analyse(problem)
    spectral, how = L_plus_spectral(problem)
    ratio = (theory.c / theory.n) ** 0.5 * spectral / s.L
    features = [
        SmoothnessConstant("L", f"{s.L:.6g}", s.how["L"]),
        SmoothnessConstant("L_i", f"{s.L_i.min():.6g} to {s.L_max:.6g}", s.how["L_i"]),
        SmoothnessConstant("L_tilde", f"{s.L_tilde:.6g}", "the quadratic mean of the L_i"),
        SmoothnessConstant("L_plus", f"{s.L_plus:.6g}", s.how["L_plus"]),
    ]
    if spectral < s.L_plus:
        features.append(SmoothnessConstant("L_plus, spectral", f"{spectral:.6g}", how))
    features.append(
        SmoothnessConstant("sqrt(c/n) L_plus / L", f"{ratio:.6g}", "at least 1; the nearer to 1, the better for EF21")
    )
    return features
