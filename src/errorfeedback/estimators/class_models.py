"""From classes to a linear model and back: what is minimised, and what the model's scores of a row say of its class."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, log_expit, log_softmax, logsumexp, softmax

from errorfeedback.core import Floats, Integers
from errorfeedback.problems.glm import GLM
from errorfeedback.problems.inputs import Matrix
from errorfeedback.problems.linear_models import glm, logistic
from errorfeedback.problems.losses.one_against_rest import OneAgainstRest
from errorfeedback.problems.losses.softmax import Softmax
from errorfeedback.problems.partition import Clients


@dataclass(frozen=True)
class ClassModel(ABC):
    """Scores are (rows, models): one model for two classes, else one per class."""

    @abstractmethod
    def problem(self, A: Matrix, code: Integers, count: int, clients: Clients, weights: Floats) -> GLM:
        """The mean loss over all rows, for so many classes, of which every row has one by its number."""

    @abstractmethod
    def probabilities(self, scores: Floats) -> Floats:
        """(rows, classes)."""

    @abstractmethod
    def logs(self, scores: Floats) -> Floats:
        """(rows, classes): the logarithms of the probabilities."""


@dataclass(frozen=True)
class TwoClasses(ClassModel):
    """p = 1 / (1 + exp(-score)) for the second class."""

    def problem(self, A: Matrix, code: Integers, count: int, clients: Clients, weights: Floats) -> GLM:
        return logistic(A, np.where(code == 1, 1, -1), clients, sample_weight=weights, classes=(-1, 1))

    def probabilities(self, scores: Floats) -> Floats:
        p = expit(scores[:, 0])
        return np.column_stack([1 - p, p])

    def logs(self, scores: Floats) -> Floats:
        return np.column_stack([log_expit(-scores[:, 0]), log_expit(scores[:, 0])])


@dataclass(frozen=True)
class Multinomial(ClassModel):
    """p_k = exp(score_k) / sum_l exp(score_l).

    >>> Multinomial().probabilities(np.log([[1.0, 2.0, 1.0]])).tolist()
    [[0.25, 0.5, 0.25]]
    """

    def problem(self, A: Matrix, code: Integers, count: int, clients: Clients, weights: Floats) -> GLM:
        return glm(A, code, clients, Softmax(outputs=count), sample_weight=weights)

    def probabilities(self, scores: Floats) -> Floats:
        return np.asarray(softmax(scores, axis=1))

    def logs(self, scores: Floats) -> Floats:
        return np.asarray(log_softmax(scores, axis=1))


@dataclass(frozen=True)
class OneVersusRest(ClassModel):
    """Every class has a model of its own, and its p = 1 / (1 + exp(-score)); a row's are divided by their sum."""

    def problem(self, A: Matrix, code: Integers, count: int, clients: Clients, weights: Floats) -> GLM:
        return glm(A, code, clients, OneAgainstRest(outputs=count), sample_weight=weights)

    def probabilities(self, scores: Floats) -> Floats:
        p = expit(scores)
        total = p.sum(axis=1, keepdims=True)
        return np.where(total > 0, p / np.where(total > 0, total, 1.0), 1.0 / p.shape[1])

    def logs(self, scores: Floats) -> Floats:
        own = log_expit(scores)
        return np.asarray(own - logsumexp(own, axis=1, keepdims=True))


MULTI_CLASS: dict[str, ClassModel] = {"multinomial": Multinomial(), "ovr": OneVersusRest()}
"""What may be done about more than two classes; the first is the default."""


def class_model(multi_class: str, count: int) -> ClassModel:
    """For so many classes."""
    return TwoClasses() if count == 2 else MULTI_CLASS[multi_class]
