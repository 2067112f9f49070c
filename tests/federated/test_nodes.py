"""Nodes with files of their own and a server that has none come to the model of `train`, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from dealt_rows import CLIENTS, ROWS, Here, dealt, table

from errorfeedback.cli._inputs import estimator_of
from errorfeedback.cli.verbs._inputs import Inputs
from errorfeedback.data.reading import Reading
from errorfeedback.federated.assignment import Assignment
from errorfeedback.federated.nodes import Nodes
from errorfeedback.federated.site import Site


@pytest.mark.parametrize(
    "options", [{}, {"k": 2, "rounds": 60, "tolerance": 0}, {"l1": 1e-3, "rounds": 60, "tolerance": 0}], ids=str
)
@pytest.mark.parametrize("count", [1, 3])
def test_the_model_is_that_of_one_process(tmp_path, count, options):
    rows = table(tmp_path)
    inputs = Inputs(data=str(rows), clients=CLIENTS, l1=options.get("l1", 0.0))
    data, folders = dealt(rows, tmp_path, count, inputs)
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
