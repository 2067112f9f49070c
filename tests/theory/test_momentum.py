"""The theorem of RareMomentum (docs/theory.md, section 17): for EF21-SGDM with its gamma,
E Psi+ <= Psi - (gamma/2)||grad f(x)||^2 + N (1/n) sum_i sigma_i^2, in every state, and for no larger gamma or other weight.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import pytest
from theory.instances import node_at
from theory_problems import random_problem

import errorfeedback as ef
from errorfeedback.core import Round
from errorfeedback.keyed import sampled_rows
from errorfeedback.stepsizes.proved import largest_root

ETAS = (0.02, 0.3, 0.9)


@dataclass(frozen=True, eq=False)
class Linear:
    """A quadratic, and the compressor (1 - sqrt(1 - alpha)) v, which attains the contraction at every v: a round is linear
    in the state (grad f, all P_i, all Q_i), and the change of Psi without noise is a quadratic form in it."""

    H: list[np.ndarray]
    """Every client's Hessian, on R^d."""
    alpha: float
    eta: float
    owned: np.ndarray
    """(n, d)."""

    def matrix(self, weights):
        """Psi+ - Psi + (gamma/2)||grad f||^2."""
        n, d = self.owned.shape
        own = [np.eye(d)[J] for J in self.owned]
        ends = np.cumsum([d, *([len(J) for J in own] * 2)])
        grad, *parts = np.split(np.eye(ends[-1]), ends[:-1])
        P, Q = ([J.T @ part for J, part in zip(own, each, strict=True)] for each in (parts[:n], parts[n:]))
        step = -weights.gamma * (grad + sum(P) / n + sum(Q) / n)
        D = [H @ step for H in self.H]
        Q_new = [(1 - self.eta) * (Q[i] - D[i]) for i in range(n)]
        P_new = [np.sqrt(1 - self.alpha) * (self.eta * (D[i] - Q[i]) - P[i]) for i in range(n)]
        change = grad.T @ step + step.T @ (sum(self.H) / n) @ step / 2 + weights.gamma / 2 * grad.T @ grad
        change += weights.of_mean * (square(sum(Q_new) / n) - square(sum(Q) / n))
        for i in range(n):
            change += weights.of_unsent / n * (square(P_new[i]) - square(P[i]))
            change += weights.of_momentum / n * (square(Q_new[i]) - square(Q[i]))
        return (change + change.T) / 2

    def rise(self, weights):
        """The largest eigenvalue, in units of the smallest weight that matters."""
        return np.linalg.eigvalsh(self.matrix(weights))[-1] / weights.gamma


def square(u):
    return u.T @ u


def proof_with(theory, eta, factor=1.0):
    """The proof of a gamma that is larger by that factor: all weights are proportional to it."""
    proof = ef.RareMomentum().proof_of(theory, eta)
    return proof.__class__(*(factor * getattr(proof, f) for f in proof.__dataclass_fields__))


def linear(problem, theory, eta):
    A, support = problem.A.toarray(), problem.support
    H = [2 * square(A[lo:hi]) / (hi - lo) for lo, hi in zip(problem.rows[:-1], problem.rows[1:], strict=True)]
    owned = np.array([np.isin(np.arange(problem.d), support.features(i)) for i in range(problem.n)])
    return Linear(H, theory.alpha, eta, owned)


@pytest.mark.parametrize("eta", ETAS)
@pytest.mark.parametrize("sharing", ["none", "some", "all"])
@pytest.mark.parametrize("seed", range(4))
def test_psi_falls_from_every_state_of_random_quadratics(seed, sharing, eta):
    problem = random_problem("least squares", seed, sharing)
    theory = ef.analyse(problem, ef.TopK(1))
    assert linear(problem, theory, eta).rise(proof_with(theory, eta)) <= 1e-9


def shared_feature(n=1, rows=1, features=2):
    """Clients with the same Hessian L along (1, ..., 1) and nothing across: all inequalities of the proof are equalities."""
    rng = np.random.default_rng(1)
    return ef.least_squares(np.ones((n * rows, features)), rng.standard_normal(n * rows), clients=n)


WEIGHTS = ("of_mean", "of_unsent", "of_momentum")


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("eta", ETAS)
def test_tight_no_larger_gamma_and_no_other_weight_will_do(n, eta):
    problem = shared_feature(n)
    theory = ef.analyse(problem, ef.TopK(1))
    case, proof = linear(problem, theory, eta), proof_with(theory, eta)
    assert case.rise(proof) <= 1e-9
    assert case.rise(proof_with(theory, eta, 1.01)) > 1e-6
    for weight in WEIGHTS:
        for factor in (0.97, 1.03):
            assert case.rise(replace(proof, **{weight: factor * getattr(proof, weight)})) > 1e-9, (weight, factor)


@pytest.mark.parametrize("eta", ETAS)
def test_gamma_is_at_least_that_of_the_two_terms_and_theorem_1s_without_momentum(eta):
    theory = ef.analyse(ef.synthetic(n=10, d=40, m=5, c=4), ef.TopK(1))
    q = theory.L_plus * np.sqrt(theory.c / theory.n) * theory.xi
    gamma = ef.RareMomentum().gamma(theory, ef.EF21SGDM(ef.TopK(1), batch=2, eta=eta))
    assert gamma >= 1 / (theory.L / eta + q)
    assert gamma == ef.RareMomentum().proof_of(theory, eta).gamma
    at_one = ef.RareMomentum().gamma(theory, ef.EF21SGDM(ef.TopK(1), eta=1.0))
    assert at_one == largest_root(theory.L, q) >= ef.RareFeatures().gamma(theory)


def every_batch(problem, batch, t):
    """Seeds that draw every combination of the clients' batches, each once: averages over them are expectations."""
    seeds = {}
    for seed in range(20_000):
        chosen, _ = sampled_rows(ef.Sample(batch, Round(t, seed)), problem.rows, 0)
        seeds.setdefault(tuple(chosen), seed)
    return list(seeds.values())


def psi(problem, proof, x, v, g):
    grads, s, n = problem.gradients_at(x), problem.support, problem.n
    Q = s.scatter(v - grads) / n
    unsent, momentum = (s.norms2(each).mean() for each in (g - v, v - grads))
    return problem.value(x) + proof.of_mean * Q @ Q + proof.of_unsent * unsent + proof.of_momentum * momentum


def expected_rise(problem, method, proof, x, v, g, noise):
    """E Psi+ - (Psi - (gamma/2)||grad f||^2 + N mean sigma^2) for the library's clients, over all batches; in units of N."""
    gradient, before = problem.gradient(x), psi(problem, proof, x, v, g)
    x_new = x - proof.gamma * problem.support.scatter(g) / problem.n
    seeds, after = every_batch(problem, method.batch, 1), []
    for seed in seeds:
        _, (v_new, g_new) = method.client((v.copy(), g.copy()), node_at(problem, method, x_new), Round(1, seed))
        after.append(psi(problem, proof, x_new, v_new, g_new))
    assert len(seeds) == 3**problem.n
    sigma2 = ef.sampling_noise(problem, method.batch, x_new).mean()
    return (np.mean(after) - before + proof.gamma / 2 * gradient @ gradient) / (proof.noise * sigma2) - noise


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("eta", ETAS)
def test_tight_in_expectation_over_all_batches(n, eta):
    """TopK(1) attains its contraction on multiples of (1, 1), which is all that there is; the state is the worst one."""
    problem = shared_feature(n, rows=3)
    theory, method = ef.analyse(problem, ef.TopK(1)), ef.EF21SGDM(ef.TopK(1), batch=1, eta=eta)
    proof = ef.RareMomentum().proof_of(theory, eta)
    worst = np.linalg.eigh(linear(problem, theory, eta).matrix(proof))[1][:, -1]
    grad, P, Q = np.split(worst, [2, 2 + 2 * n])
    assert np.allclose(worst[::2], worst[1::2])  # all along (1, 1)
    x0 = np.linalg.lstsq(problem.A.toarray(), problem.target, rcond=None)[0]
    x = x0 + grad / theory.L
    v = problem.gradients_at(x) + Q
    assert abs(expected_rise(problem, method, proof, x, v, v + P, noise=1.0)) < 1e-6
    assert expected_rise(problem, method, proof, x, v, v + P, noise=0.97) > 0.02  # negative control: N three percent less


@pytest.mark.parametrize("sharing", ["none", "some"])
@pytest.mark.parametrize("eta", ETAS)
def test_it_holds_in_expectation_on_random_states(sharing, eta):
    rng = np.random.default_rng(0)
    A = random_problem("least squares", 5, sharing).A.toarray()[:6]
    problem = ef.least_squares(A[:, np.any(A, axis=0)] + 0.0, rng.standard_normal(6), clients=[0, 0, 0, 1, 1, 1])
    theory, method = ef.analyse(problem, ef.TopK(1)), ef.EF21SGDM(ef.TopK(1), batch=1, eta=eta)
    proof = ef.RareMomentum().proof_of(theory, eta)
    for _ in range(5):
        x, v, g = rng.standard_normal(problem.d), *rng.standard_normal((2, problem.support.size))
        assert expected_rise(problem, method, proof, x, v, g, noise=1.0) <= 1e-9


def test_the_bound_holds_on_the_mean_of_many_runs_and_the_best_eta_has_the_least():
    problem = ef.synthetic(n=10, d=20, m=6, c=3)
    theory, rule, rounds = ef.analyse(problem, ef.TopK(2)), ef.RareMomentum(), 300
    x = np.zeros(problem.d)
    sigma2 = ef.sampling_noise(problem, 2, x).mean()
    eta = rule.eta(theory, rounds=rounds, gap=problem.value(x), sigma2=sigma2)
    proof = rule.proof_of(theory, eta)
    for other in (eta / 1.5, min(1.5 * eta, 0.99)):
        assert proof.bound(rounds, problem.value(x), sigma2) <= rule.proof_of(theory, other).bound(
            rounds, problem.value(x), sigma2
        )
    means, starts, noises = [], [], []
    for seed in range(8):
        run = ef.solve(problem, ef.EF21SGDM(ef.TopK(2), batch=2, eta=eta), rule, rounds=rounds, seed=seed)
        means.append(run.history["grad_norm2"][:-1].mean())
        grads = problem.gradients_at(x)
        v = grads.copy()
        problem.gradients(ef.Point(x), v, rows=ef.Sample(2, Round(0, seed)))
        g = ef.TopK(2).on(problem.support)(v.copy(), Round(0, seed)).lifted()
        starts.append(psi(problem, proof, x, v, g))
        noises.append(max(sigma2, ef.sampling_noise(problem, 2, run.x).mean()))
    assert np.mean(means) <= proof.bound(rounds, np.mean(starts), np.max(noises))
    assert run.certificate.verdict == "not applicable"
    assert "theorem in expectation" in run.history.notes[0]


def test_momentum_averages_the_noise_that_ef21_stops_at():
    problem = ef.synthetic(n=10, d=20, m=6, c=3)
    ends = {
        eta: ef.solve(problem, ef.EF21SGDM(ef.TopK(2), batch=1, eta=eta), ef.Constant(0.01), rounds=4000).history[
            "grad_norm2"
        ]
        for eta in (1.0, 0.1)
    }
    assert ends[0.1][2000:].mean() < 0.6 * ends[1.0][2000:].mean()


def test_there_is_no_theorem_for_minibatches_without_momentum():
    problem = ef.synthetic(n=10, d=20, m=6, c=3)
    with pytest.raises(
        ValueError, match="eta = 1 with batch = 2: without momentum the noise of minibatches is not averaged"
    ):
        ef.solve(problem, ef.EF21SGDM(ef.TopK(1), batch=2, eta=1.0), ef.RareMomentum(), rounds=1)
    for rule in (ef.RareFeatures(), ef.Automatic(), ef.Best()):
        with pytest.raises(ValueError, match="has no theorem for EF21SGDM"):
            ef.solve(problem, ef.EF21SGDM(ef.TopK(1), batch=2), rule, rounds=1)
    with pytest.raises(ValueError, match="RareMomentum is a rule for EF21SGDM, and has no theorem for EF14"):
        ef.solve(problem, ef.EF14(ef.TopK(1), batch=2), ef.RareMomentum(), rounds=1)
    with pytest.raises(ValueError, match="eta = 1; the theorem is about momentum"):
        ef.RareMomentum().proof_of(ef.analyse(problem, ef.TopK(1)), 1)


def test_seeds_reach_every_batch():
    """Negative control of the expectation: one client of three rows has three batches, two have nine."""
    problem = shared_feature(2, rows=3)
    drawn = {tuple(sampled_rows(ef.Sample(1, Round(1, seed)), problem.rows, 0)[0]) for seed in every_batch(problem, 1, 1)}
    assert drawn == set(product((0, 1, 2), (3, 4, 5)))
