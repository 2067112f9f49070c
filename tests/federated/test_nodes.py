"""Nodes with files of their own and a server that has none come to the model of `train`, bit for bit."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

import errorfeedback as ef
from errorfeedback.cli._inputs import estimator_of, rows_of
from errorfeedback.cli.verbs._inputs import Inputs
from errorfeedback.data.dealing import deal
from errorfeedback.data.reading import Reading
from errorfeedback.federated.assignment import Assignment
from errorfeedback.federated.nodes import Nodes
from errorfeedback.federated.site import Site
from errorfeedback.problems.conversation import alone

ROWS, FEATURES, CLIENTS = 120, 9, 12


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((ROWS, FEATURES)) * (rng.random((ROWS, FEATURES)) < 0.4)
    y = np.where(X @ rng.standard_normal(FEATURES) + 0.3 * rng.standard_normal(ROWS) > 0, "yes", "no, never")
    town = rng.choice(["Graz", "Linz", "Wien"], ROWS)
    path = tmp_path_factory.mktemp("table") / "rows.csv"
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


@pytest.mark.parametrize(
    "options", [{}, {"k": 2, "rounds": 60, "tolerance": 0}, {"l1": 1e-3, "rounds": 60, "tolerance": 0}], ids=str
)
@pytest.mark.parametrize("count", [1, 3])
def test_the_model_is_that_of_one_process(table, tmp_path, count, options):
    inputs = Inputs(data=str(table), clients=CLIENTS, l1=options.get("l1", 0.0))
    data, folders = dealt(table, tmp_path, count, inputs)
    rest = {name: value for name, value in options.items() if name != "l1"}
    expected = estimator_of(inputs, **rest).fit(data.A, data.y, groups=data.clients)
    model = estimator_of(inputs, **rest)
    sites = [Site(Assignment.of(model, Reading()), each) for each in folders]
    nodes = Nodes(Here(sites), count)
    common = nodes.gather()
    model.fit_elsewhere(common.objective, common.learned, nodes)
    assert np.array_equal(model.coef_, expected.coef_)
    assert np.array_equal(model.intercept_, expected.intercept_)
    assert (model.loss_, model.n_iter_, model.bytes_up_) == (expected.loss_, expected.n_iter_, expected.bytes_up_)
    assert model.predict(data.A).tolist() == expected.predict(data.A).tolist()
    right = [j.rows * j.scores["accuracy"] for j in nodes.judgements]
    assert np.isclose(sum(right) / ROWS, np.mean(expected.predict(data.A) == data.y))
    assert not any(site.ended for site in sites)
    nodes.dismiss()
    assert all(site.ended for site in sites)
