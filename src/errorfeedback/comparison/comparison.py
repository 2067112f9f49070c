"""`ef.compare`: methods side by side on one problem, and what came of it.

Every method has its theorem's step, its best constant step on the grid 2^k (chosen in hindsight), and what rules find on the
way. Runs are kept in a folder: a second comparison runs only what is not there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from matplotlib.figure import Figure as Canvas

from errorfeedback.comparison.contest_run import Given, Limits
from errorfeedback.comparison.paper_tables import csv_text, head, latex_text, row
from errorfeedback.comparison.schedule import Schedule
from errorfeedback.experiments.jobs import Job
from errorfeedback.experiments.runner import Display, run_here, run_jobs
from errorfeedback.experiments.store import Store
from errorfeedback.notebook import table
from errorfeedback.planner.contest import Contest, Contestant, Entry
from errorfeedback.planner.contestants import by_default
from errorfeedback.planner.field import ALL, Entrant, by_rule, by_theorem, chosen_entrants, entrants
from errorfeedback.planner.network import Network
from errorfeedback.plots.draw import COLUMN, draw
from errorfeedback.problems.base import Problem
from errorfeedback.problems.proximal import ElasticNet
from errorfeedback.report.comparison_figures import shown_first, single


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """All runs, ranked by what they cost until the loss is near its lowest.

    >>> import errorfeedback as ef
    >>> found = ef.compare(ef.synthetic(n=5, d=10, m=3, c=2), ["EF21"], rounds=20)
    >>> isinstance(found, ef.Comparison), found.left_out
    (True, {})
    >>> [row["step"] for row in found.table()][:2], found.contest.entries[0].label
    (['in hindsight', 'automatic'], 'EF21 TopK(1), 2^-2 in hindsight')
    """

    contest: Contest
    """The runs with their histories, the winner first."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Who could not take part, and why."""

    def table(self) -> list[dict[str, Any]]:
        """A row for every contestant, the winner first: numbers, for programs."""
        return [row(self.contest, entry) for entry in self.contest.entries]

    def to_csv(self, path: str | Path) -> Path:
        """The table as CSV."""
        return _written(Path(path), csv_text(self.contest))

    def to_latex(self, path: str | Path) -> Path:
        """The table for a paper, with booktabs' rules."""
        return _written(Path(path), latex_text(self.contest))

    def plot(self, over: str = "total", of: str = "loss", methods: Sequence[str] | None = None) -> Canvas:
        """A figure of one column's width: "loss" or "gradient" over "rounds", "up", "total" (bytes) or "time" (on the link).

        `methods`: labels of the table; without them the best run of the methods that rank first.
        """
        entries = shown_first(self.contest) if methods is None else [self._entry(label) for label in methods]
        return draw(single(self.contest, entries, of, over), COLUMN)

    def _entry(self, label: str) -> Entry:
        entries = {entry.label: entry for entry in self.contest.entries}
        if label not in entries:
            raise ValueError(f"{label!r} took no part; there are {', '.join(entries)}")
        return entries[label]

    def __repr__(self) -> str:
        return f"<Comparison: {len(self.contest.entries)} runs; {self.contest.verdict()}>"

    def _repr_html_(self) -> str:
        rows = [list(each.values()) for each in self.table()]
        return table(self.contest.verdict(), rows, head(self.contest))


@dataclass(frozen=True)
class Asked:
    """What a comparison is asked for beside its contestants."""

    rounds: int
    seeds: int = 1
    seed: int = 0
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        for name, least in (("rounds", 1), ("seeds", 1), ("seed", 0)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} = {getattr(self, name)}; it must be at least {least}")


def compare(
    problem: Problem,
    methods: Sequence[str] | str = "all",
    *,
    rounds: int = 1000,
    k: int = 1,
    seeds: int = 1,
    seed: int = 0,
    network: Network | None = None,
    prox: ElasticNet | None = None,
    folder: str | Path | None = None,
    jobs: int = 1,
) -> Comparison:
    """Run the named `methods` ("all", or names like "EF21" and "DIANA") with all their step sizes on one `problem`.

    `rounds`: of every run, at most. `k`: of sparsifiers. `seeds`: runs of whatever draws at random, from `seed` on. `prox`:
    a penalty beside f, the same for all. `network` counts time on a link, the same for all clients. With a `folder` runs
    are kept there, and a second call runs only what is missing. `jobs`: processes side by side (for more than one a script
    needs `if __name__ == "__main__"`).

    >>> import errorfeedback as ef
    >>> found = ef.compare(ef.synthetic(n=5, d=10, m=3, c=2), ["DGD", "EF21"], rounds=20)
    >>> {row["step"] for row in found.table()} == {"theorem", "automatic", "in hindsight"}
    True
    """
    named = [methods] if isinstance(methods, str) else methods
    runners = chosen_entrants(named, entrants(k))
    asked = Asked(rounds, seeds, seed)
    networks = None if network is None else [network] * problem.n
    with TemporaryDirectory() as temporary:
        store = Store(Path(temporary) if folder is None else Path(folder))
        train = [by_default(problem, prox, networks)] if ALL in named else []
        steps = [*train, *with_steps(problem, runners)]
        schedule = scheduled(Given.of("problem", problem, prox), steps, runners, asked, store)
        carry_out_schedule(schedule, jobs, _silent)
        return compared(schedule, networks, "" if network is None else str(network))


def with_steps(problem: Problem, runners: Iterable[Entrant]) -> list[Contestant]:
    """Every entrant with its theorem's step and with the rules that find one."""
    return [each for entrant in runners for each in chain(by_theorem(problem, entrant), by_rule(entrant))]


def scheduled(
    problem: Given, contestants: Sequence[Contestant], climbers: Sequence[Entrant], asked: Asked, store: Store
) -> Schedule:
    seeds = range(asked.seed, asked.seed + asked.seeds)
    return Schedule(problem, contestants, climbers, asked.rounds, seeds, asked.limits, store)


def carry_out_schedule(schedule: Schedule, jobs: int, display: Display) -> None:
    """Run what is missing."""
    if jobs > 1:
        failed = run_jobs(schedule.wanted(), schedule.store, workers=jobs, display=display, then=schedule.then)
    else:
        failed = run_here(schedule.wanted(), schedule.store, display=display, then=schedule.then)
    schedule.failed |= failed


def compared(schedule: Schedule, networks: Sequence[Network] | None, network: str) -> Comparison:
    """What the stored runs say; `network` says in words what `networks` are."""
    entries = list(schedule.entries(networks))
    if not entries:
        reasons = "; ".join(f"{label}: {why}" for label, why in schedule.left_out().items())
        raise ValueError(f"nobody could take part: {reasons}")
    return Comparison(Contest.ranked(entries, network), schedule.left_out())


def _silent(job: Job, rounds: int, finished: bool) -> None:
    pass


def _written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path
