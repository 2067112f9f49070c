"""Training where most rows have a feature that their client alone has: what is left to clients, what it costs, and that it
is the same model everywhere."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from dealt_rows import Here
from own_rows_of_clients import OWN, SHARED, N, table

import errorfeedback as ef
from errorfeedback.data.reading import Reading
from errorfeedback.estimators import local_models
from errorfeedback.estimators.objective import with_ones
from errorfeedback.estimators.own_features import SHARE, own_features_left
from errorfeedback.federated.assignment import Assignment
from errorfeedback.federated.nodes import Nodes
from errorfeedback.federated.site import Site
from errorfeedback.problems.conversation import alone
from errorfeedback.problems.reduced import Reduced
from errorfeedback.problems.scaling import Scaled
from errorfeedback.runtime.ledger import ownership_bits
from errorfeedback.storage.checkpoint import Checkpoint
from errorfeedback.storage.files import content, value_of

L2 = 0.01


def users(n=12, m=15, items=10, seed=0):
    """Every user has an id and two words of its own, and some of the items."""
    rng = np.random.default_rng(seed)
    clients = np.repeat(np.arange(n), m)
    shared = (rng.random((n * m, items)) < 0.3) * 1.0
    own = np.zeros((n * m, 3 * n))
    for i in range(n):
        own[clients == i, 3 * i] = 1.0
        own[np.ix_(clients == i, [3 * i + 1, 3 * i + 2])] = rng.random((m, 2)) < 0.4
    A = np.c_[shared, own]
    y = rng.random(n * m) < 1 / (1 + np.exp(-A @ rng.standard_normal(A.shape[1]) * 2))
    return A, y, clients


MODELS = {
    "classes": lambda **more: ef.EF21Classifier(**{"l2": L2, "tol": 1e-7} | more),
    "numbers": lambda **more: ef.EF21Regressor(**{"l2": L2, "tol": 1e-7} | more),
}


@pytest.mark.parametrize("network", [None, "up=1Mbit/s,down=10Mbit/s,latency=50ms"])
@pytest.mark.parametrize("kind", MODELS)
def test_the_model_is_the_same_for_fewer_bytes(kind, network):
    A, y, clients = users()
    left, whole = (MODELS[kind](network=network, own_features=own).fit(A, y, groups=clients) for own in (True, False))
    np.testing.assert_allclose(left.coef_, whole.coef_, atol=5e-3 * np.abs(whole.coef_).max())
    assert left.loss_ == pytest.approx(whole.loss_, rel=1e-5)
    assert left.bytes_up_ + left.bytes_down_ < 0.8 * (whole.bytes_up_ + whole.bytes_down_)
    assert "features that only one client has, in 100% of the rows, are left to it" in left.choice_
    assert "left to it" not in whole.choice_


@pytest.mark.parametrize(("tol", "close"), [(1e-6, 1e-6), (1e-8, 1e-10)])
def test_what_is_said_of_the_model_is_true_of_its_coefficients(tol, close):
    """As far as these are told: in 16 bits, or 24 where more is asked for."""
    A, y, clients = users()
    model = MODELS["classes"](tol=tol).fit(A, y, groups=clients)
    assert model.before_.own_weights == ((16 if tol == 1e-6 else 24) * 36 + 16 * 12) / 8 / 12
    penalty = L2 / 2 * (model.coef_**2).sum()
    loss = np.logaddexp(0, -np.where(y, 1, -1) * model.decision(A)[:, 0]).mean() + penalty
    assert model.loss_ == pytest.approx(loss, rel=close)
    assert model.penalty_ == pytest.approx(penalty, rel=1e-12)


def left_of(A, y, clients, l2=L2, **more):
    rows = ef.logistic(with_ones(ef.logistic(A, y, clients).A), y, clients, **more)
    scaling = ef.scaled(rows, power=None, l2=l2)
    return rows, scaling, alone(lambda seat: own_features_left(scaling, np.full(rows.width, l2), 1e-6))


@pytest.mark.parametrize(("rows", "left"), [(90, True), (89, False)])
def test_they_are_left_where_at_least_half_of_all_rows_have_one(rows, left):
    A, y, clients = users()
    A[:, 10:] = 0.0
    who = np.random.default_rng(0).permutation(len(A))[:rows]
    A[who, 10 + clients[who]] = 1.0
    assert rows >= SHARE * 180 if left else rows < SHARE * 180
    *_, (_, own) = left_of(A, y, clients)
    assert (own is not None) is left
    if left:
        assert own.share == rows / 180


@pytest.mark.parametrize(
    "options", [{"k": 1}, {"k": "auto"}, {"l1": 0.01}, {"scale": False}, {"own_features": False}, {"l2": 0.0}], ids=str
)
def test_otherwise_the_server_has_all_weights(options):
    A, y, clients = users()
    made = ef.EF21Classifier(**{"l2": L2, **options}).objective(A, y, groups=clients, whole=False)
    assert made.own is None
    assert made.problem.d == A.shape[1] + 1
    assert ef.EF21Classifier().objective(A, y, groups=clients, whole=False).own is not None
    assert ef.EF21Classifier().objective(A, y, groups=clients).own is None, "as compare and inspect ask"


def test_who_judges_the_model_in_every_round_has_all_weights():
    A, y, clients = users()
    model = MODELS["classes"]().fit(A, y, groups=clients, valid=(A[:60], y[:60]))
    assert "left to it" not in model.choice_
    assert model.before_.own_weights == 0.0


def test_losses_without_a_bound_and_clients_that_share_nothing_keep_them_at_the_server():
    A, y, clients = users()
    for model, left in (
        (ef.EF21PoissonRegressor(), False),
        (ef.EF21Classifier(loss="squared_hinge"), True),
        (ef.EF21Regressor(loss="huber"), True),
    ):
        assert (model.objective(A, y.astype(int), groups=clients, whole=False).own is not None) is left
    apart = ef.EF21Classifier(fit_intercept=False).objective(A[:, 10:], y, groups=clients, whole=False)
    assert apart.own is None


def test_every_bit_of_it_is_counted():
    """Up: all features are listed and their curvatures said, as without it; at the end 16 bits for every own weight and for
    every client that has some. Down: a bit for each feature, and the scale of the shared ones."""
    A, y, *_, clients, _ = table()
    rows, before, (scaling, own) = left_of(A, y, clients)
    problem = scaling.inner
    assert isinstance(scaling, Scaled)
    assert isinstance(problem, Reduced)
    assert (problem.d, rows.d) == (SHARED + 1, A.shape[1] + 1)
    listed = ownership_bits(rows) - ownership_bits(problem)
    weights = 16 * sum(map(len, OWN.values())) + 16 * len(OWN)
    assert (own.listed, own.weights.sum(), own.share) == (listed, weights, len(OWN) / N)
    assert own.sizes.tolist() == [len(OWN.get(i, [])) for i in range(N)]
    assert own.columns.tolist() == [j for each in OWN.values() for j in each]
    assert scaling.setup_bits[0] == before.setup_bits[0] + listed + weights
    exponents = np.rint(-4 * np.log2(scaling.scale))
    down = rows.support.size
    for i in range(N):
        mine = exponents[problem.support.features(i)]
        offset = int(np.ceil(np.log2(mine.max() - mine.min() + 1)))
        down += 13 + 5 + (offset + 2) * len(mine) + 11
    assert scaling.setup_bits[1] == down
    np.testing.assert_array_equal(scaling.scale, before.scale[rows.support.counts > 1])


def test_it_is_in_the_books_from_the_start_and_told_apart():
    A, y, clients = users()
    left, whole = (MODELS["classes"](own_features=own).fit(A, y, groups=clients) for own in (True, False))
    b, expected = left.before_, whole.before_
    assert b.own_weights == (24 * 36 + 16 * 12) / 8 / 12
    assert (b.ownership, b.scaling_up, b.own_model) == (expected.ownership, expected.scaling_up, expected.own_model)
    first = left.history_["uplink_bits"][0] / 8 / 12
    assert b.up + b.own_weights == pytest.approx(first)
    assert b.down == pytest.approx(left.history_["downlink_bits"][0] / 8 / 12)


@pytest.mark.parametrize("engine", [ef.Threads(3), ef.Threads(2)], ids=str)
def test_threads_have_the_same_bits(engine):
    A, y, clients = users()
    one, many = (MODELS["classes"]().fit(A, y, groups=clients, engine=each) for each in (ef.Local(), engine))
    assert np.array_equal(one.coef_, many.coef_)
    assert one.history_["f"].tobytes() == many.history_["f"].tobytes()


class StoppedError(Exception):
    """In the middle of a run."""


def test_a_run_goes_on_from_a_checkpoint_bit_for_bit(tmp_path):
    A, y, clients = users()
    whole = MODELS["classes"]().fit(A, y, groups=clients)

    def stop(row):
        if row["round"] == 4:
            raise StoppedError

    with pytest.raises(StoppedError):
        MODELS["classes"]().fit(A, y, groups=clients, watch=stop, checkpoint=Checkpoint(tmp_path, every=2))
    again = MODELS["classes"]().fit(A, y, groups=clients, checkpoint=Checkpoint(tmp_path, every=2))
    assert np.array_equal(again.coef_, whole.coef_)
    assert again.bytes_up_ == whole.bytes_up_


def written(folder: Path, A, y, clients, places):
    """A folder for each of several nodes, with a file for every client."""
    folders = [folder / f"node-{k}" for k in range(places)]
    names = ",".join([*(f"x{j}" for j in range(A.shape[1])), "target"])
    for i in np.unique(clients):
        home = folders[i * places // (clients.max() + 1)]
        home.mkdir(exist_ok=True)
        lines = [
            ",".join([*(f"{v:g}" for v in a), str(int(b))]) for a, b in zip(A[clients == i], y[clients == i], strict=True)
        ]
        (home / f"client-{i:02}.csv").write_text("\n".join([names, *lines]))
    return folders


@pytest.mark.parametrize("places", [1, 3])
def test_nodes_with_files_of_their_own_have_the_same_bits_and_say_their_weights_at_the_end(tmp_path, places):
    A, y, clients = users()
    expected = MODELS["classes"]().fit(A, y.astype(int), groups=clients)
    model = MODELS["classes"]()
    sites = [Site(Assignment.of(model, Reading()), each) for each in written(tmp_path, A, y, clients, places)]
    nodes = Nodes(Here(sites), places)
    common = nodes.gather()
    model.fit_elsewhere(common.objective, common.learned, nodes)
    assert np.array_equal(model.coef_, expected.coef_)
    assert (model.loss_, model.penalty_, model.bytes_up_) == (expected.loss_, expected.penalty_, expected.bytes_up_)
    assert model.choice_ == expected.choice_
    right = sum(j.rows * j.scores["accuracy"] for j in nodes.judgements)
    assert right / len(y) == pytest.approx(np.mean(expected.predict(A) == y)), "nodes judge with the weights that they have"


@pytest.mark.parametrize(("share", "judged"), [(0.2, False), (None, True)])
def test_nodes_whose_model_is_judged_in_every_round_tell_all_weights(tmp_path, share, judged):
    A, y, clients = users()
    model = MODELS["classes"](max_iter=5)
    assignment = Assignment.of(model, Reading(), share, judged)
    nodes = Nodes(Here([Site(assignment, each) for each in written(tmp_path, A, y, clients, 2)]), 2, share=share)
    assert nodes.gather().objective.own is None


LIES = {
    "a shared feature": lambda columns, weights: (np.r_[columns[1:], 0], weights),
    "no feature": lambda columns, weights: (np.r_[columns[1:], 10**6], weights),
    "one twice": lambda columns, weights: (np.r_[columns[1:], columns[1]], weights),
    "not a number": lambda columns, weights: (columns, np.r_[weights[1:], np.nan]),
    "too few": lambda columns, weights: (columns, weights[1:]),
    "text": lambda columns, weights: "all is well",
    "another node's": lambda columns, weights: (np.r_[columns[1:], 10], weights),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_node_cannot_say_weights_that_are_not_its_own(tmp_path, lie, monkeypatch):
    A, y, clients = users()
    model = MODELS["classes"]()
    sites = [Site(Assignment.of(model, Reading()), each) for each in written(tmp_path, A, y, clients, 2)]
    nodes = Nodes(Here(sites), 2)
    common = nodes.gather()
    honest = sites[1].verbs["own"]
    monkeypatch.setitem(sites[1].verbs, "own", lambda body: content(LIES[lie](*value_of(honest(body), "the node"))))
    with pytest.raises(RuntimeError, match="host 1 failed: it does not say one weight for each feature"):
        model.fit_elsewhere(common.objective, common.learned, nodes)


def test_what_only_an_absent_nodes_clients_know_stays_what_it_was_at_the_start(tmp_path, caplog, monkeypatch):
    """Which is 0, and not what was said of own models, where nobody gave a start."""
    A, y, clients = users()
    monkeypatch.setattr(local_models, "KEPT", -np.inf)  # all say what their models are
    model = MODELS["classes"]()
    sites = [Site(Assignment.of(model, Reading()), each) for each in written(tmp_path, A, y, clients, 2)]
    nodes = Nodes(Here(sites), 2)
    common = nodes.gather()
    assert common.objective.begin.x[:10].any()
    asked = nodes._asked
    nodes._asked = lambda verb, bodies: [asked(verb, bodies)[0], None] if verb == "own" else asked(verb, bodies)
    model.fit_elsewhere(common.objective, common.learned, nodes)
    assert model.coef_[0, 10:28].all()
    assert not model.coef_[0, 28:].any()
    assert model.penalty_ == pytest.approx(L2 / 2 * (model.coef_**2).sum(), rel=1e-12)
    assert "features that only clients of host 1 have are not known" in caplog.text


def test_features_are_counted_with_own_ones():
    A, y, clients = users()
    made = MODELS["classes"]().objective(A, y, groups=clients, whole=False)
    assert (made.features, made.problem.d, made.most) == (47, 11, 14)
    model = MODELS["classes"]().fit(A, y, groups=clients)
    assert model.most_features_ == 14
    up, down, after = model.traffic_
    assert (len(up), len(down)) == (12, 12)
    assert after.tolist() == [24 * 3 + 16] * 12
