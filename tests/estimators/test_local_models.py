"""A start from the clients' own models: what is said in `estimators.local_models`, literally, client by client."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from own_models import L2, LOSSES, Own, learning

import errorfeedback as ef
from errorfeedback.estimators import local_models
from errorfeedback.estimators.local_models import averaged, averaged_with_all
from errorfeedback.problems import local_fits
from errorfeedback.problems.conversation import Side, heard_by
from errorfeedback.problems.scaling import curvatures
from errorfeedback.wire.codebook import MENU

N, D = 6, 5
SIZES = (12, 30, 16, 21, 40, 2)


SPEAK = (0, 1, 2, 4)
"""Client 3 learns too little, and client 5 has one target."""


def table(seed=139):
    """Rows of one kind, dealt to clients of unlike sizes; feature 3 is rare, feature 4 in other units."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((sum(SIZES), D)) * [1.0, 1.0, 1.0, 1.0, 40.0]
    A[rng.random(len(A)) < 0.7, 3] = 0.0
    A[-2:, 3] = 1.0
    z = A @ [2.0, -2.0, 1.0, 3.0, 0.02]
    y = np.where(rng.random(len(A)) < 1 / (1 + np.exp(-z)), 1.0, -1.0)
    y[-2:] = 1.0
    return A, y, np.repeat(np.arange(N), SIZES)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", LOSSES)
def test_it_is_the_mean_of_own_models_weighted_by_how_sharply_losses_bend(name, weighted, exactly, monkeypatch):
    monkeypatch.setattr(local_models, "WORDS", MENU[-1])
    A, y, clients = table()
    make = {"logistic": ef.logistic, "squared": ef.least_squares}[name]
    rows = make(A, y, clients, sample_weight=np.ones(len(y)) if weighted else None)
    pulls, bends, priors = np.zeros(D), np.zeros(D), set()
    for i in range(N - 1):
        own = Own(A[clients == i], y[clients == i], name, N * SIZES[i] / len(y) if weighted else 1.0)
        assert (own.kept >= 1 / 3) == (i in SPEAK)
        if i not in SPEAK:
            continue
        priors.add(own.prior)
        w, H = own.model()
        told = 2.0 ** np.rint(np.log2(own.weight * own.h))
        H = told * 2.0 ** np.clip(np.rint(np.log2(H / told)), -7, 0)
        pulls, bends = pulls + H * w, bends + H
    assert priors == {1 / 3, 10 / 3}
    found = averaged(rows, L2)
    np.testing.assert_allclose(found.x, pulls / bends, rtol=3e-3)  # 9 digits are said of w
    assert found.zero == pytest.approx(np.mean(rows.values_at(np.zeros(D))), rel=1e-6)


def test_what_clients_say_is_counted():
    A, y, clients = table()
    sizes = [len(np.flatnonzero(A[clients == i].any(axis=0))) for i in SPEAK]
    assert averaged(ef.logistic(A, y, clients), L2).bits == N * (32 + 32 + 1) + sum(16 + 11 * size for size in sizes)


def test_a_run_begins_there_to_ten_bits():
    A, y, clients = table()
    rows = ef.logistic(A, y, clients)
    mean, scaling = averaged(rows, L2), ef.scaled(rows, power=None, l2=L2)
    begin, z = mean.begin(scaling), mean.x / scaling.scale
    ten = next(coding for coding in MENU if coding.each == 10)
    assert np.array_equal(ten.rounded(begin.x, np.array([D]))[0], begin.x)
    np.testing.assert_allclose(begin.x, z, rtol=0.05)
    assert not np.allclose(begin.x, z, rtol=1e-4)


@pytest.mark.parametrize(("share", "speaks"), [(0.336, True), (0.330, False)])
def test_who_keeps_less_than_a_third_of_its_gain_on_other_rows_says_nothing(share, speaks, exactly):
    """A weaker or a stronger signal in the same noise."""
    A, _, clients = table()
    noise = np.random.default_rng(5).standard_normal(len(A))

    def one(signal):
        y = signal * A[:, 0] + noise
        return y, Own(A[clients == 1], y[clients == 1], "squared")

    lo, hi = 0.0, 3.0
    assert one(lo)[1].kept < share < one(hi)[1].kept
    for _ in range(60):
        middle = (lo + hi) / 2
        lo, hi = (middle, hi) if one(middle)[1].kept < share else (lo, middle)
    y, own = one(hi)
    assert own.kept == pytest.approx(share, rel=1e-6)
    rows = ef.least_squares(A, y, clients)
    assert learning(rows)[1] == speaks


def test_who_learns_nothing_or_has_one_target_says_nothing():
    A, y, clients = table()
    full = averaged(ef.logistic(A, y, clients), L2)
    y[clients == 1] = 1.0
    without = averaged(ef.logistic(A, y, clients), L2)
    kept = clients != 1
    again = averaged(ef.logistic(A[kept], y[kept], clients[kept]), L2)
    assert not np.allclose(full.x, without.x, rtol=1e-3)
    np.testing.assert_allclose(without.x, again.x, rtol=1e-12)
    y[clients == 2] = -1.0
    silent = averaged(ef.logistic(A, y, clients), L2)  # two of six speak
    assert not silent.x.any()
    assert silent.bits == N * 65 + 2 * (16 + 11 * D)
    model = ef.EF21Classifier(l2=L2).fit(A, y, groups=clients)
    zero = ef.EF21Classifier(l2=L2, warm_start=True)
    zero.coef_, zero.intercept_ = np.zeros((1, D)), np.zeros(1)
    assert np.array_equal(model.coef_, zero.fit(A, y, groups=clients).coef_)  # nothing but the bits is different


def test_a_client_that_stays_at_zero_says_nothing():
    """One row, as often with either label in both halves."""
    A, y, clients = table()
    A[clients == 2], y[clients == 2] = 1.0, np.tile([1.0, -1.0], 8)
    assert np.flatnonzero(learning(ef.logistic(A, y, clients))).tolist() == [0, 1, 4]


def test_a_client_of_no_weight_says_nothing():
    A, y, clients = table()
    rows = ef.logistic(A, y, clients, sample_weight=np.where(clients == 2, 0.0, 1.0))
    with np.errstate(invalid="ignore", divide="ignore"):
        assert np.flatnonzero(learning(rows)).tolist() == [0, 1, 4]
    x = averaged(rows, L2).x
    assert np.isfinite(x).all()
    assert x.any()


def like_rows(n=4, m=200, weights=None, order=None):
    rng = np.random.default_rng(2)
    A = rng.standard_normal((n * m, D))
    y = np.where(rng.random(n * m) < 1 / (1 + np.exp(-A @ [2.0, -1.0, 1.0, 0.0, 1.0])), 1.0, -1.0)
    order = np.arange(n * m) if order is None else order(y.reshape(n, m))
    return ef.logistic(A[order], y[order], np.repeat(np.arange(n), m), sample_weight=weights)


def test_halves_that_weigh_differently_and_labels_that_alternate_keep_nobody_from_speaking():
    heavy = np.where(np.arange(800) % 2 == 0, 9.0, 1.0)

    def alternating(y):
        """Rows of the two labels in turn, as long as there are both."""
        return np.concatenate(
            [i * 200 + np.argsort(np.argsort(np.argsort(-row)) % 100, kind="stable") for i, row in enumerate(y)]
        )

    for rows in (like_rows(), like_rows(weights=heavy), like_rows(weights=heavy[::-1]), like_rows(order=alternating)):
        assert learning(rows).all()


def test_half_of_all_is_enough_whatever_rounding_says():
    """Two clients, of which one speaks: m_1 times 1/m_1 may be a little less than 1."""
    rng = np.random.default_rng(0)
    sizes = range(100, 140)
    for m in sizes:
        A = rng.standard_normal((m + 70, D))
        y = np.where(np.arange(m + 70) < m, np.sign(A @ [3.0, -2.0, 1.0, 0.0, 1.0]), 1.0)  # the second has one target
        assert averaged(ef.logistic(A, y, np.where(np.arange(m + 70) < m, 0, 1)), L2).x.any()
    assert any(np.full(m, 1 / m).sum() < np.full(70, 1 / 70).sum() for m in sizes)


@pytest.mark.parametrize("size", [1e20, 1e-25])
def test_a_loss_of_zero_that_no_32_bits_hold_is_not_what_progress_is_counted_from(size):
    A, _, clients = table()
    rows = ef.least_squares(A, size * (A @ np.ones(D)), clients)
    assert np.isnan(averaged(rows).begin(ef.scaled(rows, power=None)).since)


def test_a_start_beyond_a_float_is_zero():
    A, y, clients = table()
    rows = ef.logistic(A * [1e19, 1.0, 1.0, 1.0, 1.0], y, clients, dtype=np.float32)
    assert np.isfinite(averaged(rows).begin(ef.scaled(rows, power=None)).x).all()


def tried(rows):
    fits = local_fits.LocalFits(rows)
    penalty = rows.support.repeat(np.full(rows.n, L2))
    row = local_models._units(rows, curvatures(rows)) / rows.support.repeat(np.diff(rows.rows))
    return fits, penalty, row, local_models._tried(fits, penalty, row)


@pytest.mark.parametrize("name", LOSSES)
def test_one_half_of_the_rows_predicts_the_other_one(name, exactly):
    A, y, clients = table()
    *_, trial = tried({"logistic": ef.logistic, "squared": ef.least_squares}[name](A, y, clients))
    for i in range(N - 1):
        prior, gain, own_gain = Own(A[clients == i], y[clients == i], name).tried()
        assert trial.prior[i] == prior
        np.testing.assert_allclose([trial.gain[i], trial.own_gain[i]], [gain, own_gain], rtol=1e-6)


def test_a_fit_is_solved_to_three_thousandths_of_its_luck():
    """What another Newton step would still gain, beside what the model is better by on its own half than on the other."""
    A, y, clients = table()
    rows = ef.logistic(A, y, clients)
    fits, penalty, row, trial = tried(rows)
    luck = trial.own_gain - trial.gain
    np.testing.assert_allclose(trial.enough, 0.003 * np.maximum(luck, 0.003 * trial.own_gain), rtol=1e-12)
    whole = penalty + rows.support.repeat(trial.prior / 3) * row
    everybody, best = np.ones(N, dtype=bool), []
    for enough in (trial.enough, np.zeros(N)):
        w, z = fits.minima(rows.shares, whole, trial.model, 30, enough, everybody)
        best.append(fits.values(rows.shares, whole, w, z))
    assert (best[0] - best[1] <= trial.enough).all()
    assert (best[0] > best[1]).any()


@pytest.mark.parametrize(("share", "steps"), [(1.02, 3), (0.98, 4)])
def test_a_fit_ends_with_the_step_that_was_to_gain_no_more_than_is_enough(share, steps):
    A, y, clients = table()
    rows = ef.logistic(A, y, clients)
    fits, everybody = local_fits.LocalFits(rows), np.ones(N, dtype=bool)
    start, penalty = np.zeros(rows.support.size), np.full(rows.support.size, 0.05)

    def after(steps, enough=0.0):
        return fits.minima(rows.shares, penalty, start, steps, np.full(N, enough), everybody)

    w, z = after(2)
    _, _, slope = fits._newton_step(rows.shares, penalty, w, z, everybody, ~everybody)
    promised = -slope / 2  # by the third step of every client
    found = fits.minima(rows.shares, penalty, start, 8, share * promised, everybody)[0]
    for i, own in enumerate(np.split(found, rows.support.indptr[1:-1])):
        ends = [np.split(after(count)[0], rows.support.indptr[1:-1])[i].tobytes() for count in (3, 4)]
        assert ends[0] != ends[1]
        assert own.tobytes() == ends[steps - 3]


def test_a_client_finds_what_it_would_find_alone():
    """Among others that need fewer steps, or shorter ones: they begin where the losses of long rows are nearly straight."""
    A, y, clients = table()
    rows = ef.logistic(A * 10.0 ** (clients[:, None] - 3.0), y, clients)
    several = set()
    for steps in range(1, 8):
        alone = []
        for part in [rows, *(rows.shard(i, i + 1) for i in range(N))]:
            s = part.support
            start, penalty = np.ones(s.size), np.full(s.size, 1e-3)
            found = local_fits.LocalFits(part).minima(
                part.shares, penalty, start, steps, np.full(part.n, 1e-4), np.ones(part.n, dtype=bool)
            )
            alone.append(found[0])
        together, each = alone[0], alone[1:]
        assert np.concatenate(each).tobytes() == together.tobytes()
        several |= {(i, w.tobytes()) for i, w in enumerate(each)}
    counts = np.bincount([i for i, _ in several])
    assert counts.min() < counts.max()  # steps until a client is there


def test_it_is_the_same_wherever_the_clients_are():
    """Three places with clients of their own, bit for bit."""
    A, y, clients = table()
    whole = ef.logistic(A, y, clients, sample_weight=np.ones(len(y)))
    expected = averaged(whole, L2)
    cuts = [0, 1, 4, N]
    sides = [Side(averaged_with_all(whole.shard(lo, hi), L2)) for lo, hi in pairwise(cuts)]
    said = None
    while not sides[0].ended:
        for k, side in enumerate(sides):
            side.hear(None if said is None else heard_by(k, said))
        said = [side.says for side in sides]
    for side in sides:
        assert side.result.x.tobytes() == expected.x.tobytes()
        here = side.result
        assert (here.zero, here.bits) == (expected.zero, expected.bits)


def test_a_model_begins_there_and_gets_to_the_same_minimum_in_fewer_bytes():
    rng = np.random.default_rng(1)
    A = rng.standard_normal((3000, 20)) * (rng.random((3000, 20)) < 0.5)
    y = rng.random(3000) < 1 / (1 + np.exp(-A @ rng.standard_normal(20)))
    model = ef.EF21Classifier(n_clients=10, l2=1e-3).fit(A, y)
    zero = ef.EF21Classifier(n_clients=10, l2=1e-3)
    objective = zero.objective(A, y)
    zero.warm_start, zero.coef_, zero.intercept_ = True, np.zeros((1, 20)), np.zeros(1)
    zero.fit(A, y)
    f, f0 = model.history_["f"], zero.history_["f"]
    least = min(f.min(), f0.min())
    assert f0[0] == pytest.approx(np.log(2)) == objective.begin.since
    assert f[0] - least < 0.01 * (np.log(2) - least)
    assert model.loss_ == pytest.approx(zero.loss_, abs=1e-6)
    to = [next(k for k, each in enumerate(curve) if each <= least + 1e-3 * (np.log(2) - least)) for curve in (f, f0)]
    bits = [
        run.history_["uplink_bits"][k] + run.history_["downlink_bits"][k] for run, k in zip((model, zero), to, strict=True)
    ]
    assert bits[0] < 0.9 * bits[1]
    assert "from the mean of the clients' own models" in model.choice_
    assert "own models" not in zero.choice_
    assert "only where progress is slow" in zero.choice_
    again = ef.EF21Classifier(n_clients=100, l2=1e-3, own_models=False, warm_start=True)
    again.coef_, again.intercept_, again.classes_ = model.coef_, model.intercept_, model.classes_
    again.fit(A, y)
    assert again.history_["curvature_bits"][0] > 0
    assert "at the start and where progress is slow" in again.choice_  # which is a model
    assert model.before_.own_model == objective.begin.bits / 8 / 10
    assert zero.before_.own_model == 0.0


def test_l1_topk_and_who_does_not_want_it_begin_at_zero():
    A, y, clients = table()
    for options in ({"l1": 0.01}, {"k": 1}, {"scale": False}, {"own_models": False}):
        assert ef.EF21Classifier(**options).objective(A, y, groups=clients).begin is None
