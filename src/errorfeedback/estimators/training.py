"""Training as users mean it: real data in, model out. The problem is scaled, a penalty is added on the server, how it is
trained is chosen (`planner.recipe`); everything that crosses the wire is counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import nan
from pathlib import Path

import numpy as np

from errorfeedback.compressors.base import Contractive
from errorfeedback.compressors.exact_on_common import ExactOnCommon
from errorfeedback.compressors.top_k import TopK
from errorfeedback.core import PerClient, PerColumn
from errorfeedback.engines.base import Engine
from errorfeedback.engines.local import Local
from errorfeedback.estimators.held_out import HeldOut
from errorfeedback.estimators.objective import Objective
from errorfeedback.planner.network import Network, traffic
from errorfeedback.planner.recipe import Recipe, few_bits, top_k
from errorfeedback.planner.top_k_choice import chosen_top_k
from errorfeedback.problems.base import setup_bits
from errorfeedback.problems.conversation import Conversation
from errorfeedback.runtime.begin import Begin
from errorfeedback.runtime.ledger import ownership_bits
from errorfeedback.runtime.resuming import resume
from errorfeedback.runtime.solve import Result, solve
from errorfeedback.runtime.stopping import EstimatedGap, RelativeDecrease, Stop
from errorfeedback.runtime.validation import Validation
from errorfeedback.storage.checkpoint import Checkpoint, Folder

INTERCEPTS = ("topk", "exact")
OF_ITSELF = 0.1
"""The share of the tolerance by which the loss must still fall, where nothing estimates what is left."""
AUTO = "auto"
"""A k that is left to us."""
DENSELY = 1000
"""The first rounds of a run, of which every one is recorded."""


@dataclass(frozen=True)
class TrainingSettings:
    """How a model is trained.

    k: numbers per client and round, by TopK; "auto": as many as `planner.top_k_choice` says; None: every number in few bits
    (`planner.recipe`). intercept: with k, "topk" (a feature like any other) or "exact" (sent every round). networks: the
    link of every client, for which the choice is made; None: fewest bytes. tolerance: what is left of all progress when the
    run may stop.
    """

    k: int | str | None = None
    intercept: str = "topk"
    rounds: int = 1000
    seed: int = 0
    networks: tuple[Network, ...] | None = None
    tolerance: float = 1e-5
    every: int = 10
    """Rounds between those that are recorded, after the first DENSELY, of which all are."""

    def __post_init__(self) -> None:
        if isinstance(self.k, str) and self.intercept == "exact":
            raise ValueError(
                f"k = {self.k!r} with intercept = 'exact': a client that chooses its numbers sends the intercept's where it "
                "is among them; use intercept='topk', or a number for k"
            )

    def recipe(self, objective: Objective, begin: Begin | None) -> Recipe:
        smooth = objective.prox is None or objective.prox.smooth
        if isinstance(self.k, str):
            return chosen_top_k(objective.problem.support, self.networks, smooth)
        if self.k is not None:
            return top_k(compressor_of(objective, self.k, self.intercept))
        recipe = few_bits(objective.problem, self.networks, self.tolerance, begin, objective.prox)
        if objective.own is None:
            return recipe
        share = f"in {100 * objective.own.share:.0f}% of the rows"
        return replace(recipe, why=f"{recipe.why}; features that only one client has, {share}, are left to it until the end")

    def stops(self, recipe: Recipe) -> tuple[Stop, ...]:
        """When it is good enough."""
        if not self.tolerance:
            return ()
        searches = recipe.stepsize.searches
        return (EstimatedGap(self.tolerance) if searches else RelativeDecrease(OF_ITSELF * self.tolerance),)


@dataclass(frozen=True)
class Before:
    """Bytes of a client, on average, before round 1; and after the last one, which are counted from the start on."""

    ownership: float
    """Which features it has."""
    scaling_up: float
    """A power of two for the curvature of each of its features."""
    scaling_down: float
    """The common scale of each of them."""
    smoothness: float
    """Its L_i, for the first step."""
    own_model: float
    """The model of its own rows, for the start."""
    own_weights: float
    """Not before: those of features that only it has, where they were left to it. It says them at the end."""
    start_up: float
    """Round 0: its loss at the start, and its first message where there is one."""
    start_down: float
    """Round 0: the start, on its features."""

    @property
    def up(self) -> float:
        return self.ownership + self.scaling_up + self.smoothness + self.own_model + self.start_up

    @property
    def down(self) -> float:
        return self.scaling_down + self.start_down


@dataclass(frozen=True, eq=False)
class Trained:
    """A model in the units of the data, and the run that made it."""

    x: PerColumn
    run: Result
    loss: float
    """f + R at x."""
    penalty: float
    """R at x."""
    validation_loss: float
    """The loss on held-out rows at x; nan without."""
    before: Before
    recipe: Recipe
    after: PerClient
    """Bits that every client sends after the last round."""

    @property
    def traffic(self) -> tuple[PerClient, PerClient, PerClient]:
        """Bits of every client's message up and of its part of x down, in a round, and of what it says after the last."""
        return *traffic(self.run.theory), self.after

    @property
    def bytes_up(self) -> float:
        """Sent by a client, on average."""
        return float(self.run.history["uplink_bits"][-1]) / 8 / self.run.theory.n

    @property
    def bytes_down(self) -> float:
        """Received by a client, on average."""
        return float(self.run.history["downlink_bits"][-1]) / 8 / self.run.theory.n


def train(
    objective: Objective,
    settings: TrainingSettings,
    *,
    x0: PerColumn | None = None,
    stop: Sequence[Stop] = (),
    held: HeldOut | None = None,
    watch: Callable[[dict[str, float]], None] | None = None,
    engine: Engine | None = None,
    checkpoint: Checkpoint | None = None,
) -> Trained:
    """Minimise the objective as the settings say. With `held` the run stops when the loss on these rows has
    stopped falling, and returns the last model as good as the best on them. A run that is in the folder of `checkpoint`
    already is gone on with."""
    engine = Local() if engine is None else engine
    held = None if held is None else held.at(objective.problem, objective.model(np.ones(objective.problem.d)))
    given = None if x0 is None else Begin(objective.start(x0))
    recipe = settings.recipe(objective, objective.begin if given is None else given)
    start = recipe.begin if given is None else given
    stops = (*settings.stops(recipe), *stop, *(() if held is None else (Validation(held),)))
    if checkpoint is not None and engine.converse(lambda seat: _begun(checkpoint)):
        expected = {
            "method": recipe.method,
            "rounds": settings.rounds,
            "seed": settings.seed,
            "prox": objective.prox,
            "stop": stops,
        }
        run = resume(checkpoint.folder, problem=objective.problem, engine=engine, watch=watch, expected=expected)
    else:
        run = solve(
            objective.problem,
            recipe.method,
            recipe.stepsize,
            direction=recipe.direction,
            downlink=recipe.downlink,
            rounds=settings.rounds,
            x0=start,
            seed=settings.seed,
            every=settings.every,
            densely=DENSELY,
            metrics=engine.observes and not recipe.stepsize.searches,  # which hears f in every round
            engine=engine,
            prox=objective.prox,
            stop=stops,
            watch=watch,
            checkpoint=checkpoint,
        )
    z = objective.problem.restrict(run.x)
    judged = nan if held is None else float(np.mean(held(z)))
    x, penalty = objective.unscaled(run.x), objective.penalty(z)
    loss, before = objective.value(z, engine), _before(objective, run, start)
    if objective.own is not None:
        columns, weights = engine.own_weights(objective.problem, z)
        x[columns] = weights
        penalty += objective.l2 / 2 * float(np.sum(x[objective.own.columns] ** 2))
    after = PerClient(np.zeros(run.theory.n)) if objective.own is None else objective.own.weights
    return Trained(x, run, loss, penalty, judged, before, recipe, after)


def _begun(checkpoint: Checkpoint) -> Conversation[bool]:
    """Whether rank 0, which writes the checkpoints, has some of this run."""
    return bool((yield Folder(Path(checkpoint.folder)).run.exists())[0])


def _before(objective: Objective, run: Result, start: Begin | None) -> Before:
    """What the first row of the books is made of."""
    n, asked = 8 * run.theory.n, 0 if start is None else start.bits
    listed, weights = (0, 0) if objective.own is None else (objective.own.listed, int(objective.own.weights.sum()))
    up, down = setup_bits(objective.problem)
    rough = run.stepsize.setup_bits(objective.problem) * run.theory.n
    owned = ownership_bits(objective.problem)
    first_up, first_down = (float(run.history[name][0]) for name in ("uplink_bits", "downlink_bits"))
    rest = first_up - up - rough - owned - asked
    return Before(
        ownership=(owned + listed) / n,
        scaling_up=(up - listed - weights) / n,
        scaling_down=down / n,
        smoothness=rough / n,
        own_model=asked / n,
        own_weights=weights / n,
        start_up=rest / n,
        start_down=(first_down - down) / n,
    )


def compressor_of(objective: Objective, k: int, intercept: str) -> Contractive:
    """TopK, or TopK beside the intercepts, sent every round."""
    if intercept == "topk" or not objective.free:
        return TopK(k)
    return ExactOnCommon(np.flatnonzero(np.isin(objective.problem.columns, objective.free)).tolist(), k)
