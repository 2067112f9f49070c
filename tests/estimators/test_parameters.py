"""A parameter that cannot be is refused when `fit` starts, with its name, its value and the rule."""

from __future__ import annotations

import re

import numpy as np
import pytest

from errorfeedback.estimators.classifier import EF21Classifier
from errorfeedback.estimators.regressor import EF21Regressor

X, Y = np.eye(8), np.arange(8) % 2
WHOLE, FINITE = "it must be a whole number of at least 1", "it must be a finite number of at least 0"
BAD = [
    ("n_clients", 0, WHOLE),
    ("n_clients", 2.5, WHOLE),
    ("n_clients", True, WHOLE),
    ("k", -3, WHOLE),
    ("l1", -1, FINITE),
    ("l2", -1, FINITE),
    ("l2", float("nan"), FINITE),
    ("l2", "much", FINITE),
    ("tol", -1e-9, FINITE),
    ("tol", float("inf"), FINITE),
    ("budget", 0, "it must be a finite number above 0, or None for no limit"),
    ("budget", -5.0, "it must be a finite number above 0, or None for no limit"),
    ("max_iter", -1, "it must be a whole number of at least 0"),
    ("max_iter", 10.0, "it must be a whole number of at least 0"),
    ("scale", "yes", "it must be one of True, False"),
    ("own_models", "yes", "it must be one of True, False"),
    ("fit_intercept", 1, "it must be one of True, False"),
    ("warm_start", None, "it must be one of True, False"),
    ("intercept", "none", "it must be one of 'topk', 'exact'"),
]


@pytest.mark.parametrize("kind", [EF21Classifier, EF21Regressor])
@pytest.mark.parametrize(("name", "value", "rule"), BAD)
def test_the_error_names_the_parameter_its_value_and_the_rule(kind, name, value, rule):
    with pytest.raises(ValueError, match=re.escape(f"{name} = {value!r}; {rule}")):
        kind(**{name: value}).fit(X, Y)


def test_numpy_numbers_and_the_ends_of_a_range_are_accepted():
    good = {"n_clients": np.int64(2), "k": np.int32(2), "l1": np.float32(0), "l2": 0, "tol": 0, "budget": np.float64(1e6)}
    assert EF21Classifier(**good, max_iter=3, scale=np.bool_(True)).fit(X, Y).n_iter_ == 3


@pytest.mark.parametrize("y", [np.linspace(0.1, 0.9, 40), np.arange(40), [f"name {k}" for k in range(40)]])
def test_what_hardly_comes_twice_is_no_class(y):
    with pytest.raises(ValueError, match="use --regression \\(EF21Regressor\\)"):
        EF21Classifier().fit(np.eye(40), y)


def test_a_target_too_large_to_be_squared_is_refused():
    with pytest.raises(ValueError, match="the target goes up to 1e\\+160 and the features to 1"):
        EF21Regressor().fit(X, 1e160 * Y)
