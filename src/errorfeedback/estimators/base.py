"""What the scikit-learn estimators share: parameters, clients, and the attributes of a fitted model."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import nan
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from errorfeedback.core import Floats, PerColumn
from errorfeedback.engines.base import Engine
from errorfeedback.engines.local import Local
from errorfeedback.estimators.docstrings import joined
from errorfeedback.estimators.doubts import doubts_about
from errorfeedback.estimators.earlier import Earlier, fitting
from errorfeedback.estimators.held_out import HeldOut, HeldOutRows, by_client
from errorfeedback.estimators.objective import Objective, even, penalised, preparation, row_weights, with_ones
from errorfeedback.estimators.parameters import RULES, Rule, check, show_all
from errorfeedback.estimators.training import Trained, TrainingSettings, train
from errorfeedback.planner.network import networks_of
from errorfeedback.problems.conversation import Conversation, Seat
from errorfeedback.problems.glm import GLM
from errorfeedback.runtime.agreement import agree
from errorfeedback.runtime.stopping import Budget, Stop
from errorfeedback.storage.checkpoint import Checkpoint

Watch = Callable[[dict[str, float]], None]
Held = tuple[Any, ArrayLike] | tuple[Any, ArrayLike, ArrayLike | None] | tuple[Any, ArrayLike, ArrayLike | None, ArrayLike]
"""Held-out rows, their targets, their weights (None: all count the same) and whose they are, where that is known."""


class LinearEF21(BaseEstimator, ABC):  # type: ignore[misc]
    """A linear model across clients, trained by EF21: by default in few bits with quasi-Newton steps.

    Parameters
    ----------
    n_clients : int, default=10
        Rows are dealt evenly to that many clients, at random, where `fit` gets no groups.
    k : int, "auto" or None, default=None
        Numbers that a client sends per round: those of its change that are largest (TopK); "auto": as many as the data and
        the network make worth their price. None: every number, in few bits, with quasi-Newton steps on the server; how many
        bits is chosen from the data and the network.
    network : str, list of str or None, default=None
        The clients' links, as in "up=1Mbit/s,down=10Mbit/s,latency=50ms", or one such text for every class of clients:
        unless k is a number, training is made for the shortest time on them. None: for fewest bytes.
    l1 : float, default=0.0
        Weight of ||coef||_1 beside the mean loss over all rows: larger makes more weights exactly zero. The intercept is
        free. It has no gradient at 0: steps lead to the minimum of a model that has its kinks too.
    l2 : float, default=1e-4
        Weight of ||coef||^2 / 2 beside the mean loss over all rows. The intercept is free.
    fit_intercept : bool, default=True
        Add a constant to the model.
    intercept : {"topk", "exact"}, default="topk"
        With k: how the slope of the intercept, which all clients share, is sent: like any other number, or exactly, every
        round.
    scale : bool, default=True
        Bring features to like size first: dense ones to the same curvature, rare ones half-way (with k: all to the same).
        coef_ is in the units of the data all the same.
    own_models : bool, default=True
        Begin at the mean of the clients' own models, where these have learned something: a client tells what model its
        rows make, in 11 bits a feature. Without k, l1 and a warm start, for two classes and regression, on scaled features.
    own_features : bool, default=True
        Leave the weights of features that one client alone has to it, where most rows have such a feature: it keeps them at
        their best while the others are trained, and says them at the end. Without k, l1 and held-out rows, for two classes
        and regression, on scaled features.
    max_iter : int, default=2000
        Rounds, at most.
    tol : float, default=1e-5
        Stop when about this share of all progress is left (`ef.EstimatedGap`); with k, when the loss falls by less than
        a tenth of this share of itself, three told losses in a row; 0: never.
    budget : float or None, default=None
        Stop when a client has sent that many bytes, on average; None: no limit.
    warm_start : bool, default=False
        Go on from the last model, on the same features and classes.
    random_state : int, RandomState or None, default=0
        Deals the rows to clients, and seeds the run.

    Attributes
    ----------
    coef_ : ndarray
        A weight for every feature: one row per model (one for two classes, else one per class); a vector in a regression.
    intercept_ : ndarray or float
        The constant of every model.
    n_features_in_ : int
        Features that `fit` saw.
    feature_names_in_ : ndarray
        Their names, where the data had some.
    n_iter_ : int
        Rounds that were run.
    stopped_ : str
        Why the run ended.
    returned_ : str
        Which point of the run the model is.
    choice_ : str
        How it was trained, and why.
    most_features_ : int
        Features of the client that has the most.
    loss_ : float
        The mean loss over all rows and the penalty, at the model.
    penalty_ : float
        The part of loss_ that is the penalty.
    validation_loss_ : float
        The loss on the held-out rows; nan without.
    constant_ : ndarray
        The best guess without features: the share of every class, or the mean target.
    constant_loss_ : float
        The loss of that guess on the held-out rows; nan without. A model must beat it.
    warnings_ : list of str
        What to know before trusting the model.
    history_ : History
        What was recorded along the run.
    clients_ : ndarray
        The names of the clients.
    bytes_up_ : float
        What a client sent in the whole run, on average.
    bytes_down_ : float
        What a client received in the whole run, on average.
    before_ : Before
        The part of both that crossed the network before the first round.
    traffic_ : tuple of three ndarrays
        Bits of every client's message up, and of its part of the model down in full precision, in one round; and of what it
        says after the last one.
    """

    loss: str
    """What is minimised, by name."""
    coef_: Floats
    intercept_: Any
    n_features_in_: int
    constant_: Floats
    rules: ClassVar[dict[str, Rule]] = RULES

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        show_all(cls.__init__, LinearEF21.__init__)
        if cls.__doc__ and LinearEF21.__doc__:  # python -OO has none
            cls.__doc__ = joined(cls.__doc__, LinearEF21.__doc__)

    def __init__(
        self,
        *,
        n_clients: int = 10,
        k: int | str | None = None,
        network: str | list[str] | None = None,
        l1: float = 0.0,
        l2: float = 1e-4,
        fit_intercept: bool = True,
        intercept: str = "topk",
        scale: bool = True,
        own_models: bool = True,
        own_features: bool = True,
        max_iter: int = 2000,
        tol: float = 1e-5,
        budget: float | None = None,
        warm_start: bool = False,
        random_state: Any = 0,
    ) -> None:
        self.n_clients = n_clients
        self.k = k
        self.network = network
        self.l1 = l1
        self.l2 = l2
        self.fit_intercept = fit_intercept
        self.intercept = intercept
        self.scale = scale
        self.own_models = own_models
        self.own_features = own_features
        self.max_iter = max_iter
        self.tol = tol
        self.budget = budget
        self.warm_start = warm_start
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def decision(self, X: Any) -> Floats:
        """X coef' + intercept: (rows, models)."""
        check_is_fitted(self, "coef_")
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        coef = np.atleast_2d(self.coef_)
        return np.asarray(X @ coef.T) + np.atleast_1d(self.intercept_)

    def objective(
        self,
        X: Any,
        y: ArrayLike,
        groups: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        whole: bool = True,
        engine: Engine | None = None,
    ) -> Objective:
        """What `fit` minimises for these rows; of several processes each gives those of its own clients. `whole`: the server
        has all weights in every round; otherwise those of own features may be left to their clients, as in `fit`."""
        engine = Local() if engine is None else engine
        return engine.converse(lambda seat: self.objective_of_all(X, y, groups, sample_weight, whole, seat))

    def objective_of_all(
        self, X: Any, y: ArrayLike, groups: ArrayLike | None, sample_weight: ArrayLike | None, whole: bool, seat: Seat
    ) -> Conversation[Objective]:
        """The same as what one of several places says to the others."""
        check(self.get_params(deep=False), self.rules)
        yield from agree(lambda: {"estimator": type(self).__name__, **self.get_params()}, seat)
        A, target, weights, clients = self._rows(X, y, sample_weight, groups)
        rows = yield from self._losses(with_ones(A) if self.fit_intercept else A, target, clients, weights, seat)
        begins = self.own_models and not self.l1 and self._last is None
        prepare = preparation(scale=self.scale, top_k=self.k is not None, own_models=begins)
        leave = self.tol if self.own_features and not whole and self.k is None and not self.l1 else None
        return (
            yield from penalised(
                rows, intercept=self.fit_intercept, l1=self.l1, l2=self.l2, prepare=prepare, leave_own=leave, seat=seat
            )
        )

    @abstractmethod
    def _losses(
        self, A: sparse.csr_array, y: NDArray[Any], clients: NDArray[Any], weights: Floats, seat: Seat
    ) -> Conversation[GLM]:
        """The mean loss over all rows (A has the column of ones); sets `constant_`."""

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        groups: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        watch: Watch | None = None,
        valid: Held | None = None,
        engine: Engine | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> Self:
        """Train on these rows.

        Parameters
        ----------
        X : array or sparse matrix of shape (rows, features)
            The data.
        y : array of shape (rows,)
            What to predict.
        groups : array of shape (rows,) or None, default=None
            The client of each row; None: the rows are dealt evenly to n_clients.
        sample_weight : array of shape (rows,) or None, default=None
            What each row counts; rows that count 0 are left out.
        watch : callable or None, default=None
            Sees every recorded row of the history.
        valid : tuple or None, default=None
            Held-out rows, their targets and, if any, their weights and their clients: the run stops when the loss on them
            has stopped falling, and the model is the last one as good as the best on them (`ef.Validation`), where the
            noise is that between clients, or between rows where the clients are not given.
        engine : Engine or None, default=None
            Where the clients live; with `ef.MPI()` every rank gives the rows of its own clients.
        checkpoint : Checkpoint or None, default=None
            Where to keep the state; a run that is in that folder already is gone on with.
        """
        objective = self.objective(X, y, groups, sample_weight, whole=valid is not None, engine=engine)
        return self._train(objective, watch, self._held(valid, objective.models), engine, checkpoint)

    @property
    def learned(self) -> dict[str, Any]:
        """The attributes that say what the rows are, before a run: features, classes, the best constant guess."""
        return {name: value for name, value in vars(self).items() if name.endswith("_")}

    def fit_elsewhere(
        self,
        objective: Objective,
        learned: dict[str, Any],
        engine: Engine,
        *,
        watch: Watch | None = None,
        valid: Held | HeldOut | None = None,
        checkpoint: Checkpoint | None = None,
        stop: Sequence[Stop] = (),
        earlier: Earlier | None = None,
    ) -> Self:
        """Train where the rows are in other places, which have said what is minimised and what they have `learned`; held-out
        rows may be here or there. It stops for `stop` too, and goes on from an `earlier` run with other clients."""
        for name, value in learned.items():
            setattr(self, name, value)
        held = valid if isinstance(valid, HeldOut) else self._held(valid, objective.models)
        return self._train(objective, watch, held, engine, checkpoint, stop, earlier)

    def _rows(self, X: Any, y: ArrayLike, weights: ArrayLike | None, groups: ArrayLike | None) -> Any:
        """Rows with a weight above 0: X, y, their weights and their clients."""
        numeric = self._numeric_target()
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64, y_numeric=numeric)
        w = row_weights(weights, X)
        clients = self.dealt(X.shape[0]) if groups is None else np.asarray(groups)
        if clients.shape != (X.shape[0],):
            raise ValueError(f"groups has shape {clients.shape}, but X has {X.shape[0]} rows; name a client for each row")
        keep = w > 0
        X = sparse.csr_array(X)
        return (X, y, w, clients) if keep.all() else (X[keep], np.asarray(y)[keep], w[keep], clients[keep])

    def dealt(self, rows: int) -> NDArray[Any]:
        """A client for every row, where nobody names them."""
        return even(rows, self.n_clients, int(check_random_state(self.random_state).randint(2**31 - 1)))

    def _held(self, valid: Held | None, models: int) -> HeldOut | None:
        return None if valid is None else self.held_rows(valid, models)

    def held_rows(self, valid: Held, models: int) -> HeldOutRows:
        """Held-out data for a model that knows its features and classes, refused where it does not fit."""
        X, y, *given = valid
        X, y = validate_data(
            self, X, y, reset=False, accept_sparse="csr", dtype=np.float64, y_numeric=self._numeric_target()
        )
        weights = row_weights(given[0] if given else None, X)
        order, firsts = (np.arange(X.shape[0]), None) if len(given) < 2 else by_client(np.asarray(given[1]))
        A = sparse.csr_array(X)[order]
        held = self._held_out(with_ones(A) if self.fit_intercept else A, np.asarray(y)[order], weights[order], models)
        return replace(held, firsts=firsts)

    @abstractmethod
    def _held_out(self, A: sparse.csr_array, y: NDArray[Any], weights: Floats, models: int) -> HeldOutRows:
        """The loss on these rows, as the model is trained to have it low."""

    def _numeric_target(self) -> bool:
        return False

    def _train(
        self,
        objective: Objective,
        watch: Watch | None,
        held: HeldOut | None,
        engine: Engine | None,
        checkpoint: Checkpoint | None,
        stop: Sequence[Stop] = (),
        earlier: Earlier | None = None,
    ) -> Self:
        """Run, and keep what the run says."""
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        spent = 0.0 if earlier is None else earlier.bytes_up
        stops = [*stop] if self.budget is None else [*stop, Budget(bytes=max(self.budget - spent, 1.0))]
        trained = train(
            objective,
            TrainingSettings(
                k=self.k,
                intercept=self.intercept,
                rounds=self.max_iter if earlier is None else max(self.max_iter - earlier.rounds, 0),
                seed=seed,
                networks=networks_of(self.network, objective.clients.tolist()),
                tolerance=self.tol,
            ),
            x0=fitting(self._last, objective.problem.width) if earlier is None else earlier.start,
            stop=stops,
            held=held,
            watch=watch,
            engine=engine,
            checkpoint=checkpoint,
        )
        self.most_features_ = objective.most
        self._set(trained, objective.models)
        if earlier is not None:
            self.history_ = earlier.history.followed_by(trained.run.history)
            self.n_iter_ = earlier.rounds + trained.run.rounds
            self.bytes_up_ = earlier.bytes_up + trained.bytes_up
            self.bytes_down_ = earlier.bytes_down + trained.bytes_down
        self.clients_ = objective.clients
        self.constant_loss_ = nan if held is None else held.constant(self.constant_)
        doubts = list(doubts_about(self))
        self.warnings_ = [text for _, text in doubts]
        if engine is None or engine.leads:
            for kind, text in doubts:
                warnings.warn(text, kind, stacklevel=3)
        return self

    @property
    def _last(self) -> PerColumn | None:
        """The model that a warm start goes on from, one number per column of the data."""
        if not (self.warm_start and "coef_" in vars(self)):
            return None
        known = np.atleast_2d(self.coef_)
        return (np.column_stack([known, np.atleast_1d(self.intercept_)]) if self.fit_intercept else known).T.ravel()

    def become(self, x: PerColumn, models: int) -> None:
        """The model with these numbers, one per column of the data."""
        matrix = x.reshape(-1, models).T
        self.coef_ = matrix[:, : self.n_features_in_].copy()
        self.intercept_ = matrix[:, -1].copy() if self.fit_intercept else np.zeros(models)

    def _set(self, trained: Trained, models: int) -> None:
        self.become(trained.x, models)
        run = trained.run
        self.n_iter_, self.history_, self.stopped_, self.returned_ = run.rounds, run.history, run.stopped, run.returned
        self.loss_, self.penalty_, self.validation_loss_ = trained.loss, trained.penalty, trained.validation_loss
        self.before_, self.choice_, self.traffic_ = trained.before, trained.recipe.why, trained.traffic
        self.bytes_up_, self.bytes_down_ = trained.bytes_up, trained.bytes_down
