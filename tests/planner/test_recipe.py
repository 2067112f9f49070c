"""How a model is trained: Hessians are asked for where they are known and bounded, and nowhere else."""

from __future__ import annotations

import numpy as np
import pytest

import errorfeedback as ef
from errorfeedback.planner.recipe import few_bits

A, CLIENTS = np.random.default_rng(0).standard_normal((60, 5)), np.arange(60) % 6
CODE = np.arange(60) % 3
PROBLEMS = {
    "logistic": (ef.logistic(A, CODE > 0, CLIENTS), ef.Curvature),
    "squared": (ef.least_squares(A, CODE, CLIENTS), ef.Curvature),
    "huber": (ef.huber(A, CODE, CLIENTS), ef.Curvature),
    "squared hinge": (ef.squared_hinge(A, CODE > 0, CLIENTS), ef.Curvature),
    "poisson": (ef.poisson(A, CODE, CLIENTS), ef.LBFGS),
    "poisson, scaled": (ef.scaled(ef.poisson(A, CODE, CLIENTS)), ef.LBFGS),
    "softmax": (ef.softmax(A, CODE, CLIENTS), ef.LBFGS),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_hessians_are_for_bounded_losses_of_one_score(name):
    """A step that is refused may end where exp(z) is 1e19, and few-bit estimates would have to come back from there."""
    problem, direction = PROBLEMS[name]
    recipe = few_bits(problem, None, 1e-6)
    assert type(recipe.direction) is direction
    assert ("Hessians are out of the question" in recipe.why) is (direction is ef.LBFGS)
