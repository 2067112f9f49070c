"""Every parameter and every attribute of an estimator, and every parameter of `fit`, is explained in its docstring."""

from __future__ import annotations

import inspect
import re

import numpy as np
import pytest

from errorfeedback.estimators.base import LinearEF21
from errorfeedback.estimators.docstrings import _sections


def final(kind):
    """The classes below this one that nothing is made of."""
    below = kind.__subclasses__()
    return [each for sub in below for each in final(sub)] if below else [kind]


ESTIMATORS = final(LinearEF21)
ENTRY = re.compile(r"^(\w+) : (.+)\n((?:    .+\n?)+)", re.MULTILINE)


def entries(documented, title):
    """Name to (type, explanation)."""
    return {name: (kind, text.strip()) for name, kind, text in ENTRY.findall(_sections(documented)[1][title])}


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_every_parameter_is_explained_with_its_default(kind):
    given = {p.name: p.default for p in inspect.signature(kind).parameters.values()}
    told = entries(kind.__doc__, "Parameters")
    assert set(told) == set(given)
    for name, default in given.items():
        said = re.search(r"default=(.+)$", told[name][0])[1]
        assert repr(default) == said.replace('"', "'") or default == float(said), name
        assert len(told[name][1]) > 10, name


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_every_attribute_is_explained(kind):
    X = np.eye(6)
    model = kind(n_clients=2, max_iter=50, tol=0).fit(X, [0, 1] * 3)
    fitted = {name for name in vars(model) if name.endswith("_") and not name.startswith("_")}
    assert set(entries(kind.__doc__, "Attributes")) - {"feature_names_in_"} == fitted


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_every_argument_of_fit_is_explained(kind):
    given = set(inspect.signature(kind.fit).parameters) - {"self"}
    assert set(entries(kind.fit.__doc__, "Parameters")) == given


def test_there_are_three_and_each_has_an_example():
    assert {kind.__name__ for kind in ESTIMATORS} == {"EF21Classifier", "EF21Regressor", "EF21PoissonRegressor"}
    assert all(">>>" in _sections(kind.__doc__)[1]["Examples"] for kind in ESTIMATORS)
