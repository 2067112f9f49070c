"""Where clients share hardly any feature they are asked for their parts of the minimum (`estimators.local_models`)."""

from __future__ import annotations

import numpy as np
import pytest
from own_models import L2, LOSSES, Own, learning, nearly_apart
from scipy.optimize import minimize

import errorfeedback as ef
from errorfeedback.estimators import local_models
from errorfeedback.estimators.local_models import averaged
from errorfeedback.wire.codebook import MENU


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shared", [0, 2, 3])
@pytest.mark.parametrize("name", LOSSES)
def test_where_clients_share_few_features_they_are_asked_for_their_part_of_the_minimum(
    name, shared, weighted, exactly, monkeypatch
):
    """n l2 is shared among the owners of a feature, and a feature without another owner has no prior: what they say is the
    minimum itself where nobody shares anything."""
    monkeypatch.setattr(local_models, "WORDS", MENU[-1])
    A, y, clients, features = nearly_apart(shared)
    n, d = len(features), A.shape[1]
    weights = np.random.default_rng(3).uniform(0.5, 2.0, n)[clients] if weighted else None
    rows = {"logistic": ef.logistic, "squared": ef.least_squares}[name](A, y, clients, sample_weight=weights)
    learn = learning(rows)
    assert learn.sum() <= 1
    pulls, bends = np.zeros(d), np.zeros(d)
    for i, mine in enumerate(features):
        a = 1.0 if weights is None else n * weights[clients == i].sum() / weights.sum()
        own, owners = (
            Own(A[clients == i][:, mine], y[clients == i], name, a),
            np.array([(A[:, j] != 0).sum() // 14 for j in mine]),
        )
        w, H = own.model(n * L2 / owners, 1 - 1 / owners)
        told = 2.0 ** np.rint(np.log2(a * own.h))
        H = told * 2.0 ** np.clip(np.rint(np.log2(H / told)), -7, 0)
        pulls[mine], bends[mine] = pulls[mine] + H * w, bends[mine] + H
    found = averaged(rows, L2)
    np.testing.assert_allclose(found.x, pulls / bends, rtol=1e-4, atol=1e-6)
    assert found.down_bits == 4 * sum(map(len, features))
    once, twice = (
        sum(16 + (MENU[-1].each + 3) * len(features[i]) for i in who) for who in (np.flatnonzero(learn), range(n))
    )
    assert found.bits == n * (32 + 32 + 1) + once + twice
    if not shared:
        least = minimize(lambda x: rows.value(x) + L2 / 2 * x @ x, np.zeros(d), method="BFGS", tol=1e-9).x
        np.testing.assert_allclose(found.x, least, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("counts", "asked"),
    [([1, 1, 1, 1], True), ([1, 3], False), ([1, 1, 1, 3], True), ([1] * 29 + [3] * 10, False), ([], False)],
)
def test_so_they_are_where_rare_features_have_at_most_two_owners(counts, asked):
    """On average over the features of clients: 3 x 1 + 3 x 3 over six are 2, 29 x 1 + 30 x 3 over 59 are 2.02. One that most
    rows of most clients have does not count, unless all are like that."""
    n, m = 4, 8
    rng, clients = np.random.default_rng(0), np.repeat(np.arange(n), m)
    A = np.ones((n * m, len(counts) + 1))
    for j, c in enumerate(counts):
        A[:, j] = 0.0
        A[[(j + k) % n * m + rng.integers(m) for k in range(c)], j] = 1.0
    y = rng.choice([-1.0, 1.0], n * m)
    assert local_models._nearly_apart(ef.scaled(ef.logistic(A, y, clients), power=None)) is asked
    assert local_models._nearly_apart(ef.scaled(ef.logistic(A, y, clients=1), power=None))
    assert not local_models._nearly_apart(ef.scaled(ef.logistic(np.ones((8, 2)), y[:8], clients=2), power=None))


def test_it_is_told_and_counted_and_a_run_begins_there():
    A, y, clients, features = nearly_apart()
    size = sum(map(len, features))
    models = [ef.EF21Classifier(l2=L2, fit_intercept=False, own_models=own) for own in (True, False)]
    (begun, zero) = (model.fit(A, y, groups=clients) for model in models)
    first, other = ({k: v[0] for k, v in model.history_.items() if "link_bits" in k} for model in (begun, zero))
    assert first["uplink_bits"] - other["uplink_bits"] >= 11 * size
    assert first["downlink_bits"] - other["downlink_bits"] >= (4 + 10) * size
    assert begun.n_iter_ < zero.n_iter_
    np.testing.assert_allclose(begun.coef_, zero.coef_, atol=1e-3)
