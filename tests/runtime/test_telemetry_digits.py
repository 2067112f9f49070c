"""Numbers that clients tell in a float32 run keep all digits of a float32: what was computed with such numbers stays."""

from __future__ import annotations

import numpy as np
import pytest

import errorfeedback as ef
from errorfeedback.probes.errors import Errors
from errorfeedback.probes.sketches import Sketches
from errorfeedback.wire.truncated import truncated


@pytest.mark.parametrize(("dtype", "value_bits"), [(np.float32, 32), (np.float64, 64)])
def test_errors_and_sketches_are_rounded_as_values_of_the_run_are(dtype, value_bits):
    numbers = np.random.default_rng(0).standard_normal(1000) * 10.0 ** np.random.default_rng(1).integers(-30, 30, 1000)
    for probe in (Errors(), Sketches(1)):
        (width,) = probe.widths(value_bits)
        assert np.array_equal(truncated(numbers, width), numbers.astype(dtype).astype(np.float64))


def test_the_published_rule_in_fp32_has_the_steps_that_it_had():
    """gamma of the first rounds, as it was when G_i was rounded to a float32."""
    problem = ef.logistic(*data(), clients=6, dtype=np.float32)
    method = ef.EF21(ef.TopK(1), "authors")
    steps = ef.solve(problem, method, ef.Adaptive("K/d"), rounds=20).history["gamma"]
    expected = [float.fromhex("0x1.5324029c26b81p+2"), float.fromhex("0x1.59722fe30ef5ep-1")]
    assert steps[[1, 5]] == pytest.approx(expected, rel=1e-10)  # with 20 digits in place of 23 the second is off by 1e-8


def data():
    rng = np.random.default_rng(0)
    A = (rng.random((60, 9)) < 0.4) * rng.standard_normal((60, 9))
    A[np.arange(60), np.arange(60) % 9] = 1.0
    return A, np.where(rng.random(60) < 0.5, -1, 1)
