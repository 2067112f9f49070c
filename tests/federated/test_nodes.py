"""Nodes with files of their own and a server that has none come to the model of `train`, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from dealt_rows import CLIENTS, ROWS, Here, dealt, table

from errorfeedback.cli._inputs import estimator_of
from errorfeedback.cli.verbs._inputs import Inputs
from errorfeedback.data.reading import Reading
from errorfeedback.estimators.held_out import held_out
from errorfeedback.federated.assignment import Assignment
from errorfeedback.federated.nodes import Nodes
from errorfeedback.federated.site import Site
from errorfeedback.problems.conversation import alone
from errorfeedback.storage.checkpoint import Checkpoint


@pytest.mark.parametrize("options", [{}, {"k": 2, "rounds": 60, "tolerance": 0}, {"l1": 1e-3}], ids=str)
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


def federated(inputs, options, folders, reading, share=None, named=False, **more):
    """The model that nodes with these folders train, and the nodes."""
    model = estimator_of(inputs, **options)
    nodes = Nodes(Here([Site(Assignment.of(model, reading, share), each) for each in folders]), len(folders), named, share)
    common = nodes.gather()
    try:
        return model.fit_elsewhere(common.objective, common.learned, nodes, valid=nodes.held, **more), nodes
    finally:
        nodes.dismiss()


def divided(data, share, regression=False):
    """The rows to train with, and those that `train --valid` holds out."""
    labels = np.zeros(len(data.y)) if regression else data.y
    mask = alone(lambda seat: held_out(labels, data.clients, share, 0, seat))
    return data.take(~mask), data.take(mask)


COLUMNS = ("validation", "gamma", "uplink_bits")


def assert_same_training(model, expected):
    assert np.array_equal(model.coef_, expected.coef_)
    for column in COLUMNS:
        assert np.array_equal(model.history_[column], expected.history_[column], equal_nan=True), column
    for name in ("n_iter_", "stopped_", "returned_", "validation_loss_", "constant_loss_", "choice_"):
        assert getattr(model, name) == getattr(expected, name), name


@pytest.mark.parametrize("options", [{}, {"k": 2, "rounds": 90, "tolerance": 0.0}], ids=str)
@pytest.mark.parametrize("count", [1, 3])
def test_rows_that_nodes_hold_out_are_those_of_train_and_stop_it_at_the_same_bits(tmp_path, count, options):
    rows = table(tmp_path)
    inputs = Inputs(data=str(rows), clients=CLIENTS, class_weight="balanced")
    data, folders = dealt(rows, tmp_path, count, inputs)
    train, held = divided(data, 0.25)
    valid = held.A, held.y, None, held.clients
    expected = estimator_of(inputs, **options).fit(train.A, train.y, groups=train.clients, valid=valid)
    model, nodes = federated(inputs, options, folders, Reading(), 0.25)
    assert_same_training(model, expected)
    assert sum(each.held_rows for each in nodes.judgements) == len(held.y) == ROWS // 4
    right = sum(each.held_rows * each.held_scores["accuracy"] for each in nodes.judgements)
    assert np.isclose(right, np.sum(expected.predict(held.A) == held.y))
    counted, rounds = nodes.validating, expected.n_iter_ + 2  # round 0, and the point that is returned
    assert counted.up == 8 * rounds * len(np.unique(held.clients))
    assert 0 < counted.down <= 8 * rounds * count * (data.A.shape[1] + 1)


def test_a_run_with_held_out_rows_of_nodes_goes_on_from_a_checkpoint(tmp_path):
    rows, options = table(tmp_path), {"k": 2, "rounds": 60, "tolerance": 0.0}
    inputs = Inputs(data=str(rows), clients=CLIENTS)
    _, folders = dealt(rows, tmp_path, 2, inputs)
    expected, _ = federated(inputs, options, folders, Reading(), 0.25)
    where = Checkpoint(tmp_path / "state", every=10)

    class StopError(Exception):
        pass

    def stop(row):
        if row["round"] == 35:
            raise StopError

    with pytest.raises(StopError):
        federated(inputs, options, folders, Reading(), 0.25, watch=stop, checkpoint=where)
    again, _ = federated(inputs, options, folders, Reading(), 0.25, checkpoint=where)
    assert_same_training(again, expected)
    with pytest.raises(ValueError, match="stop"):
        federated(inputs, options, folders, Reading(), 0.4, checkpoint=where)


def test_nodes_whose_share_holds_out_nothing_say_so(tmp_path):
    rows = table(tmp_path)
    inputs = Inputs(data=str(rows), clients=CLIENTS)
    _, folders = dealt(rows, tmp_path, 2, inputs)
    with pytest.raises(ValueError, match=r"valid = 0.005 holds out no row of any node"):
        federated(inputs, {}, folders, Reading(), 0.005)


def test_the_links_of_clients_are_found_by_what_their_nodes_call_them(tmp_path):
    rows = table(tmp_path)
    links = ["Linz: up=1kbit/s,latency=1s", "up=1Mbit/s,down=2Mbit/s"]
    inputs, options = Inputs(data=str(rows), client_column="town"), {"network": links}
    data, folders = dealt(rows, tmp_path, 2, inputs)
    expected = estimator_of(inputs, **options).fit(data.A, data.y, groups=data.clients)
    model, _ = federated(inputs, options, folders, Reading(client_column="town"), named=True)
    assert model.clients_.tolist() == expected.clients_.tolist() == ["Graz", "Linz", "Wien"]
    assert np.array_equal(model.coef_, expected.coef_)
    assert model.choice_ == expected.choice_
    assert "1 kbit/s" in model.choice_ or model.choice_ != estimator_of(inputs).fit(data.A, data.y, data.clients).choice_
