"""The claims and their verdicts as a table on the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from errorfeedback.experiments.results import ExperimentResult
from errorfeedback.report.page import WORDS

COLOURS = {True: "green", False: "red", None: "yellow"}


def verdicts(results: Sequence[ExperimentResult], console: Console) -> None:
    """Print every claim, its verdict and the figures; then what is missing and why."""
    table = Table(
        "experiment", "claim", "verdict", "figures", title="The paper's claims, checked on the numbers", show_lines=True
    )
    for result in results:
        for claim in result.findings.claims:
            verdict = Text(WORDS[claim.holds], style=COLOURS[claim.holds])
            table.add_row(result.experiment.name, claim.statement, verdict, claim.figures)
    console.print(table)
    for result in results:
        for reason, count in _counted(result).items():
            console.print(
                f"[yellow]{result.experiment.name}: {count} of its parts are missing:[/yellow] {reason}", soft_wrap=True
            )


def _counted(result: ExperimentResult) -> dict[str, int]:
    reasons = list(result.missing.values())
    return {reason: reasons.count(reason) for reason in dict.fromkeys(reasons)}
