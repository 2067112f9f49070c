"""How sure a constant of Lanczos is (docs/theory.md, section 5): with theta, rho, sigma of its top Ritz pair,
lambda_max > theta + eta implies |<q, v>| <= sigma rho/eta for the start v and the top eigenvector q; and nobody who knows
the code can choose data that hide q from v, because v is drawn from a hash of them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from theory.instances import Dense

from errorfeedback.keyed import uniforms
from errorfeedback.smoothness import clients, constants, spectrum
from errorfeedback.smoothness.constants import Smoothness, smoothness


def ritz_pairs(H: np.ndarray, v: np.ndarray, steps: int) -> Iterator[tuple[float, float, float]]:
    """theta, rho, sigma after 1, 2, ... steps of Lanczos, each orthogonalised in full."""
    basis: list[np.ndarray] = [v / np.linalg.norm(v)]
    diagonal: list[float] = []
    off: list[float] = []
    for _ in range(steps):
        w = H @ basis[-1]
        diagonal.append(float(w @ basis[-1]))
        for _ in range(2):
            w -= np.array(basis).T @ (np.array(basis) @ w)
        beta = float(np.linalg.norm(w))
        yield spectrum.ritz(diagonal, off, beta)
        off.append(beta)
        basis.append(w / beta)


@pytest.mark.parametrize("seed", range(20))
def test_a_top_eigenvalue_that_is_not_seen_needs_a_start_that_does_not_see_it(seed: int) -> None:
    rng = np.random.default_rng(seed)
    H = np.diag(np.append(rng.uniform(0, 1, 29), 1 + rng.uniform(0, 1)))
    v = rng.standard_normal(30)
    v[-1] *= 10.0 ** rng.uniform(-8, 0)  # hidden, more or less
    v /= np.linalg.norm(v)
    for theta, rho, sigma in ritz_pairs(H, v, 12):
        assert abs(v[-1]) * (H[-1, -1] - theta) <= sigma * rho * (1 + 1e-6) + 1e-14


def test_tight_two_eigenvalues_and_one_step() -> None:
    """v = (s, c): rho = (l1 - l2) s c and l1 - theta = (l1 - l2) s^2, so the part c is sigma rho/(l1 - theta) times s."""
    c = 1e-3
    (theta, rho, sigma), *_ = ritz_pairs(np.diag([1.0, 3.0]), np.array([np.sqrt(1 - c**2), c]), 1)
    assert 0.999 * sigma * rho / (3.0 - theta) <= c <= sigma * rho / (3.0 - theta), "one percent less would be refuted"


def test_the_probability_is_a_bound_and_not_by_orders_of_magnitude() -> None:
    """1,000 starts, d = 30, 3 steps: how often is lambda_max above theta + sqrt(2d/pi) sigma rho/p?"""
    d, p, above = 30, 0.2, 0
    H = np.diag(np.append(np.linspace(0, 1, d - 1), 4.0))
    rng = np.random.default_rng(0)
    for _ in range(1000):
        *_, (theta, rho, sigma) = ritz_pairs(H, rng.standard_normal(d), 3)
        eta = np.sqrt(2 * d / np.pi) * sigma * rho / p
        spectrum_says = spectrum.chance(np.sqrt(2 * d / np.pi), theta, rho, sigma, eta / theta / spectrum.MIXED)
        assert spectrum_says == pytest.approx(p)
        above += bool(theta + eta < 4.0)
    assert p / 200 <= above / 1000 <= p


@pytest.mark.parametrize("kind", ["normal", "uniform"])
def test_a_start_has_a_small_part_along_any_direction_with_that_probability(kind: str) -> None:
    """sqrt(2d/pi) tau on the sphere, sqrt(2d) tau from the cube; the first is attained as tau goes to 0."""
    d, tau, rng = 20, 0.02, np.random.default_rng(1)
    starts = rng.standard_normal((100_000, d)) if kind == "normal" else rng.random((100_000, d)) - 0.5
    starts /= np.linalg.norm(starts, axis=1)[:, None]
    density = np.sqrt(2 * d / np.pi) if kind == "normal" else np.sqrt(2 * d)
    for q in (np.eye(d)[0], np.full(d, d**-0.5), rng.standard_normal(d)):
        share = float(np.mean(np.abs(starts @ q) / np.linalg.norm(q) <= tau))
        assert share <= density * tau * 1.03  # 3 deviations of the count
        assert kind == "uniform" or share >= 0.9 * density * tau


def hidden_from(starts: list[np.ndarray]) -> Dense:
    """One client whose Hessian has the eigenvalues 1.10, 1.005 and many below 0.5, the first along a vector that none of the
    starts has a part of."""
    d, rng = len(starts[0]), np.random.default_rng(3)
    basis = np.linalg.qr(np.column_stack([*starts, rng.standard_normal((d, d - len(starts)))]))[0]
    top, seen = basis[:, -1], np.linalg.qr(basis[:, :-1])[0] @ np.linalg.qr(rng.standard_normal((d - 1, d - 1)))[0]
    values = np.append(rng.uniform(0.1, 0.5, d - 2), 1.005)
    rows = np.vstack([np.sqrt(values)[:, None] * seen.T, np.sqrt(1.10) * top])
    return Dense([np.sqrt(d / 2) * rows], [np.zeros(d)])


def known_starts(d: int, key: int) -> list[np.ndarray]:
    """What Lanczos starts from, for one who knows the key."""
    uniform = np.empty(d)
    uniforms(spectrum.SEED, 0, key, uniform)
    return [np.random.default_rng([spectrum.SEED, key]).standard_normal(d), uniform - 0.5]


def found(instance: Dense) -> Smoothness:
    constants_ = smoothness(instance.problem())
    assert "Lanczos" in constants_.how["L"]
    return constants_


def test_an_adversary_who_knows_the_code_cannot_hide_an_eigenvalue() -> None:
    instance = hidden_from([*known_starts(300, 0), np.random.default_rng(spectrum.SEED).standard_normal(300)])
    for value in (found(instance).L, float(found(instance).L_i[0]), found(instance).L_plus):
        assert 1.10 * (1 - 1e-14) <= value <= 1.10 * (1 + 1e-9)


def test_negative_control_a_start_that_is_known_beforehand_is_fooled(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (constants, clients):
        monkeypatch.setattr(module, "key_of", lambda *data: 0)
    instance = hidden_from(known_starts(300, 0))
    for value in (found(instance).L, float(found(instance).L_i[0]), found(instance).L_plus):
        assert value == pytest.approx(1.005, rel=1e-6)


def test_every_number_of_the_data_changes_the_start() -> None:
    def keys(A: np.ndarray, b: np.ndarray) -> set[int]:
        problem = Dense([A], [b]).problem()
        return {smoothness(problem).key, clients._key(problem.curvature(), problem.support, 0)}

    A = np.random.default_rng(0).standard_normal((4, 5))
    other, empty = A.copy(), A.copy()
    other[3, 4] = np.nextafter(other[3, 4], 9.0)
    empty[0, 0] = 0.0
    seen = [keys(A, np.ones(4)), keys(other, np.ones(4)), keys(empty, np.ones(4)), keys(A[:3], np.ones(3))]
    assert len(set.union(*seen)) == 8
    assert keys(A.copy(), np.zeros(4)) == seen[0], "the targets are no part of the curvature"


def test_a_client_has_the_same_start_in_every_shard() -> None:
    rng = np.random.default_rng(0)
    problem = Dense([rng.standard_normal((3, 6)) for _ in range(4)], [np.ones(3)] * 4).problem()
    shard = problem.shard(2, 4)
    for i in (2, 3):
        whole = clients._key(problem.curvature(), problem.support, i)
        assert clients._key(shard.curvature(), shard.support, i - 2) == whole


def test_the_hash_tells_where_one_array_ends() -> None:
    a, b = np.array([1, 2, 3]), np.array([1.0])
    assert spectrum.key_of(a[:2], a[2:], b) != spectrum.key_of(a[:1], a[1:], b)
    assert spectrum.key_of(a.astype(np.int32), b) == spectrum.key_of(a, b), "the same numbers, however wide"
