"""The scikit-learn estimators: its own checks, its objective, groups, weights, classes, warm starts."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits, make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.estimator_checks import check_estimator

from errorfeedback.estimators.classifier import EF21Classifier
from errorfeedback.estimators.doubts import doubts_about
from errorfeedback.estimators.objective import with_ones
from errorfeedback.estimators.poisson_regressor import EF21PoissonRegressor
from errorfeedback.estimators.regressor import EF21Regressor
from errorfeedback.runtime.stopping import STUCK
from errorfeedback.storage.checkpoint import Checkpoint
from errorfeedback.storage.history import WHOLE, History

WEIGHTS = (
    "a weight of 2 and a row twice have the same optimum, but rows are dealt to clients one by one, so that the runs differ "
    "and end within `tol` of it, not within the 1e-7 that the check wants"
)
EXCEPTIONS = {
    "check_sample_weight_equivalence_on_dense_data": WEIGHTS,
    "check_sample_weight_equivalence_on_sparse_data": WEIGHTS,
}


ESTIMATORS = [
    EF21Classifier(),
    EF21Classifier(loss="squared_hinge", multi_class="ovr"),
    EF21Regressor(),
    EF21Regressor(loss="huber"),
    EF21PoissonRegressor(),
]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_scikit_learns_own_checks(estimator):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the checks themselves warn about estimators that they skip
        told = check_estimator(estimator, expected_failed_checks=EXCEPTIONS, on_fail=None, on_skip=None)
    assert [(t["check_name"], t["exception"]) for t in told if t["status"] == "failed"] == []
    assert {t["check_name"] for t in told if t["status"] == "xfail"} == set(EXCEPTIONS)


@pytest.fixture(scope="module")
def binary():
    return make_classification(600, 20, n_informative=10, random_state=0)


@pytest.mark.parametrize("intercept", ["topk", "exact"])
@pytest.mark.parametrize("scale", [True, False])
def test_binary_model_is_the_one_of_the_same_objective(binary, intercept, scale):
    X, y = binary
    l2 = 0.01
    ours = EF21Classifier(n_clients=20, l2=l2, tol=1e-10, max_iter=20_000, intercept=intercept, scale=scale).fit(X, y)
    theirs = LogisticRegression(C=1 / (l2 * len(y)), tol=1e-10, max_iter=10_000).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=2e-3)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=2e-3)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-3)


def test_with_k_a_tenth_of_the_tolerance_is_how_much_the_loss_must_still_fall(binary):
    """Where nothing estimates what is left."""
    assert (
        EF21Classifier(k=1, tol=1e-3, n_clients=5)
        .fit(*binary)
        .stopped_.startswith("loss fell by less than 0.0001 of itself")
    )
    assert "of all progress is left" in EF21Classifier(tol=1e-3, n_clients=5).fit(*binary).stopped_


def test_regression_is_ridge(binary):
    X = binary[0]
    y = X @ np.arange(20) + 3 + np.random.default_rng(0).standard_normal(600)
    ours = EF21Regressor(n_clients=20, l2=0.2, tol=1e-12, max_iter=20_000).fit(X, y)
    theirs = Ridge(alpha=0.1 * 600).fit(X, y)  # (1/m)||r||^2 + (l2/2)||x||^2 is Ridge's times 1/m
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-3)
    assert ours.intercept_ == pytest.approx(theirs.intercept_, abs=1e-3)
    assert ours.score(X, y) > 0.99


def test_sample_weights_have_the_optimum_of_repeated_rows(binary):
    X, y = binary
    w = np.random.default_rng(0).integers(0, 3, len(y))
    options = {"l2": 0.01, "tol": 1e-10, "max_iter": 20_000}
    weighted = EF21Classifier(**options).fit(X, y, sample_weight=w)
    repeated = EF21Classifier(**options).fit(np.repeat(X, w, axis=0), np.repeat(y, w))
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=2e-3)
    assert np.abs(weighted.coef_ - EF21Classifier(**options).fit(X, y).coef_).max() > 1e-2  # negative control


def test_groups_name_the_clients_and_change_the_traffic_not_the_optimum(binary):
    X, y = binary
    groups = np.random.default_rng(0).choice(["oslo", "riga", "bern"], len(y), p=[0.7, 0.2, 0.1])
    options = {"l2": 0.01, "tol": 1e-10, "max_iter": 20_000}
    ours = EF21Classifier(**options).fit(X, y, groups=groups)
    np.testing.assert_allclose(ours.coef_, EF21Classifier(**options).fit(X, y).coef_, atol=2e-3)
    assert ours.bytes_up_ > 0
    assert ours.bytes_down_ > 0


def test_ten_classes_in_the_same_rounds():
    """Every class learns, and a round of ten classes costs a client what a round of two does (an index is longer)."""
    X, y = load_digits(return_X_y=True)
    ten = EF21Classifier(n_clients=20, k=4, max_iter=400, tol=0).fit(X, y)
    two = EF21Classifier(n_clients=20, k=4, max_iter=400, tol=0).fit(X, y % 2)
    assert ten.score(X, y) > 0.95
    assert ten.coef_.shape == (10, 64)
    np.testing.assert_allclose(ten.predict_proba(X).sum(axis=1), 1.0)
    per_round = [np.diff(e.history_["uplink_bits"])[-2] for e in (ten, two)]
    assert per_round[0] < 1.2 * per_round[1]


def test_warm_start_goes_on_from_the_last_model(binary):
    X, y = binary
    model = EF21Classifier(l2=0.01, warm_start=True, max_iter=3000).fit(X, y)
    first = model.history_["f"]
    model.fit(X, y)
    assert model.history_["f"][0] == pytest.approx(first[-1], rel=1e-2)
    assert model.history_["f"][0] < min(first[0], 0.81 * np.log(2))
    with pytest.raises(ValueError, match="warm_start"):
        model.fit(X[:, :5], y)


def test_pipeline_grid_search_clone_and_pickle(binary):
    """The best score of the grid is that of scikit-learn's own model with the same objective, in the same folds."""
    X, y = binary
    search = GridSearchCV(make_pipeline(MaxAbsScaler(), EF21Classifier()), {"ef21classifier__l2": [1e-4, 1e-2]}).fit(X, y)
    rows = len(y) * 4 // 5  # of a fold
    theirs = {"logisticregression__C": [1 / (l2 * rows) for l2 in (1e-4, 1e-2)]}
    other = GridSearchCV(make_pipeline(MaxAbsScaler(), LogisticRegression(max_iter=10_000)), theirs).fit(X, y)
    assert search.best_score_ == pytest.approx(other.best_score_, abs=0.01)
    assert search.best_score_ > max(np.mean(y), 1 - np.mean(y)) + 0.1
    model = search.best_estimator_[-1]
    assert np.array_equal(pickle.loads(pickle.dumps(model)).coef_, model.coef_)
    assert clone(model).get_params() == model.get_params()


def test_l1_leaves_out_features(binary):
    X, y = binary
    model = EF21Classifier(l1=0.05, l2=0.0, max_iter=5000).fit(X, y)
    assert 0 < (model.coef_ == 0).sum() < 20
    assert model.intercept_[0] != 0


def noisy(seed, m=2000, d=200, held=100):
    """Heavy tails, features of all scales, few held-out rows: training, held-out and test rows with their classes."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((m + held + 2000, d)) * np.exp(1.5 * rng.standard_normal(d))
    X[:, : d // 2] = np.sinh(X[:, : d // 2] / 3)
    y = (X @ (4 / np.sqrt(d) * rng.standard_normal(d) / X.std(axis=0)) + rng.logistic(size=len(X)) > 0).astype(int)
    return [(X[a:b], y[a:b]) for a, b in ((0, m), (m, m + held), (m + held, len(X)))]


@pytest.mark.parametrize(("seed", "m", "d", "held"), [(0, 2000, 200, 100), (1, 600, 60, 60), (0, 600, 60, 60)])
def test_validation_does_not_stop_on_noise(seed, m, d, held):
    """The held-out loss of the first rounds is lower by chance than for long after; the test accuracy was 0.48 to 0.83."""
    train, valid, test = noisy(seed, m, d, held)
    alone = EF21Classifier(n_clients=20).fit(*train)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # by chance again: not better than a constant on these rows
        watched = EF21Classifier(n_clients=20).fit(*train, valid=valid)
    assert watched.score(*test) >= alone.score(*test) - 0.005
    assert watched.n_iter_ <= alone.n_iter_
    assert np.nanmin(watched.history_["validation"]) <= watched.validation_loss_


def test_a_model_that_is_no_better_than_a_constant_is_a_warning():
    X = np.random.default_rng(0).standard_normal((300, 20))
    y = (X[:, 0] > 0).astype(int)
    for make in (EF21Classifier, EF21Regressor):
        with pytest.warns(UserWarning, match="no better than a constant on the held-out rows"):
            make().fit(X[:200], y[:200], valid=(X[200:], 1 - y[200:]))  # all that is learned is wrong there
        useful = make().fit(X[:200], y[:200], valid=(X[200:], y[200:]))
        assert useful.validation_loss_ < 0.5 * useful.constant_loss_


def test_rounds_that_ran_out_are_a_warning(binary):
    X, y = binary
    with pytest.warns(ConvergenceWarning, match="not converged: all 5 rounds were run"):
        EF21Classifier(max_iter=5).fit(X, y)
    EF21Classifier(max_iter=5, tol=0).fit(X, y)  # asked for: no warning


@pytest.mark.parametrize("asked", ["balanced", {0: 1.0, 1: 4.0}, {1: 0.25}, None], ids=str)
def test_class_weights_are_scikit_learns(binary, asked):
    X, y = binary[0][:400], (binary[1][:400] * (np.arange(400) % 4 == 0)).astype(int)
    w = np.random.default_rng(0).uniform(0.5, 2.0, 400)
    share = compute_class_weight(asked, classes=np.array([0, 1]), y=y, sample_weight=w)[y] * w
    ours = EF21Classifier(n_clients=5, l2=0.01, tol=1e-10, max_iter=20_000, class_weight=asked).fit(X, y, sample_weight=w)
    theirs = LogisticRegression(C=1 / (0.01 * share.sum()), class_weight=asked, tol=1e-10, max_iter=10_000)
    np.testing.assert_allclose(ours.coef_, theirs.fit(X, y, sample_weight=w).coef_, atol=2e-3)
    np.testing.assert_allclose(ours.constant_, np.bincount(y, share) / share.sum())


def test_the_held_out_loss_is_weighted_as_the_training_loss(binary):
    """The same rows as training and as held-out rows: the same loss, but for the penalty."""
    X, y = binary
    w = np.random.default_rng(0).uniform(0.5, 2.0, len(y))
    for model, target in ((EF21Classifier(class_weight={1: 3.0}), y), (EF21Regressor(), X[:, 0] + y)):
        model.fit(X, target, sample_weight=w, valid=(X, target, w))
        assert model.validation_loss_ == pytest.approx(model.loss_ - model.penalty_)
        assert model.penalty_ == pytest.approx(0.5 * model.l2 * np.sum(model.coef_**2))


def test_a_run_with_held_out_rows_goes_on_from_a_checkpoint(binary, tmp_path):
    X, y = binary
    valid = (X[500:], y[500:])
    whole = EF21Classifier(k=1).fit(X[:500], y[:500], valid=valid)

    class StoppedError(Exception):
        pass

    def stop(row):
        if row["round"] >= 30:
            raise StoppedError

    with pytest.raises(StoppedError):
        EF21Classifier(k=1).fit(X[:500], y[:500], valid=valid, watch=stop, checkpoint=Checkpoint(tmp_path, every=10))
    again = EF21Classifier(k=1).fit(X[:500], y[:500], valid=valid, checkpoint=Checkpoint(tmp_path, every=10))
    assert again.stopped_ == whole.stopped_
    assert np.array_equal(again.coef_, whole.coef_)
    assert np.array_equal(again.history_["validation"], whole.history_["validation"])
    with pytest.raises(ValueError, match="another run: rounds is 2000 there and 900 here"):
        EF21Classifier(k=1, max_iter=900).fit(X[:500], y[:500], valid=valid, checkpoint=Checkpoint(tmp_path))
    with pytest.raises(ValueError, match="another run: stop is"):
        EF21Classifier(k=1).fit(X[:500], y[:500], valid=(X[500:], 1 - y[500:]), checkpoint=Checkpoint(tmp_path))


def test_a_budget_stops_training(binary):
    X, y = binary
    model = EF21Classifier(budget=200, tol=0).fit(X, y)
    assert "budget of 200 bytes" in model.stopped_
    spent = model.history_["uplink_bits"] / 8 / 10  # the round that spends the last of it may hold Hessians
    assert spent[-2] < 200 <= spent[-1] == model.bytes_up_


BAD = {
    "one class only": lambda X, y: EF21Classifier().fit(X, np.zeros(len(y), dtype=int)),
    "name a client for each row": lambda X, y: EF21Classifier().fit(X, y, groups=[1, 2]),
    "contains NaN": lambda X, y: EF21Classifier().fit(np.where(X > 3, np.nan, X), y),
    "contains infinity": lambda X, y: EF21Classifier().fit(np.where(X > 3, np.inf, X), y),
    "inconsistent numbers of samples": lambda X, y: EF21Classifier().fit(X, y[:-1]),
    "at least one non-zero": lambda X, y: EF21Classifier().fit(X, y, sample_weight=np.zeros(len(y))),
    "n_clients = 0": lambda X, y: EF21Classifier(n_clients=0).fit(X, y),
    "validation data has the class 7": lambda X, y: EF21Classifier().fit(X, y, valid=(X, np.where(y == 1, 7, y))),
    "X has 5 features": lambda X, y: EF21Classifier().fit(X, y, valid=(X[:, :5], y)),
    "intercept = 'none'": lambda X, y: EF21Classifier(intercept="none").fit(X, y),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_input_is_refused_before_training(binary, message):
    with pytest.raises(ValueError, match=message):
        BAD[message](*binary)


@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_the_intercept_is_a_last_column_of_ones_and_indices_stay_short(index):
    A = sparse.csr_array(np.array([[0.0, 2.0, 0.0], [0.0, 0.0, 0.0], [1.0, 0.0, 3.0]]))
    A.indices, A.indptr = A.indices.astype(index), A.indptr.astype(index)
    made = with_ones(A)
    assert made.toarray().tolist() == np.column_stack([A.toarray(), np.ones(3)]).tolist()
    assert (made.indices.dtype, made.indptr.dtype) == (np.int32, np.int32)
    assert made.has_canonical_format


@pytest.mark.parametrize(("gap", "doubted"), [(3e-6, True), (5e-7, False), (0.0, False)])
def test_a_run_whose_steps_lower_nothing_before_its_tolerance_is_doubted(binary, gap, doubted):
    model = EF21Classifier(tol=1e-6).fit(*binary)
    model.stopped_ = f"{STUCK}, at round 9"
    rows = [{"round": t, "f": f, "estimated_gap": gap} for t, f in enumerate((1.5, 0.5))]
    model.history_ = History([row | dict.fromkeys(WHOLE - {"round"}, 0) for row in rows])
    found = [text for _, text in doubts_about(model)]
    assert any("not converged: no step lowers the loss any more, at round 9" in text for text in found) is doubted
