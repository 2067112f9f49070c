"""Figure 5: which of 300 clients has which feature of the four data sets (appendix)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from errorfeedback.experiments.base import Experiment, Findings, Options
from errorfeedback.experiments.curves import missing
from errorfeedback.experiments.jobs import Job, Pattern, Record
from errorfeedback.experiments.recipes import Libsvm
from errorfeedback.experiments.store import Store
from errorfeedback.plots.figure import Figure, Heatmap
from errorfeedback.report.page import Cell, Claim, Table

PUBLISHED_D = {"a9a": 125, "mushrooms": 114, "phishing": 70, "w5a": 302}


class Figure5(Experiment):
    name = "figure-5"
    title = "Sparsity patterns of the data sets"
    says = (
        "“The LIBSVM datasets are mostly sparse datasets. … Adding a bias (or intercept) term to the Machine Learning model "
        "during training leads to c = n.”"
    )
    needs = "a9a, mushrooms, phishing, w5a"

    def jobs(self, options: Options) -> Sequence[Job]:
        return [Pattern(Libsvm(name, options.seed, intercept=bias)) for name in PUBLISHED_D for bias in (True, False)]

    def findings(self, options: Options, store: Store) -> Findings:
        records = {job.problem: store.load(job) for job in self.jobs(options)}
        stored = {problem: record for problem, record in records.items() if record is not None}
        with_bias = {p.name: r for p, r in stored.items() if isinstance(p, Libsvm) and p.intercept}
        without = {p.name: r for p, r in stored.items() if isinstance(p, Libsvm) and not p.intercept}
        claims = [intercept_makes_c_n(with_bias), mostly_sparse(without), dimensions(with_bias)]
        panels = [
            Heatmap(f"{name} ({r.facts['fill']:.0%} filled)", matrix(r), "client", "feature")
            for name, r in with_bias.items()
        ]
        caption = "A filled cell: the client has data for the feature. The last column is the intercept."
        figures = [Figure(self.name, panels, columns=2, caption=caption)] if panels else []
        return Findings(figures, claims, [_table(with_bias, without)] if stored else [])


def matrix(record: Record) -> np.ndarray:
    """The pattern as a Boolean matrix."""
    out = np.zeros((record.facts["n"], record.facts["d"]), dtype=bool)
    out[record.columns["client"].astype(int), record.columns["feature"].astype(int)] = True
    return out


def intercept_makes_c_n(records: Mapping[str, Record]) -> Claim:
    statement = "With an intercept c = n on all four data sets"
    if len(records) < len(PUBLISHED_D):
        return missing(statement, *(name for name in PUBLISHED_D if name not in records))
    figures = "; ".join(f"{name}: c = {r.facts['c']} of n = {r.facts['n']}" for name, r in records.items())
    return Claim(statement, all(r.facts["c"] == r.facts["n"] for r in records.values()), figures)


def mostly_sparse(records: Mapping[str, Record]) -> Claim:
    """Sparse in the sense of the theory, across clients."""
    statement = "It is the intercept that makes c = n: without it the data sets are sparse and c is below n"
    if len(records) < len(PUBLISHED_D):
        return missing(statement, *(name for name in PUBLISHED_D if name not in records))
    figures = "; ".join(
        f"{name}: c = {r.facts['c']}, {r.facts['fill']:.0%} of the cells filled" for name, r in records.items()
    )
    return Claim(statement, all(r.facts["c"] < r.facts["n"] for r in records.values()), figures)


def dimensions(records: Mapping[str, Record]) -> Claim:
    statement = "d = 125, 114, 70, 302 (a9a, mushrooms, phishing, w5a), with the intercept and one empty column"
    if len(records) < len(PUBLISHED_D):
        return missing(statement, *(name for name in PUBLISHED_D if name not in records))
    counted = {name: Libsvm(name, 0).published_d for name in records}
    figures = "; ".join(f"{name}: {counted[name]}, of which {r.facts['d']} occur on a client" for name, r in records.items())
    return Claim(statement, counted == {name: PUBLISHED_D[name] for name in records}, figures)


def _table(with_bias: Mapping[str, Record], without: Mapping[str, Record]) -> Table:
    head = ["data set", "intercept", "n", "d", "c", "r", "filled cells"]
    rows: list[list[Cell]] = [
        [name, word, r.facts["n"], r.facts["d"], r.facts["c"], r.facts["r"], r.facts["fill"]]
        for word, records in (("yes", with_bias), ("no", without))
        for name, r in records.items()
    ]
    return Table(head, rows, "Patterns")
