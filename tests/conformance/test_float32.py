"""float32 as an option: data, memory and messages in single precision, near the float64 run, and bit-identical by itself."""

from __future__ import annotations

import numpy as np
import pytest
from discovery import METHODS, covering, fits

import errorfeedback as ef
from errorfeedback.wire.coding import FULL

TOLERANCE = 1e-3
"""Single precision has 6e-8 per operation; on one-hot data rounding also decides ties, so that other entries are sent."""


def problems(loss, dtype):
    rng = np.random.default_rng(3)
    A = rng.standard_normal((60, 20)) * (rng.random((60, 20)) < (1.0 if loss == "dense" else 0.1))
    A[np.arange(60), rng.integers(0, 20, 60)] = 1.0
    if loss == "one-hot":
        return ef.logistic(A != 0, rng.integers(0, 2, 60), 10, dtype=dtype)
    if loss == "softmax":
        return ef.softmax(A, rng.integers(0, 3, 60), 10, dtype=dtype)
    return ef.least_squares(A, rng.standard_normal(60), 10, dtype=dtype, regularizer=ef.NonconvexPenalty(0.1))


def run(problem, method, **options):
    gamma = 0.05 / 2.0
    return ef.solve(problem, method, ef.Constant(gamma), rounds=200, every=50, seed=1, **options)


@pytest.mark.parametrize(("method", "loss"), covering(METHODS, ["dense", "sparse", "one-hot", "softmax"]), ids=str)
def test_single_precision_stays_near_double_precision_at_half_the_bits(method, loss):
    if not fits(method, problems(loss, np.float32)):
        return
    single, double = (run(problems(loss, dtype), method) for dtype in (np.float32, np.float64))
    assert single.x.dtype == np.float32
    np.testing.assert_allclose(single.history["f"], double.history["f"], rtol=TOLERANCE)
    assert single.history["f"][-1] < single.history["f"][0]
    values = double.history["uplink_bits"][-1] - single.history["uplink_bits"][-1]
    down = double.history["downlink_bits"][-1] - single.history["downlink_bits"][-1]
    assert down % 32 == 0  # heads cost the same here too
    assert down > 0.4 * double.history["downlink_bits"][-1]
    as_many = method.announces and method.compressor.announces
    assert values % 32 == 0 or not as_many  # indices cost the same, every value half, where there are as many
    first = method.bind(single.theory.support).known(method.compressor.on(single.theory.support), ef.Round(0, 1)).frames
    full = first.total > 0 and first.coding == FULL
    assert (values > 0) == (full or method.compressor.coding == FULL)  # others send as few bits in double precision


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_single_precision_is_bit_identical_for_any_number_of_shards(method):
    if not fits(method, problems("sparse", np.float32)):
        return
    a, b = (run(problems("sparse", np.float32), method, engine=ef.Local(shards)) for shards in (1, 4))
    assert np.array_equal(a.x, b.x)
    assert np.array_equal(a.history["f"], b.history["f"])


def test_nothing_is_widened_on_the_way():
    """Negative control of the tolerance: a float32 run is not a float64 run in disguise."""
    single, double = (run(problems("sparse", dtype), ef.EF21(ef.TopK(1))) for dtype in (np.float32, np.float64))
    assert np.abs(single.x - double.x).max() > 1e-9
    problem = problems("sparse", np.float32)
    assert problem.gradients_at(np.ones(20)).dtype == np.float32
    assert problem.blocks.dtype == np.float32
    assert (
        ef.EF21(ef.TopK(1))
        .compressor.on(problem.support)(problem.gradients_at(np.ones(20)), ef.core.Round(0, 0))
        .values.dtype
        == np.float32
    )


def test_other_precisions_are_refused():
    with pytest.raises(ValueError, match="dtype = float16; data, memory and messages are float64 or float32"):
        ef.least_squares(np.eye(2), np.ones(2), 2, dtype=np.float16)
