"""Many classes: what is minimised is scikit-learn's multinomial regression, and its constants are upper bounds."""

from __future__ import annotations

import numpy as np
import pytest
from problem_pairs import pair
from scipy.optimize import check_grad, minimize
from scipy.special import softmax as probabilities
from sklearn.linear_model import LogisticRegression

import errorfeedback as ef
from errorfeedback.problems.base import setup_bits
from errorfeedback.problems.glm import GLM
from errorfeedback.runtime.ledger import ownership_bits
from errorfeedback.runtime.soundness import check_problem
from errorfeedback.smoothness.constants import smoothness

CLASSES = 4


def rows(seed: int = 0, m: int = 120, d: int = 9):
    """Rows of twelve clients with rare features, an empty column, and labels that the features say something about."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((m, d)) * (rng.random((m, d)) < 0.4)
    A[np.arange(m), rng.integers(0, d - 1, m)] = 1.0
    A[:, 3] = 0.0
    y = (A @ rng.standard_normal((d, CLASSES)) + rng.gumbel(size=(m, CLASSES))).argmax(axis=1)
    return A, np.array(["a", "b", "c", "d"])[y], np.arange(m) % 12


def matrix(problem: GLM, x):
    """(columns, classes)."""
    return problem.extend(x, np.zeros(problem.width)).reshape(-1, CLASSES)


@pytest.mark.parametrize("lam", [0.0, 1.0])
def test_values_and_gradients_equal_the_reference(lam):
    ours, literal = pair("softmax", lam=lam)
    rng = np.random.default_rng(0)
    for _ in range(5):
        x = 2 * rng.standard_normal(ours.d)
        assert ours.value(x) == pytest.approx(literal.value(x), rel=1e-13)
        grads = np.split(ours.gradients_at(x), ours.support.indptr[1:-1])
        for i, g in enumerate(grads):
            np.testing.assert_allclose(g, literal.gradient_i(i, x)[literal.clients[i].J], atol=1e-13)


@pytest.mark.parametrize("loss", [ef.Softmax, ef.OneAgainstRest])
def test_gradients_are_derivatives(loss):
    A, y, clients = rows()
    problem = ef.glm(A, np.unique(y, return_inverse=True)[1], clients, loss(outputs=CLASSES), intercept=True)
    x = np.random.default_rng(0).standard_normal(problem.d)
    assert check_grad(problem.value, problem.gradient, x) < 1e-6


@pytest.mark.parametrize("weighted", [False, True])
def test_the_optimum_is_scikit_learns(weighted):
    """f + (l2/2)||coef||^2 with a free intercept, against C = 1/(m l2): the same model, the same probabilities."""
    A, y, clients = rows()
    w = np.random.default_rng(1).uniform(0.1, 3.0, len(y)) if weighted else np.ones(len(y))
    l2, problem = 1e-2, ef.softmax(A, y, clients, intercept=True, sample_weight=w)
    penalised = problem.columns < problem.width - CLASSES  # the intercept is the last column

    def objective(x):
        own = penalised * x
        return problem.value(x) + l2 / 2 * own @ own, problem.gradient(x) + l2 * own

    found = minimize(objective, np.zeros(problem.d), jac=True, method="L-BFGS-B", options={"gtol": 1e-12, "ftol": 0})
    theirs = LogisticRegression(C=1 / (l2 * w.sum()), tol=1e-12, max_iter=10000).fit(A, y, sample_weight=w)
    X = matrix(problem, found.x)
    np.testing.assert_allclose(X[:-1].T, theirs.coef_, atol=1e-5)
    ones = np.column_stack([A, np.ones(len(A))])
    np.testing.assert_allclose(probabilities(ones @ X, axis=1), theirs.predict_proba(A), atol=1e-5)
    assert problem.classes == tuple(theirs.classes_)


def test_two_classes_are_the_logistic_loss():
    A, _, clients = rows()
    y = np.arange(len(A)) % 2
    two, one = ef.softmax(A, y, clients), ef.logistic(A, y, clients)
    x = np.random.default_rng(0).standard_normal(one.d)
    X = np.column_stack([-x / 2, x / 2]).ravel()
    assert two.value(X) == pytest.approx(one.value(x), rel=1e-14)
    np.testing.assert_allclose(two.gradients_at(X)[1::2], one.gradients_at(x), atol=1e-15)


def test_one_against_rest_is_a_logistic_problem_for_every_class():
    A, y, clients = rows()
    code = np.unique(y, return_inverse=True)[1]
    problem = ef.glm(A, code, clients, ef.OneAgainstRest(outputs=CLASSES))
    X = np.random.default_rng(0).standard_normal((problem.d // CLASSES, CLASSES))
    each = [ef.logistic(A, code == k, clients) for k in range(CLASSES)]
    assert problem.value(X.ravel()) == pytest.approx(sum(p.value(x) for p, x in zip(each, X.T, strict=True)), rel=1e-14)
    grads = problem.gradients_at(X.ravel()).reshape(-1, CLASSES)
    for k, p in enumerate(each):
        np.testing.assert_allclose(grads[:, k], p.gradients_at(X[:, k]), atol=1e-15)
    assert problem.curvature().attained


def hessians(problem: GLM, x):
    """(clients, d, d), literally: the derivative of every client's gradient."""
    q, p = problem.loss.outputs, []
    for i in range(problem.n):
        a = problem.A[problem.rows[i] : problem.rows[i + 1]].toarray()
        total = np.zeros((problem.d, problem.d))
        for row in a:
            prob = probabilities(row @ x.reshape(-1, q))
            total += np.kron(np.outer(row, row), np.diag(prob) - np.outer(prob, prob)) / len(a)
        p.append(total)
    return np.array(p)


def test_the_constants_are_upper_bounds_and_those_of_the_matrix_written_out():
    problem = ef.softmax(*rows(m=60))
    found, rng = smoothness(problem), np.random.default_rng(0)
    k = problem.curvature()
    written = [
        np.kron((rows.T * weights) @ rows, np.eye(CLASSES))
        for rows, weights in zip(np.split(k.A.toarray(), k.rows[1:-1]), np.split(k.weights, k.rows[1:-1]), strict=True)
    ]
    np.testing.assert_allclose(found.L_i, [np.linalg.norm(h, 2) for h in written], rtol=1e-9)
    assert pytest.approx(np.linalg.norm(np.mean(written, axis=0), 2), rel=1e-9) == found.L
    for scale in (0.0, 1.0, 10.0):
        H = hessians(problem, scale * rng.standard_normal(problem.d))
        assert (np.linalg.norm(H, 2, axis=(1, 2)) <= found.L_i).all()
        assert np.linalg.norm(H.mean(axis=0), 2) <= found.L
        assert np.sqrt(np.linalg.norm(np.mean(H @ H, axis=0), 2)) <= found.L_plus
    assert "bound" in found.how["L"]
    assert "bound" in found.how["L_i"]


def test_two_classes_attain_the_bound():
    """Negative control of the bounds: half the curvature would not do."""
    A, _, clients = rows(m=60)
    problem = ef.softmax(A, np.arange(60) % 2, clients)
    H, found = hessians(problem, np.zeros(problem.d)), smoothness(problem)
    np.testing.assert_allclose(np.linalg.norm(H, 2, axis=(1, 2)), found.L_i, rtol=1e-9)
    assert "exact" in found.how["L"]


def test_the_rows_are_kept_once_and_ownership_and_scales_are_told_once_per_feature():
    A, y, clients = rows()
    many, one = ef.softmax(A, y, clients), ef.logistic(A, y == "a", clients)
    assert many.A.nnz == many.lifted.nnz == np.count_nonzero(A)
    assert many.blocks.bytes <= one.A.data.nbytes + 8 * one.A.nnz
    assert many.support.size == CLASSES * one.support.size
    assert ownership_bits(many) == ownership_bits(one)
    assert setup_bits(ef.scaled(many)) == setup_bits(ef.scaled(one))
    assert np.array_equal(ef.scaled(many).scale[::CLASSES], ef.scaled(many).scale[CLASSES - 1 :: CLASSES])


def test_rows_of_numbers_are_gathered_and_added_up_as_single_numbers_are():
    support = ef.softmax(*rows()).support
    plain = ef.Support(indptr=support.indptr, indices=support.indices, d=support.d)
    rng = np.random.default_rng(0)
    x, u = rng.standard_normal(support.d), rng.standard_normal(support.size)
    assert np.array_equal(support.gather(x), plain.gather(x))
    assert np.array_equal(support.scatter(u), plain.scatter(u))


def test_scaling_changes_the_variable_and_nothing_else():
    A, y, clients = rows()
    plain = ef.softmax(A * 10.0 ** np.arange(9), y, clients, intercept=True)
    scaled, x = ef.scaled(plain), np.random.default_rng(0).standard_normal(plain.d)
    assert scaled.value(x / scaled.scale) == pytest.approx(plain.value(x), rel=1e-12)
    assert np.diff(plain.A.indptr).max() >= smoothness(scaled).L


def test_a_scale_in_the_rows_is_a_scale_of_the_variable():
    """Samples, own points and all; and the rows of the data are as they were."""
    A, y, clients = rows()
    plain = ef.softmax(A * 10.0 ** np.arange(9), y, clients)
    scaled, data = ef.scaled(plain), plain.A.data.copy()
    x, sample = np.random.default_rng(0).standard_normal(plain.d), ef.Sample(3, ef.Round(1, 0))
    lifted = plain.support.gather(scaled.scale)
    a, b = np.empty((2, plain.support.size))
    for here, there in (
        (ef.Point(x), ef.Point(scaled.scale * x)),
        (ef.Point(own=plain.support.gather(x)), ef.Point(own=plain.support.gather(scaled.scale * x))),
    ):
        for chosen in (None, sample):
            scaled.gradients(here, a, rows=chosen)
            plain.gradients(there, b, rows=chosen)
            np.testing.assert_allclose(a, lifted * b, rtol=1e-9, atol=1e-12)
    assert np.array_equal(plain.A.data, data)
    penalised = ef.softmax(A, y, clients, regularizer=ef.NonconvexPenalty(0.5))
    assert penalised.stretched(scaled.scale) is None


def test_clients_at_points_of_their_own_and_samples_of_rows():
    problem = ef.softmax(*rows())
    rng = np.random.default_rng(0)
    x = rng.standard_normal(problem.d)
    expected, out, values = problem.gradients_at(x), np.empty(problem.support.size), np.empty(problem.n)
    problem.gradients(ef.Point(own=problem.support.gather(x)), out, values=values)
    np.testing.assert_allclose(out, expected, atol=1e-15)
    np.testing.assert_allclose(values, problem.values_at(x), rtol=1e-14)
    problem.gradients(ef.Point(x), out, rows=ef.Sample(1000, ef.Round(0, 0)), values=values)
    np.testing.assert_allclose(out, expected, atol=1e-14)
    np.testing.assert_allclose(values, problem.values_at(x), rtol=1e-13)
    samples = []
    for t in range(2000):
        problem.gradients(ef.Point(x), out, rows=ef.Sample(3, ef.Round(t, 0)))
        samples.append(out.copy())
    error = np.std(samples, axis=0) / np.sqrt(len(samples))
    assert (np.abs(np.mean(samples, axis=0) - expected) <= 6 * error + 1e-15).all()


def test_a_row_of_weight_two_is_two_rows():
    A, y, clients = rows()
    twice = np.repeat(np.arange(len(y)), 1 + (np.arange(len(y)) % 2))
    weighted = ef.softmax(A, y, clients, sample_weight=1 + (np.arange(len(y)) % 2))
    doubled = ef.softmax(A[twice], y[twice], clients[twice], sample_weight=np.ones(len(twice)))
    x = np.random.default_rng(0).standard_normal(weighted.d)
    np.testing.assert_allclose(weighted.gradients_at(x), doubled.gradients_at(x), atol=1e-15)


def test_classes_may_be_named_that_no_row_has():
    A, y, clients = rows()
    problem = ef.softmax(A, y, clients, classes=["d", "c", "b", "a", "never"])
    assert problem.loss.outputs == 5
    assert problem.value(np.zeros(problem.width)) == pytest.approx(np.log(5))
    assert np.bincount(problem.target.astype(int), minlength=5).tolist() == [sum(y == name) for name in [*"dcba", "never"]]


def test_a_target_that_is_no_class_is_refused_also_in_a_checkpoint():
    A, y, clients = rows()
    problem = ef.softmax(A, y, clients)
    check_problem(problem)
    for wrong in (CLASSES, -1.0, 0.5):
        problem.target[5] = wrong
        with pytest.raises(ValueError, match=r"b\[5\] = .*; classes are numbered from 0 to 3"):
            check_problem(problem)


BAD = {
    "y has one class only": lambda: ef.softmax(np.eye(2), ["a", "a"], 2),
    r"y\[1\] is nan": lambda: ef.softmax(np.eye(2), [1.0, np.nan], 2),
    "y has the value c, which is none of the classes a, b": lambda: ef.softmax(np.eye(2), ["a", "c"], 2, classes=["a", "b"]),
    r"b\[1\] = 3; classes are numbered from 0 to 2": lambda: ef.glm(np.eye(2), [0, 3], 2, ef.Softmax(outputs=3)),
    "outputs = 1; there must be at least 2 classes": lambda: ef.Softmax(outputs=1),
    "outputs = 2.0; a model says": lambda: ef.Softmax(outputs=2.0),
    "Softmax claims a curvature of at most 0.49, but": lambda: ef.glm(
        np.eye(2), [0, 1], 2, ef.Softmax(outputs=3, curvature=0.49)
    ),
    "OneAgainstRest claims a curvature of at most 0.2, but": lambda: ef.glm(
        np.eye(2), [0, 1], 2, ef.OneAgainstRest(outputs=3, curvature=0.2)
    ),
    "x has shape": lambda: ef.softmax(np.eye(2), [0, 1], 2).value(np.ones(2)),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_input_names_the_value_and_the_rule(message):
    with pytest.raises(ValueError, match=message):
        BAD[message]()
