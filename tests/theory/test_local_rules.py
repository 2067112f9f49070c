"""What is proved about local methods, and what they are."""

from __future__ import annotations

import numpy as np
import pytest
from problem_pairs import pair

import errorfeedback as ef

N, D = 3, 2


def strongly_convex(seed):
    """f_i = x'H_i x/2 - b_i'x of all features, and the H_i."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((N, D, D)) * 10.0 ** rng.uniform(-0.5, 0.5, (N, 1, 1))
    problem = ef.least_squares(rows.reshape(-1, D), rng.standard_normal(N * D), np.repeat(np.arange(N), D))
    return problem, 2 * np.einsum("imk,iml->ikl", rows, rows) / D


def contraction(H, rate, p):
    """The largest E Psi+ / Psi over all states (w_i - x*, h_i - grad f_i(x*)) with sum_i h_i = 0, of one local step."""
    weight = (rate / p) ** 2

    def step(s, meets):
        w, h = s[: N * D].reshape(N, D), s[N * D :].reshape(N, D)
        w = w - rate * (np.einsum("ikl,il->ik", H, w) - h)
        mean = w.mean(axis=0)
        return np.concatenate([np.tile(mean, N), (h + p / rate * (mean - w)).ravel()] if meets else [w.ravel(), h.ravel()])

    size = 2 * N * D
    Q = np.diag(np.concatenate([np.ones(N * D), np.full(N * D, weight)]))
    maps = [np.array([step(unit, meets) for unit in np.eye(size)]).T for meets in (True, False)]
    after = p * maps[0].T @ Q @ maps[0] + (1 - p) * maps[1].T @ Q @ maps[1]
    root = np.sqrt(np.diag(Q))
    spread = np.eye(N * D) - np.kron(np.ones((N, N)) / N, np.eye(D))  # sum_i h_i = 0
    P = np.block([[np.eye(N * D), np.zeros((N * D, N * D))], [np.zeros((N * D, N * D)), spread]])
    return np.linalg.eigvalsh(P @ (after / np.outer(root, root)) @ P).max()


@pytest.mark.parametrize("seed", range(3))
def test_proxskips_theorem_holds_from_every_state(seed):
    problem, H = strongly_convex(seed)
    theory = ef.analyse(problem)
    rate = ef.ScaffnewStep().rate(theory, ef.Scaffnew())
    assert rate == pytest.approx(1 / np.linalg.eigvalsh(H).max(), rel=1e-9)
    mu = np.linalg.eigvalsh(H).min()
    for p in (0.1, np.sqrt(rate * mu), 1.0):
        assert contraction(H, rate, p) <= 1 - min(rate * mu, p**2) + 1e-12
    assert contraction(H, rate, 0.01) == pytest.approx(
        1 - 0.01**2, abs=1e-10
    )  # it is tight in p, and no step of 2/L contracts
    assert contraction(H, 2.05 * rate, 0.1) > 1


def test_scaffnew_finds_the_minimum_beside_which_fedavg_and_fedprox_stop():
    problem, H = strongly_convex(1)
    b = sum(np.split(-problem.gradients_at(np.zeros(D)), N))
    best = np.linalg.solve(H.sum(axis=0), b)
    rate = ef.ScaffnewStep().rate(ef.analyse(problem), ef.Scaffnew())
    options = {"rounds": 1500, "every": 1500}
    for method, rule in (
        (ef.Scaffnew(rate=rate, p=0.3), ef.ScaffnewStep()),
        (ef.SCAFFOLD(rate=rate / 5), ef.Averaging()),
    ):
        assert np.abs(ef.solve(problem, method, rule, **options).x - best).max() < 1e-8
    for method in (ef.FedAvg(rate=rate / 2), ef.FedProx(rate=rate / 2, mu=0.5 / rate)):
        assert np.abs(ef.solve(problem, method, ef.Averaging(), **options).x - best).max() > 1e-3


def test_scaffolds_step_is_its_theorems_and_its_rate_at_most_a_share_of_it():
    problem = pair(n=6, d=14, fill=0.3)[0]
    theory = ef.analyse(problem)
    gamma = 1 / (24 * theory.L_max)
    method = ef.SCAFFOLD(steps=4, rate=gamma / 4)
    result = ef.solve(problem, method, ef.ScaffoldStep(), rounds=300, x0=np.ones(14))
    assert result.history["gamma"][0] == pytest.approx(gamma, rel=1e-12)
    assert (np.diff(result.history["f"]) < 0).all()
    with pytest.raises(ValueError, match="the theorem of ScaffoldStep needs at most"):
        ef.solve(problem, ef.SCAFFOLD(steps=4, rate=1.03 * gamma / 4), ef.ScaffoldStep(), rounds=1)
    with pytest.raises(ValueError, match="the theorem of ScaffnewStep needs at most"):
        ef.solve(problem, ef.Scaffnew(rate=1.03 / theory.L_max), ef.ScaffnewStep(), rounds=1)


def test_without_a_rate_clients_have_one_that_their_curvature_allows():
    problem = pair(n=6, d=14, fill=0.3)[0]
    L_max = ef.analyse(problem).L_max
    for method, rate in (
        (ef.FedAvg(), 1 / L_max),
        (ef.FedProx(mu=3.0), 1 / (L_max + 3)),
        (ef.Scaffnew(), 1 / L_max),
        (ef.SCAFFOLD(steps=4), 1 / (96 * L_max)),
    ):
        result = ef.solve(problem, method, ef.Averaging(), rounds=50, x0=np.ones(14))
        assert result.method.rate == pytest.approx(rate, rel=1e-12)
        assert result.history["f"][-1] < result.history["f"][0]
    ef.solve(problem, ef.SCAFFOLD(), ef.ScaffoldStep(), rounds=1)
    ef.solve(problem, ef.Scaffnew(), ef.ScaffnewStep(), rounds=1)
    with pytest.raises(ValueError, match="FedAvg needs a rate where nothing bounds"):
        ef.solve(ef.autoencoder(np.eye(6), clients=2, code=2), ef.FedAvg(), ef.Constant(0.1), rounds=1)


def test_averaging_is_the_mean_of_the_clients_models():
    problem = pair(n=4, d=5, fill=1.0)[0]
    x, rate, steps = np.ones(5), 0.01, 3
    models = []
    for i in range(4):
        w, client = x, problem.shard(i, i + 1)
        for _ in range(steps):
            w = w - rate * client.gradients_at(w)
        models.append(w)
    run = ef.solve(problem, ef.FedAvg(steps=steps, rate=rate), ef.Averaging(), rounds=1, x0=x)
    np.testing.assert_allclose(run.x, np.mean(models, axis=0), rtol=1e-13)


REFUSED = {
    "needs a lossless downlink|they need a lossless downlink": {"downlink": ef.Compressed(ef.TopK(1))},
    "no proximal term after it|proximal term": {"prox": ef.ElasticNet(l2=0.1)},
    "use ef.Steepest": {"direction": ef.LBFGS()},
}


@pytest.mark.parametrize("why", REFUSED)
@pytest.mark.parametrize("method", [ef.SCAFFOLD(), ef.Scaffnew()], ids=str)
def test_clients_that_read_steps_must_see_them(method, why):
    with pytest.raises(ValueError, match=why):
        ef.solve(pair()[0], method, ef.Constant(0.01), rounds=1, **REFUSED[why])
