"""What training gave, in words and files: the facts on the terminal, the model, the history and the page."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from errorfeedback.cli._inputs import Estimator
from errorfeedback.cli._run_files import CLIENTS, HISTORY, ClientTraffic, history_columns
from errorfeedback.data.rows import Data
from errorfeedback.estimators.classifier import EF21Classifier
from errorfeedback.estimators.model_file import MODEL, save
from errorfeedback.planner.network import Links, elapsed
from errorfeedback.planner.units import human_bytes, human_seconds
from errorfeedback.plots.run_curves import RunCurves
from errorfeedback.report.page import Cell, Table
from errorfeedback.report.training_page import TrainingReport, training_page

HEAVIEST = 30
"""Weights in the report."""
HELD = "held out"
"""What rows are called that training does not see."""
PAGE = "report.html"


@dataclass(frozen=True)
class Judged:
    """The measures of a model on some rows."""

    rows: int
    scores: dict[str, float]

    def __str__(self) -> str:
        return ", ".join(f"{name} {value:.4g}" for name, value in self.scores.items())


@dataclass(frozen=True, eq=False)
class Outcome:
    """A fitted model and what is to be said about it."""

    model: Estimator
    data: Data
    judged: dict[str, Judged]
    """By what the rows are: held out (where there are some), training."""
    drawn: str
    """How the held-out rows were drawn, where they were."""
    links: Links | None
    target: str | None
    command: str
    more: Sequence[tuple[str, Any]] = ()
    """What else there is to say about the run."""

    def write(self, out: Path) -> None:
        """Write everything, and say what it is."""
        wire = self._seconds()
        facts = [*self._facts(), *self._times(wire), *self.more]
        provenance = {
            **dict(facts),
            **{rows: judged.scores for rows, judged in self.judged.items()},
            "target": self.target,
            "parameters": self.model.get_params(),
            "command": self.command,
        }
        out.mkdir(parents=True, exist_ok=True)
        written = [save(out / MODEL, self.model, self.data.encoding, provenance), out / HISTORY]
        written[-1].write_text(json.dumps(history_columns(self.model.history_)), encoding="utf-8")
        written.append(ClientTraffic(self.model.clients_.tolist(), *self.model.traffic_).write(out / CLIENTS))
        curves = RunCurves(self.model.history_, len(self.model.clients_), str(self.links or ""), wire)
        written += training_page(self._report(facts), curves).write_where_possible(out / PAGE)
        lines = [f"{name}: {value}" for name, value in facts]
        lines += [f"{rows}: {judged}" for rows, judged in self.judged.items()]
        lines += [f"Warning: {warning}" for warning in self.model.warnings_]
        lines += [f"Written: {path}" for path in written]
        console = Console()
        for line in lines:
            console.print(line, soft_wrap=True, highlight=False, markup=False)

    def _facts(self) -> list[tuple[str, Any]]:
        model = self.model
        rows = {name: judged.rows for name, judged in self.judged.items()}
        held = [
            f"{count} of {count + rows['training']} ({self.drawn})" for name, count in rows.items() if name.startswith(HELD)
        ]
        facts: list[tuple[str, Any]] = [
            ("data", self.data.name),
            ("rows", self.judged["training"].rows),
            *([("held-out rows", held[0])] if held else []),
            ("features", self.data.A.shape[1]),
            ("clients", len(model.clients_)),
            ("loss", model.loss.replace("_", " ")),
            ("loss with the penalty", model.loss_),
            ("loss without the penalty", model.loss_ - model.penalty_),
            ("trained with", model.choice_),
            ("rounds", model.n_iter_),
            ("stopped because", model.stopped_),
            ("the model is", model.returned_),
            ("bytes up per client", round(model.bytes_up_)),
            ("bytes down per client", round(model.bytes_down_)),
            ("of these before round 1", f"{model.before_.up:,.0f} up, {model.before_.down:,.0f} down"),
        ]
        if isfinite(model.validation_loss_):
            facts += [("validation loss", model.validation_loss_), ("validation loss of a constant", model.constant_loss_)]
        return facts

    def _seconds(self) -> Any:
        """On the network, after every recorded round."""
        if self.links is None:
            return None
        up, down, after = self.model.traffic_
        return elapsed(self.model.history_, up, down, self.links.of(self.model.clients_.tolist()), after)

    def _times(self, wire: Any) -> list[tuple[str, Any]]:
        if wire is None:
            return []
        return [("network", str(self.links)), ("time on the network", human_seconds(float(wire[-1])))]

    def _report(self, facts: list[tuple[str, Any]]) -> TrainingReport:
        measures = dict.fromkeys(name for judged in self.judged.values() for name in judged.scores)
        head = ["", *(f"{rows}: {judged.rows:,} rows" for rows, judged in self.judged.items())]
        scores = [[name, *(judged.scores.get(name) for judged in self.judged.values())] for name in measures]
        return TrainingReport(
            title=f"Trained on {self.data.name}",
            scores=Table(head, scores, "How good the model is"),
            facts=facts,
            warnings=self.model.warnings_,
            sent=self._sent(),
            weights=self._heaviest(),
            command=self.command,
        )

    def _sent(self) -> Table:
        """Every part of the traffic, per client."""
        model, b = self.model, self.model.before_
        parts: list[tuple[str, float, float]] = [
            ("before round 1: which features the client has", b.ownership, 0.0),
            (
                "before round 1: a power of two for every feature's curvature up, the common scales down",
                b.scaling_up,
                b.scaling_down,
            ),
            ("before round 1: the client's smoothness, for the first step", b.smoothness, 0.0),
            ("before round 1: the model of the client's own rows, for the start", b.own_model, 0.0),
            ("round 0: the client's loss at the start up, the start down", b.start_up, b.start_down),
            (
                f"rounds 1 to {model.n_iter_:,}: messages up, the client's part of the model down",
                model.bytes_up_ - b.up - b.own_weights,
                model.bytes_down_ - b.down,
            ),
            ("at the end: the weights of features that only the client has", b.own_weights, 0.0),
            ("all", model.bytes_up_, model.bytes_down_),
        ]
        rows = [[what, human_bytes(up), human_bytes(down)] for what, up, down in parts if up or down]
        return Table(["", "up", "down"], rows, "Per client, on average")

    def _heaviest(self) -> Table:
        """The largest weights, each with what it speaks for."""
        coef, names = np.atleast_2d(self.model.coef_), self.data.encoding.names
        order = np.argsort(-np.abs(coef), axis=None, kind="stable")[:HEAVIEST]
        places = [divmod(int(place), coef.shape[1]) for place in order]
        largest = [(m, names[j], float(coef[m, j])) for m, j in places if coef[m, j]]
        return Table(*self._named(largest), "The largest weights, for features as they are in the data")

    def _named(self, largest: list[tuple[int, str, float]]) -> tuple[list[str], list[list[Cell]]]:
        """Head and rows; (model, feature, weight) with the class that the weight speaks for."""
        if not isinstance(self.model, EF21Classifier):
            return ["feature", "weight"], [[name, weight] for _, name, weight in largest]
        classes = [str(label) for label in self.model.classes_.tolist()]
        if len(classes) == 2:
            return ["feature", "weight", "speaks for"], [[n, w, classes[int(w > 0)]] for _, n, w in largest]
        return ["class", "feature", "weight"], [[classes[m], name, weight] for m, name, weight in largest]
