"""From classes to a linear model and back: what is minimised, and what the model's scores of a row say of its class."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import numpy as np
from scipy.special import expit, log_expit, log_softmax, logsumexp, softmax

from errorfeedback.core import Floats, Integers, PerRow
from errorfeedback.problems.glm import GLM
from errorfeedback.problems.inputs import Matrix
from errorfeedback.problems.linear_models import glm, logistic, squared_hinge
from errorfeedback.problems.losses.one_against_rest import OneAgainstRest
from errorfeedback.problems.losses.softmax import Softmax
from errorfeedback.problems.losses.squared_hinge import HingeAgainstRest
from errorfeedback.problems.partition import Clients


@dataclass(frozen=True)
class ClassModel(ABC):
    """Scores are (rows, models): one model for two classes, else one per class."""

    @abstractmethod
    def problem(self, A: Matrix, code: Integers, count: int, clients: Clients, weights: Floats) -> GLM:
        """The mean loss over all rows, for so many classes, of which every row has one by its number."""

    @abstractmethod
    def losses(self, scores: Floats, code: Integers) -> PerRow:
        """The loss of every row."""

    @abstractmethod
    def constant_losses(self, guess: Floats, code: Integers) -> PerRow:
        """The same for a predictor that says of every row how frequent the classes are."""

    def probabilities(self, scores: Floats) -> Floats | None:
        """(rows, classes); None where the scores do not say."""
        return None


@dataclass(frozen=True)
class Likelihood(ClassModel):
    """The loss is -log p(class)."""

    @abstractmethod
    def probabilities(self, scores: Floats) -> Floats: ...

    @abstractmethod
    def logs(self, scores: Floats) -> Floats:
        """(rows, classes): the logarithms of the probabilities."""

    def losses(self, scores: Floats, code: Integers) -> PerRow:
        return -self.logs(scores)[np.arange(len(scores)), code]

    def constant_losses(self, guess: Floats, code: Integers) -> PerRow:
        return -np.log(np.maximum(guess, np.finfo(np.float64).tiny))[code]


@dataclass(frozen=True)
class TwoClasses(Likelihood):
    """p = 1 / (1 + exp(-score)) for the second class."""

    def problem(self, A: Matrix, code: Integers, count: int, clients: Clients, weights: Floats) -> GLM:
        return logistic(A, np.where(code == 1, 1, -1), clients, sample_weight=weights, classes=(-1, 1))

    def probabilities(self, scores: Floats) -> Floats:
        p = expit(scores[:, 0])
        return np.column_stack([1 - p, p])

    def logs(self, scores: Floats) -> Floats:
        return np.column_stack([log_expit(-scores[:, 0]), log_expit(scores[:, 0])])


@dataclass(frozen=True)
class Multinomial(Likelihood):
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
class OneVersusRest(Likelihood):
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


@dataclass(frozen=True)
class Margins(ClassModel):
    """The sum over the models of max(0, 1 - y score)^2: y = 1 for the row's class and -1 for the rest. The best constant
    score of a class that is a share p of the rows is 2p - 1."""

    def problem(self, A: Matrix, code: Integers, count: int, clients: Clients, weights: Floats) -> GLM:
        if count == 2:
            return squared_hinge(A, np.where(code == 1, 1, -1), clients, sample_weight=weights, classes=(-1, 1))
        return glm(A, code, clients, HingeAgainstRest(outputs=count), sample_weight=weights)

    def losses(self, scores: Floats, code: Integers) -> PerRow:
        own = code[:, None] == (np.arange(scores.shape[1]) if scores.shape[1] > 1 else np.ones(1))
        return np.asarray(np.square(np.maximum(1 - np.where(own, 1, -1) * scores, 0)).sum(axis=1))

    def constant_losses(self, guess: Floats, code: Integers) -> PerRow:
        scores = 2 * (guess if len(guess) > 2 else guess[1:]) - 1
        return self.losses(np.broadcast_to(scores, (len(code), len(scores))), code)


LOGISTIC, HINGE = "logistic", "squared_hinge"
MULTINOMIAL, REST = "multinomial", "ovr"
MULTI_CLASS = (MULTINOMIAL, REST)
"""What may be done about more than two classes; the first is the default."""


@dataclass(frozen=True)
class ClassFamily:
    """What a loss makes of classes."""

    two: ClassModel
    many: dict[str, ClassModel] = field(hash=False)
    """By what is done about more than two."""
    probable: bool
    """Its scores have probabilities."""


LOSSES = {
    LOGISTIC: ClassFamily(TwoClasses(), {MULTINOMIAL: Multinomial(), REST: OneVersusRest()}, probable=True),
    HINGE: ClassFamily(Margins(), {REST: Margins()}, probable=False),
}
"""The first is the default."""


def class_model(loss: str, multi_class: str, count: int) -> ClassModel:
    """For so many classes."""
    family = LOSSES[loss]
    if count > 2 and multi_class not in family.many:
        known = ", ".join(map(repr, family.many))
        raise ValueError(f"multi_class = {multi_class!r}, which the loss {loss!r} has not; with {count} classes use {known}")
    return family.two if count == 2 else family.many[multi_class]
