"""`errorfeedback explain run/`: a finished run in one page and a few lines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from errorfeedback.cli._run_files import CLIENTS, ClientTraffic, history_of
from errorfeedback.estimators.learned import Learned, learned_by
from errorfeedback.estimators.model_file import Saved, load_model
from errorfeedback.planner.network import Links
from errorfeedback.planner.other_links import LINKS, Journey, LinkCost
from errorfeedback.planner.units import human_seconds
from errorfeedback.plots.run_curves import RunCurves
from errorfeedback.report.explanation_page import Explanation, explanation_page
from errorfeedback.report.page import Cell, Table

WEIGHTS = 30
"""On the page; a line each for the first few."""
FEW = 5
PAGE = "explained.html"
COSTS = ("rounds", "stopped because", "bytes up per client", "bytes down per client", "of these before round 1", "clients")


def explain(run: Path, network: Sequence[str], out: Path | None) -> None:
    """Say it, and write the page."""
    saved, clients, history = load_model(run), ClientTraffic.read(run / CLIENTS), history_of(run)
    journey = Journey(history, clients.names, clients.up, clients.down, clients.after)
    asked = {"yours": Links.parse(network)} if network else {}
    known = {name: Links({"*": link}) for name, link in LINKS.items()}
    costs = [journey.on(name, links) for name, links in {**asked, **known}.items()]
    learned = learned_by(saved, WEIGHTS)
    page = explanation_page(_explanation(saved, learned, costs), RunCurves(history, len(clients.names)))
    lines = [_summary(learned), *(f"  {weight}: {weight.effect}" for weight in learned.largest[:FEW])]
    lines += [f"{name}: {saved.provenance[name]}" for name in COSTS if name in saved.provenance]
    lines += [f"on {cost.name}: {human_seconds(cost.seconds)}, mostly {cost.most} ({cost.links})" for cost in costs]
    lines += [f"Written: {path}" for path in page.write_where_possible(run / PAGE if out is None else out)]
    for line in lines:
        Console().print(line, soft_wrap=True, highlight=False, markup=False)


def _summary(learned: Learned) -> str:
    return (
        f"{learned.count:,} of {learned.of:,} weights are not 0; the {learned.half:,} largest have half of all their size."
    )


def _explanation(saved: Saved, learned: Learned, costs: Sequence[LinkCost]) -> Explanation:
    about = saved.provenance
    weights: list[list[Cell]] = [[str(weight), weight.value, f"+1 {weight.effect}"] for weight in learned.largest]
    scores = {name: values for name, values in about.items() if isinstance(values, dict) and name != "parameters"}
    measures = dict.fromkeys(measure for values in scores.values() for measure in values)
    return Explanation(
        title=f"A model of {about.get('data', 'data')}",
        learned=_summary(learned),
        weights=Table(["feature", "weight", "what it does"], weights, "In the units of the data"),
        heaviest=[(str(weight), weight.value) for weight in learned.largest],
        scores=Table(["", *scores], [[m, *(values.get(m) for values in scores.values())] for m in measures]),
        cost=Table(["", ""], [[name, str(about[name])] for name in (*COSTS, "trained with") if name in about]),
        links=costs,
        command=str(about.get("command", "")),
    )
