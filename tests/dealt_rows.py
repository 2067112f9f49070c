"""Rows that are dealt to nodes as files, and places of this process."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

import errorfeedback as ef
from errorfeedback.cli._inputs import rows_of
from errorfeedback.data.dealing import deal
from errorfeedback.problems.conversation import alone

ROWS, FEATURES, CLIENTS = 120, 9, 12


def table(folder):
    """A file with text in it, and a target with a comma."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((ROWS, FEATURES)) * (rng.random((ROWS, FEATURES)) < 0.4)
    y = np.where(X @ rng.standard_normal(FEATURES) + 0.3 * rng.standard_normal(ROWS) > 0, "yes", "no, never")
    town = rng.choice(["Graz", "Linz", "Wien"], ROWS)
    path = folder / "rows.csv"
    lines = [",".join(f"{v:.6g}" for v in row) + f',{t},"{label}"' for row, t, label in zip(X, town, y, strict=True)]
    path.write_text("\n".join([",".join(f"x{j}" for j in range(FEATURES)) + ",town,target", *lines]))
    return path


@dataclass(eq=False)
class Here(ef.Transport):
    """Places in this process."""

    places: list
    answers: list = field(default_factory=list)

    def send(self, requests):
        self.answers = [place.serve(sent) for place, sent in zip(self.places, requests, strict=True)]

    def receive(self):
        return self.answers


def dealt(path, folder, count, inputs):
    data = alone(lambda seat: rows_of(inputs, seat))
    folders = [folder / f"node-{k}" for k in range(count)]
    deal(path, 10**9, np.arange(data.file_rows), data.clients, folders)
    return data, folders
