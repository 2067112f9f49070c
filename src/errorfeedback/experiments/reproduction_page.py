"""The page of a reproduction: the verdicts at the top, then every experiment with its figure, claims and tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from errorfeedback.experiments.base import PAPER
from errorfeedback.experiments.results import ExperimentResult
from errorfeedback.report.page import TONES, Badge, Block, Cell, Code, Details, Drawing, Page, Section, Table, Text

PAGE = "report.html"
TITLE = "Error Feedback Shines when Features are Rare: reproduced"
LEAD = (
    f"Figures and tables of the paper ({PAPER}) and of those that it builds on, computed again. Each claim is checked on "
    "the numbers of this run. Hover for values, click a name in a legend to hide its curve, drag to zoom, double-click to "
    "zoom out."
)


def reproduction_page(results: Sequence[ExperimentResult]) -> Page:
    """All results."""
    sections = [_overview(results), *(_section(result) for result in results), _rerun(results)]
    return Page(TITLE, LEAD, sections, _footer(results))


def _overview(results: Sequence[ExperimentResult]) -> Section:
    rows: list[list[Cell]] = [[result.experiment.name, result.experiment.title, *_counts(result)] for result in results]
    blocks: list[Block] = [Table(["experiment", "what", "hold", "do not", "open"], rows, "Claims by experiment")]
    if any(result.options.quick or result.options.rounds for result in results):
        blocks.append(Text("This run used short horizons; the verdicts at the authors' horizons may differ."))
    against = [(r, claim) for r in results for claim in r.findings.claims if claim.holds is False]
    blocks += [replace(claim, statement=f"{r.experiment.name}: {claim.statement}") for r, claim in against]
    return Section(
        "Claims",
        blocks,
        "The count, and those that do not hold on these numbers. “Large”, “similar”, “about” have no number in the paper: "
        "ours stands in brackets, chosen after looking at short runs.",
    )


def _counts(result: ExperimentResult) -> list[Cell]:
    verdicts = [claim.holds for claim in result.findings.claims]
    return [Badge(str(verdicts.count(holds)), tone) if holds in verdicts else None for holds, tone in TONES.items()]


def _section(result: ExperimentResult) -> Section:
    findings = result.findings
    differs = [Text(f"What differs from the original: {result.experiment.differs}")] if result.experiment.differs else []
    blocks: list[Block] = [
        Text(result.experiment.says),
        *differs,
        *map(Drawing, findings.figures),
        *findings.open_tables,
        *findings.claims,
    ]
    if result.missing:
        reasons = Table(["not there", "why"], [[file, why] for file, why in result.missing.items()])
        blocks.append(Details(f"{len(result.missing)} parts are missing", [reasons]))
    blocks += [Text(note) for note in findings.notes]
    if findings.tables:
        blocks.append(Details("Constants and curves in numbers", list(findings.tables)))
    where = "" if result.experiment.source == PAPER else f" ({result.experiment.source})"
    return Section(result.experiment.name, blocks, f"{result.experiment.title}{where}")


def _rerun(results: Sequence[ExperimentResult]) -> Section:
    commands = "\n".join(dict.fromkeys(result.command for result in results))
    rows: list[list[Cell]] = [
        [r.experiment.name, r.options.seed, round(r.seconds, 1), Badge("yes", "good") if r.complete else Badge("no", "bad")]
        for r in results
    ]
    made: list[list[Cell]] = [[name, number] for name, number in (results[0].versions if results else {}).items()]
    blocks: list[Block] = [
        Text("The numbers of this page were made in double precision, where a caption does not say otherwise, by:"),
        Code(commands),
        Text("The curves are CSV files in curves/; figures and page are redrawn from them, without running, by:"),
        Code("errorfeedback report DIR"),
        Table(["experiment", "seed", "processor seconds", "complete"], rows),
        Table(["package", "version"], made),
    ]
    return Section("Rerun", blocks)


def _footer(results: Sequence[ExperimentResult]) -> str:
    name = results[0].versions.get("errorfeedback", "") if results else ""
    return f"Made by errorfeedback {name}. This page is one file and loads nothing from the network."
