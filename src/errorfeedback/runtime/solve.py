"""`solve`: options are checked, the run is carried out on an engine, and its result says what led to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from errorfeedback.clients.order import Setup
from errorfeedback.core import PerColumn
from errorfeedback.directions.base import Direction
from errorfeedback.directions.steepest import Steepest
from errorfeedback.downlinks.base import Downlink
from errorfeedback.downlinks.whole import Whole
from errorfeedback.engines.base import Engine
from errorfeedback.engines.local import Local
from errorfeedback.methods.base import Method
from errorfeedback.notebook import shown, table
from errorfeedback.plots.run_curves import RunCurves
from errorfeedback.problems.base import Problem, setup_bits
from errorfeedback.problems.proximal import ElasticNet
from errorfeedback.runtime.agreement import agree, of_run
from errorfeedback.runtime.begin import Begin
from errorfeedback.runtime.checkpointing import CheckpointWriter, StateWriter, checkpointing, identity
from errorfeedback.runtime.extending import Extendable, extending
from errorfeedback.runtime.ledger import Ledger, ownership_bits
from errorfeedback.runtime.observer import Observer
from errorfeedback.runtime.server import Server
from errorfeedback.runtime.stopping import Stop, Stops
from errorfeedback.stepsizes.base import StepSize
from errorfeedback.storage.checkpoint import LOG, Checkpoint, Folder
from errorfeedback.storage.history import History
from errorfeedback.theory.analysis import Theory, analyse
from errorfeedback.theory.certificate import Certificate, certify

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

PLOTTED = ("f", "grad_norm2", "gamma")
"""What is worth a look."""


@dataclass(frozen=True, eq=False, repr=False)
class Result:
    """The model and what led to it.

    >>> import errorfeedback as ef
    >>> problem = ef.synthetic(n=10, d=20, m=3, c=2)
    >>> result = ef.solve(problem, ef.EF21(ef.TopK(1)), ef.RareFeatures(), rounds=200, every=100)
    >>> result.stopped, result.certificate.verdict, len(result.x)
    ('ran all 200 rounds', 'held', 20)
    >>> list(result.facts())
    ['rounds', 'f', '||grad f||^2', 'step', 'bytes up per client', 'bytes down per client', 'stopped', 'certificate']
    """

    x: PerColumn
    """One entry per column of the data."""
    history: History
    """A row for every round that was recorded."""
    theory: Theory
    """The constants of the problem with the compressor."""
    method: Method
    """With all that it chose for the problem."""
    stepsize: StepSize
    """The rule."""
    rounds: int
    """Rounds that were run."""
    every: int
    """How far apart the recorded rounds are."""
    stopped: str
    """Why the run ended."""
    returned: str
    """Which point x is."""
    f_star: float
    """The lower bound on f that the Lyapunov function uses."""
    certificate: Certificate
    """Whether the theorem behind the step size held along the run."""

    def facts(self) -> dict[str, object]:
        """What there is to say about the run in a few words; metrics that were switched off are left out."""
        h, n = self.history, self.theory.n
        metrics = {"f": "f", "||grad f||^2": "grad_norm2", "step": "gamma"}
        return {
            "rounds": self.rounds,
            **{name: float(h[column][-1]) for name, column in metrics.items() if not np.isnan(h[column]).all()},
            "bytes up per client": round(h["uplink_bits"][-1] / 8 / n),
            "bytes down per client": round(h["downlink_bits"][-1] / 8 / n),
            "stopped": self.stopped,
            "certificate": self.certificate.verdict,
        }

    def plot(self, *columns: str) -> Canvas:
        """Columns of the history (f, ||grad f||^2 and the step, where they are known) over kB up, and up and down, per
        client: a figure of matplotlib, with `savefig`."""
        draw = import_module("errorfeedback.plots.draw")  # matplotlib takes its time to import: only where it is used
        known = [name for name in PLOTTED if not np.isnan(self.history[name]).all()]
        canvas: Canvas = draw.draw(RunCurves(self.history, self.theory.n).panels(columns or known))
        return canvas

    def __repr__(self) -> str:
        facts = ", ".join(f"{name}: {shown(value)}" for name, value in self.facts().items())
        return f"<Result: {self.method} with {self.stepsize}; {facts}>"

    def _repr_html_(self) -> str:
        return table(f"{self.method} with {self.stepsize}", list(self.facts().items()))


def solve(
    problem: Problem,
    method: Method,
    stepsize: StepSize,
    *,
    direction: Direction | None = None,
    downlink: Downlink | None = None,
    rounds: int,
    x0: PerColumn | Begin | None = None,
    seed: int = 0,
    every: int = 1,
    densely: int = 0,
    metrics: bool = True,
    engine: Engine | None = None,
    f_star: float | None = None,
    watch: Callable[[dict[str, float]], None] | None = None,
    prox: ElasticNet | None = None,
    stop: Sequence[Stop] = (),
    checkpoint: Checkpoint | Extendable | None = None,
) -> Result:
    """Run `rounds` rounds from `x0` (zeros by default, or where a problem of your own starts) and record every `every`-th,
    the first `densely` and the last.

    `method` is how the gradient of the `problem` is estimated under compression, `stepsize` how far to go, `seed` what
    random draws are keyed by, `engine` where the clients live (`Local()`). `direction` is what the server makes of the
    estimate (`Steepest()`), `downlink` how its step reaches the clients (`Whole()`: x on J_i). `metrics=False` records
    rounds, step sizes, bits and seconds only, and f where a rule hears it in every round. `f_star` is a lower bound on f
    (the problem's own by default). `watch` sees every recorded row, with the clock stopped. `prox` is added to f by the
    server alone; f in the history includes it, grad_norm2 does not. `stop` ends the run early (`runtime.stopping`).
    `checkpoint` says where and how often the state is written (with the clock stopped) from which `resume` goes on;
    `Extendable(file)` keeps what the same call with more rounds goes on from.

    >>> import errorfeedback as ef
    >>> problem = ef.synthetic(n=10, d=20, m=3, c=2)
    >>> result = ef.solve(problem, ef.EF21(ef.TopK(1)), ef.RareFeatures(), rounds=200, every=100)
    >>> result.history["round"]
    array([  0, 100, 200])
    """
    for name, number, least in (("rounds", rounds, 0), ("every", every, 1), ("densely", densely, 0), ("seed", seed, 0)):
        if not isinstance(number, (int, np.integer)) or number < least:
            raise ValueError(f"{name} = {number}; it must be a whole number of at least {least}")
    direction = Steepest() if direction is None else direction
    downlink = Whole() if downlink is None else downlink
    missing = method.lacking(problem)
    if missing:
        raise ValueError(f"{method} does not fit the problem: {missing}")
    stepsize.check(method, direction)
    stepsize.check_downlink(downlink)
    direction.check(prox)
    method.check_penalty(prox)
    downlink.check(method, prox)
    begin = x0 if isinstance(x0, Begin) else Begin(problem.x0 if x0 is None else x0)
    options: dict[str, Any] = {
        "method": method,
        "stepsize": stepsize,
        "direction": direction,
        "downlink": downlink,
        "rounds": int(rounds),
        "x0": _checked_start(problem, begin.x),
        "asked": int(begin.bits),
        "since": float(begin.since),
        "seed": int(seed),
        "every": int(every),
        "densely": int(densely),
        "metrics": metrics,
        "f_star": problem.lower_bound if f_star is None else f_star,
        "prox": prox,
        "stop": tuple(stop),
    }
    engine = Local() if engine is None else engine
    engine.converse(lambda seat: agree(lambda: of_run(problem, engine, options), seat))
    if checkpoint is None:
        return carry_out(problem, **options, engine=engine, watch=watch, writer=None)
    with _writing(problem, options, checkpoint, engine) as writer:
        return carry_out(problem, **options, engine=engine, watch=watch, writer=writer)


def _writing(
    problem: Problem, options: dict[str, Any], checkpoint: Checkpoint | Extendable, engine: Engine
) -> AbstractContextManager[StateWriter | None]:
    """Who keeps the state of the run."""
    if isinstance(checkpoint, Extendable):
        return extending(checkpoint, problem, options, engine)
    return checkpointing(Folder(Path(checkpoint.folder)), engine, lambda: _begun(problem, options, checkpoint))


def _begun(problem: Problem, options: dict[str, Any], checkpoint: Checkpoint) -> CheckpointWriter:
    """The writer of a new run's checkpoints; the run is described on the disk."""
    writer = CheckpointWriter(checkpoint, identity(problem, options))
    run = {"identity": writer.identity, "options": options, "checkpoint": replace(checkpoint, folder=str(checkpoint.folder))}
    writer.folder.begin(problem, run)
    return writer


def carry_out(
    problem: Problem,
    *,
    method: Method,
    stepsize: StepSize,
    direction: Direction,
    downlink: Downlink,
    rounds: int,
    x0: PerColumn,
    asked: int,
    since: float,
    seed: int,
    every: int,
    densely: int,
    metrics: bool,
    f_star: float,
    prox: ElasticNet | None,
    stop: Sequence[Stop],
    engine: Engine,
    watch: Callable[[dict[str, float]], None] | None,
    writer: StateWriter | None,
) -> Result:
    """`solve` with every option checked and filled in, from the start or from the writer's checkpoint."""
    method = method.bind(problem.support).suited(problem)
    theory = analyse(problem, method.compressor)
    if method.reads_steps:
        method = method.knowing(stepsize.constant(theory, method))
    for rule in stop:
        rule.check(stepsize)
    prox = None if prox is None else prox.on(problem)

    def due(t: int) -> bool:
        return t < densely or t % every == 0

    proof = stepsize.proof(theory, method)
    ledger = Ledger(problem.support, 8 * problem.dtype.itemsize, stepsize.commands)
    up, down = setup_bits(problem)
    rough = stepsize.setup_bits(problem) * problem.n
    ledger.prepared(up + asked + rough, down, ownership_bits(problem))
    observer = Observer(theory, proof, f_star, prox)
    server = Server(method, direction, stepsize, downlink, prox, theory, Stops(stop), ledger, observer, since)
    start = problem.restrict(x0).copy()
    LOG.info("%s with %s on %s, at most %d rounds", method, stepsize, problem, rounds)
    setup = Setup(method, downlink, start.copy(), stepsize.commands, direction.hessians)
    engine.check(setup, stepsize.ask(stepsize.start(theory, method)), metrics)
    session = engine.open(problem, setup)
    try:
        with np.errstate(over="ignore", invalid="ignore"), nullcontext() if writer is None else writer.listening():
            ended = session.carry(lambda: server.run(session, start, rounds, seed, due, metrics, watch, writer))
    finally:
        session.close()
    LOG.info("%s at round %d", ended.stopped, ended.rounds)
    history = History(ended.rows, (*stepsize.notes(theory, method), *session.notes))
    if prox is not None or not downlink.lossless:
        proof = None  # a certificate checks ||grad f||^2, which says nothing with a penalty, and steps that everybody takes
    return Result(
        x=problem.extend(ended.x, x0),
        history=history,
        theory=theory,
        method=method,
        stepsize=stepsize,
        rounds=ended.rounds,
        every=every,
        stopped=ended.stopped,
        returned=ended.returned,
        f_star=f_star,
        certificate=certify(
            history, method, type(stepsize).__name__, proof, problem.dtype, estimated=theory.smoothness.estimated
        ),
    )


def _checked_start(problem: Problem, x0: PerColumn) -> PerColumn:
    x = np.asarray(x0, dtype=np.float64)
    if x.shape != (problem.width,):
        raise ValueError(f"x0 has shape {x.shape}; it needs one entry per column of the data, ({problem.width},)")
    if not np.isfinite(x).all():
        raise ValueError(f"x0[{int(np.flatnonzero(~np.isfinite(x))[0])}] is not finite")
    return x
