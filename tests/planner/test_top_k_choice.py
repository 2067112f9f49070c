"""K where nobody names it: from how common features are, and from what a round costs on the links."""

from __future__ import annotations

import numpy as np
import pytest

import errorfeedback as ef
from errorfeedback.planner.recipe import Tariff
from errorfeedback.planner.top_k_choice import FRESH, LAG, chosen_top_k, commonness, price_of_a_round, share_for
from errorfeedback.sparsity.support import Support, full_support

COMMON = full_support(20, 50)
RARE = Support(indptr=50 * np.arange(21), indices=np.arange(1000), d=1000)  # every feature has one owner
SLOW, FAST = ef.Network("1Mbit/s", "10Mbit/s", "50ms"), ef.Network("1kbit/s", "10kbit/s", 0.0)


def test_commonness_is_the_mean_share_of_owners_over_entries():
    support = Support(indptr=np.array([0, 2, 3]), indices=np.array([0, 1, 1]), d=2)
    assert commonness(support) == pytest.approx((1 / 2 + 1 + 1) / 3)
    assert (commonness(COMMON), commonness(RARE)) == (1.0, 1 / 20)


def test_the_price_of_a_round_is_in_messages_with_all_numbers():
    """Bytes: 112 bits of heads up, 50 and 5 a number down, against 64 a number; time: the round trip beside it."""
    assert price_of_a_round(COMMON, Tariff(None)) == pytest.approx((112 + 50 + 5 * 50) / (64 * 50))
    chosen = chosen_top_k(COMMON, [SLOW] * 20, smooth=True)
    seconds = 0.1 + 112 / 1e6 + (50 + 5 * 50) / 1e7
    assert f"as {seconds / (64 * 50 / 1e6):.2g} messages" in chosen.why


def test_common_features_keep_their_lag_and_rare_ones_are_sent_sooner_where_rounds_are_dear():
    shares = {
        (name, link): chosen_top_k(support, None if link is None else [link] * 20, smooth=True).method.compressor.share
        for name, support in (("common", COMMON), ("rare", RARE))
        for link in (None, SLOW, FAST)
    }
    assert {shares["common", link] for link in (None, SLOW, FAST)} == {LAG}
    assert LAG < shares["rare", FAST] < shares["rare", SLOW] < FRESH
    assert share_for(0.0, 1e9) == FRESH


def test_zeros_of_an_l1_penalty_are_exact():
    assert chosen_top_k(RARE, None, smooth=True).downlink == ef.FittedStep()
    assert chosen_top_k(RARE, None, smooth=False).downlink == ef.Changed()


def test_an_estimator_that_leaves_k_to_us_says_what_it_took():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((120, 12)) * (rng.random((120, 12)) < 0.5)
    y = A @ rng.standard_normal(12) > 0
    model = ef.EF21Classifier(n_clients=6, k="auto", l2=1e-2, max_iter=300).fit(A, y)
    best = ef.EF21Classifier(n_clients=6, l2=1e-2).fit(A, y)
    assert "the fewest numbers that hold" in model.choice_
    assert model.loss_ < best.loss_ + 1e-3 * (np.log(2) - best.loss_)
    with pytest.raises(ValueError, match="k = 'auto' with intercept = 'exact'"):
        ef.EF21Classifier(n_clients=6, k="auto", intercept="exact").fit(A, y)
    with pytest.raises(ValueError, match="k = 'some'; it must be a whole number of at least 1, 'auto' or None"):
        ef.EF21Classifier(k="some").fit(A, y)
