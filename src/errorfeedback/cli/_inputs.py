"""From what `train`, `inspect` and `compare` are told to the rows, the model and the objective: once for all three."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from errorfeedback.cli._data import budget_of, groups_of, reading_of, say
from errorfeedback.cli.verbs._inputs import CLIENTS, Inputs
from errorfeedback.cli.verbs._training import Training
from errorfeedback.compressors.base import Contractive
from errorfeedback.data.parts import hand_out, read_folder
from errorfeedback.data.read import read
from errorfeedback.data.rows import Data
from errorfeedback.estimators.class_models import LOSSES as CLASS_LOSSES
from errorfeedback.estimators.classifier import EF21Classifier
from errorfeedback.estimators.objective import Objective
from errorfeedback.estimators.poisson_regressor import EF21PoissonRegressor
from errorfeedback.estimators.regressor import LOSSES as NUMBER_LOSSES
from errorfeedback.estimators.regressor import EF21Regressor
from errorfeedback.estimators.training import compressor_of
from errorfeedback.problems.conversation import Conversation, Seat

Estimator = EF21Classifier | EF21Regressor | EF21PoissonRegressor
LOSSES: dict[str, type[Estimator]] = {
    **dict.fromkeys(CLASS_LOSSES, EF21Classifier),
    **dict.fromkeys(NUMBER_LOSSES, EF21Regressor),
    EF21PoissonRegressor.loss: EF21PoissonRegressor,
}
"""What --loss may say, and who minimises it."""


def loss_of(inputs: Inputs) -> str:
    """The loss by its name."""
    loss = ("squared" if inputs.regression else "logistic") if inputs.loss is None else inputs.loss
    if loss not in LOSSES:
        raise ValueError(f"loss = {loss!r}; it must be one of {', '.join(LOSSES)}")
    if inputs.regression and loss in CLASS_LOSSES:
        raise ValueError(f"--loss {loss} is about classes, and --regression has none; leave one out")
    return loss


def has_classes(inputs: Inputs) -> bool:
    """Whether the target is a class."""
    return loss_of(inputs) in CLASS_LOSSES


def estimator_of(
    inputs: Inputs,
    *,
    k: str | int | None = None,
    rounds: int = 2000,
    tolerance: float = 1e-5,
    budget: float | None = None,
    network: list[str] | None = None,
) -> Estimator:
    """The model that `train` fits."""
    loss = loss_of(inputs)
    _check_fits(inputs, loss)
    model = LOSSES[loss](
        n_clients=CLIENTS if inputs.clients is None else inputs.clients,
        k=_level(k),
        network=network,
        l1=inputs.l1,
        l2=inputs.l2,
        fit_intercept=inputs.intercept != "none",
        intercept="topk" if inputs.intercept == "none" else inputs.intercept,
        scale=inputs.scale,
        own_models=inputs.own_models,
        own_features=inputs.own_features,
        max_iter=rounds,
        tol=tolerance,
        budget=budget,
        random_state=inputs.seed,
    )
    if isinstance(model, EF21Classifier):
        model.class_weight = inputs.class_weight
        model.multi_class = model.multi_class if inputs.multi_class is None else inputs.multi_class
    if isinstance(model, EF21Regressor):
        model.huber_width = inputs.huber_width
    if not isinstance(model, EF21PoissonRegressor):
        model.loss = loss
    return model


def trained_by(options: Training) -> Estimator:
    """The model that `train` fits, with all that it was told."""
    return estimator_of(
        options,
        k=options.k,
        rounds=options.rounds,
        tolerance=options.tolerance,
        budget=budget_of(options.budget),
        network=options.network,
    )


def _level(k: str | int | None) -> str | int | None:
    """--k 3, or a word."""
    return int(k) if isinstance(k, str) and k.strip().lstrip("-").isdecimal() else k


def _check_fits(inputs: Inputs, loss: str) -> None:
    """Refuse options about classes where there are none."""
    about_classes = {"--class-weight": inputs.class_weight, "--multi-class": inputs.multi_class}
    asked = "--regression" if inputs.loss is None else f"--loss {loss}"
    for option, value in about_classes.items():
        if value is not None and not has_classes(inputs):
            raise ValueError(f"{option} {value} is about classes, and {asked} has none; leave one out")


def rows_of(inputs: Inputs, seat: Seat) -> Conversation[Data]:
    """The rows of this process, with the client of each; rank 0 says what was decided in reading."""
    data = yield from _rows(inputs, seat)
    if not seat.number:
        say(data.notes)
    return data


def _rows(inputs: Inputs, seat: Seat) -> Conversation[Data]:
    if not Path(inputs.data).is_dir():
        return (yield from hand_out(lambda: _whole(inputs), seat))
    if inputs.groups is not None:
        raise ValueError(
            f"--groups names the clients of one file's rows, and {inputs.data} is a folder; use --client-column"
        )
    return (yield from read_folder(inputs.data, reading_of(inputs), seat))


def _whole(inputs: Inputs) -> Data:
    data = read(inputs.data, reading_of(inputs))
    if data.y is None:
        raise ValueError(f"{inputs.data} has no target, and there is nothing to fit without one (--target)")
    names, rows, n = groups_of(inputs.groups, data), data.A.shape[0], inputs.clients
    if names is None and n is not None and rows < n:
        raise ValueError(f"{n} clients but {rows} rows, so some would have none; use --clients {rows} or fewer")
    return replace(data, clients=estimator_of(inputs).dealt(rows) if names is None else names)


def objective_of(inputs: Inputs, data: Data) -> tuple[Objective, Sequence[str]]:
    """What `train` minimises on these rows, and what its columns are called."""
    model = estimator_of(inputs)
    assert data.y is not None, "data without a target is refused"
    made = model.objective(data.A, data.y, groups=data.clients, sample_weight=data.weights)
    classes = model.classes_.tolist() if isinstance(model, EF21Classifier) else None
    return made, made.names(data.encoding.names, classes)


def compressor_for(inputs: Inputs, objective: Objective) -> Callable[[int], Contractive]:
    """K -> what `train --k K` sends."""
    intercept = estimator_of(inputs).intercept
    return lambda k: compressor_of(objective, k, intercept)
