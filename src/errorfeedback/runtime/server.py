"""The server side of a run: one loop for every method, direction, rule, downlink and engine.

Round t = 0, 1, ..., `rounds`: the clients hear where x^t is and answer, the server forms its estimate g, the direction and
gamma^t, the round is recorded where it is due, and x^{t+1} is where the downlink takes everybody on the way to
prox_{gamma^t R}(x^t - gamma^t direction); R = 0 unless a proximal term is given. A rule may keep a point and go back to it
(`Verdict`); then the best of its points is returned. A rule that searches refuses steps: a direction is made at every
accepted point, and what is refused is undone on both sides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import isnan, nan

import numpy as np

from errorfeedback.clients.order import Order
from errorfeedback.core import Lifted, Model, PerClient, Round
from errorfeedback.directions.base import Direction, Hessians
from errorfeedback.downlinks.base import Downlink, Step, first_told, step_bits
from errorfeedback.engines.base import Session
from errorfeedback.methods.base import Method
from errorfeedback.probes.base import Hearing, answers_of, column_of, widths_of
from errorfeedback.probes.losses import KnownLosses, Losses
from errorfeedback.problems.base import Twice
from errorfeedback.problems.proximal import ElasticNet
from errorfeedback.runtime.checkpointing import StateWriter
from errorfeedback.runtime.clock import Clock
from errorfeedback.runtime.guard import LAST, Guard
from errorfeedback.runtime.ledger import Ledger
from errorfeedback.runtime.observer import Observer, norm2
from errorfeedback.runtime.snapshot import Snapshots
from errorfeedback.runtime.state import State
from errorfeedback.runtime.stopping import Progress, Stops
from errorfeedback.sparsity.pairs import apart
from errorfeedback.sparsity.support import Support
from errorfeedback.stepsizes.base import Move, StepSize, Telemetry, Verdict
from errorfeedback.sums import dot
from errorfeedback.theory.analysis import Theory
from errorfeedback.wire.message import Message, Presence

Watch = Callable[[dict[str, float]], None]


@dataclass(frozen=True, eq=False)
class Ended:
    """What a run comes back with."""

    x: Model
    returned: str
    """Which point x is."""
    stopped: str
    rounds: int
    rows: list[dict[str, float]]


@dataclass(eq=False)
class Server:
    """One run."""

    method: Method
    direction: Direction
    stepsize: StepSize
    downlink: Downlink
    prox: ElasticNet | None
    theory: Theory
    stops: Stops
    ledger: Ledger
    observer: Observer
    since: float = nan
    """The loss from which progress is counted; nan: that of the first x."""

    def __post_init__(self) -> None:
        d, dtype, self.n = self.theory.d, self.theory.problem.dtype, self.theory.n
        self.total, self.scratch = np.empty((2, d), dtype=dtype)  # scratch: a round allocates nothing of size d
        self.beside = self._beside()
        self.rows: list[dict[str, float]] = []
        self.guard = Guard(self.stops, self.observer, self.stepsize.searches)
        self.snapshots = Snapshots(self.ledger, self.stops, self.rows)

    def _beside(self) -> ElasticNet | None:
        """What of the penalty is not in the gradient that directions are made of."""
        if self.prox is None or self.method.adds_penalty:
            return None
        if not self.direction.adds_penalty:
            return self.prox
        return None if self.prox.smooth else self.prox.rough

    def run(
        self,
        session: Session,
        x: Model,
        rounds: int,
        seed: int,
        due: Callable[[int], bool],
        metrics: bool,
        watch: Watch | None,
        writer: StateWriter | None,
    ) -> Ended:
        self.direction.rehearse(x, self.beside is not None)
        first, s, clock, watched = 0, self._begin(x), Clock(), bool(self.stops)
        commands, asking, along_g = self.stepsize.commands, self.direction.hessians, self.direction.is_estimate
        fitted = len(self.downlink.codings) > 1
        if writer is not None and writer.snapshot is not None:
            first, s, clock = self.snapshots.recall(writer.snapshot, session)
            if writer.snapshot["stopped"]:
                return Ended(*self.guard.choice(session, s), writer.snapshot["stopped"], first - 1, self.rows)
        step = self._first_step(s)
        for t in range(first, rounds + 1):
            probes = self.stepsize.ask(s.rule)
            curvature = asking is not None and self.direction.asks(s.direction, s.gained)
            ctx = Round(t, seed, step_bits(s.broadcast) if fitted and t else 0)
            finely = curvature and self.direction.finely(s.direction)
            if curvature and asking is not None:
                ctx.step_bits = max(ctx.step_bits, asking.bits(finely))
            order = Order(ctx, s.x, s.broadcast, probes, s.verdict, curvature, finely, s.downlink, self.guard.kept(s))
            messages = session.round(order)
            g = self._estimate(s, order, messages)
            telemetry = self._telemetry(s, order, messages, session, g) if probes else None
            direction = g if along_g and telemetry is None else self._direction(s, g, telemetry, messages)
            gamma, s.rule = self.stepsize.next(s.rule, self.theory, self.method, telemetry)
            if commands:
                s.verdict = self.stepsize.verdict(s.rule)
            stopped = self._stopped(t, rounds, s, telemetry, clock) if watched or t == rounds else ""
            if due(t) or stopped:
                heard = telemetry.loss if telemetry is not None and self.stepsize.searches else None
                row = self._record(t, gamma, s, session, g, clock, metrics, watch, heard)
                if not np.isfinite(row.get("f", 0.0)) and s.kept is None:
                    return Ended(s.x, LAST, f"diverged: f is not finite at round {t}", t, self.rows)
            if s.verdict is Verdict.KEEP:
                self.guard.keep(s, telemetry)
            if stopped:
                self._save(writer, t, stopped, s, clock, session)
                return Ended(*self.guard.choice(session, s), stopped, t, self.rows)
            if commands and s.verdict.goes_back:
                self.guard.restore(s)
            if s.verdict is not Verdict.RESTORE:
                self._advance(s, t, step.next(direction, gamma, watched or telemetry is not None))
            if writer is not None:
                self._save(writer, t, "", s, clock, session)
        raise AssertionError("the last round stops")

    def _begin(self, x: Model) -> State:
        memory = self.direction.start(x)
        if self.direction.adds_penalty and self.beside is not None:
            memory = self.direction.with_l1(memory, Model(np.broadcast_to(np.asarray(self.beside.l1), x.shape).copy()))
        return State(
            x=x,
            method=None,
            direction=memory,
            rule=self.stepsize.start(self.theory, self.method),
            downlink=self.downlink.start(x),
            broadcast=first_told(x, self.downlink.codings, self.theory.support),
            first=None if isnan(self.since) else self.since,
        )

    def _estimate(self, s: State, order: Order, messages: list[Message]) -> Model:
        """g from the mean message, which is added up in client order: the number of shards changes no bit."""
        t, ledger = order.ctx.t, self.ledger
        telemetry_bits = int(widths_of(order.probes, ledger.value_bits).sum()) if order.probes else 0
        ledger.exchanged(order.broadcast, messages, telemetry_bits, t == 0, self.method.rests)
        first, last = messages[0], messages[-1]
        for message in messages:
            message.scatter(self.total, message is first, self.n if message is last else 0)
        if t == 0:
            g, s.method = self.method.server_init(self.total, order.ctx)
        else:
            g, s.method = self.method.server(s.method, self.total, order.ctx)
        if order.curvature:
            self._bend(s, messages, order.ctx.seed)
        return g

    def _bend(self, s: State, messages: list[Message], seed: int) -> None:
        """What the clients told of their Hessians, summed in client order."""
        problem, asking = self.theory.problem, self.direction.hessians
        bent = [m.curvature for m in messages if m.curvature is not None]
        assert isinstance(problem, Twice), "clients without Hessians refuse to tell them"
        assert asking is not None, "the direction has asked"
        if not bent:  # nobody was there
            return
        support = asking.told_by(problem.support, seed)
        self.ledger.bent(bent)
        s.missing = missing = PerClient(np.full(self.n, np.nan) if s.missing is None else s.missing.copy())
        tellers = asking.among(self.n, seed)
        for message in bent:
            assert message.telemetry is not None, "it says what is missing"
            missing[tellers[message.support.first :][: message.support.n]] = message.telemetry[:, 0]
        l2 = np.zeros(problem.d) if self.prox is None else np.broadcast_to(np.asarray(self.prox.l2), (problem.d,))
        mean = _mean(bent, support, self.n)
        answer = Hessians(mean, missing, problem.hessian_units, l2, problem.support, support)
        s.direction = self.direction.bent(s.direction, answer)

    def _telemetry(self, s: State, order: Order, messages: list[Message], session: Session, g: Model) -> Telemetry:
        """What the rule asked for: the numbers that came with the messages, and what only a simulation can know."""
        numbers = np.concatenate([message.telemetry for message in messages if message.telemetry is not None])
        hearing = Hearing(
            n=self.n,
            known_slope=s.move.known if s.move else 0.0,
            penalty=lambda: self.observer.penalty(s.x),
            true_error2=lambda: self.observer.error2(session.observe(s.x, losses=False), g),
        )
        answers = answers_of(order.probes, numbers, self.ledger.value_bits, hearing)
        telemetry = Telemetry(answers, s.move)
        telemetry.surprise = sum(message.presence.surprise for message in messages) / self.n
        telemetry.share = _count(messages, lambda each: each.compares) / max(_count(messages, lambda each: not each.left), 1)
        at = column_of(order.probes, Losses, self.ledger.value_bits)
        if at is not None:
            there = np.concatenate([np.full(message.support.n, message.presence.there) for message in messages])
            telemetry.losses = KnownLosses(PerClient(numbers[:, at]), there)
        return telemetry

    def _news(self, messages: list[Message]) -> Model | None:
        """What the mean message has in it beside (m/n) (1/|S|) sum_S c_i, the changes of those who told here and at the last
        accepted point, in place of all m that have not left (`engines.believing`); None: it is that."""
        size, staying = _count(messages, lambda each: each.compares), _count(messages, lambda each: not each.left)
        if size == staying and not any(message.presence.back for message in messages):
            return None
        news, total = np.zeros_like(self.total), np.zeros_like(self.total)
        for message in messages:
            message.scatter(news, False, 0)
            if message.presence.compares:
                message.scatter(total, False, 0)
        return Model((news - total * (staying / max(size, 1))) / self.n)

    def _direction(self, s: State, g: Model, telemetry: Telemetry | None, messages: list[Message]) -> Model:
        """Where to go from the last accepted point: from x, unless a rule that searches refuses the step that led there."""
        adds = self.prox is not None and self.direction.adds_penalty
        if self.prox is not None and adds:
            slopes = self.prox.slopes(s.x)
            slopes += g
            g = slopes
        if telemetry is None or not self.stepsize.searches:
            direction, s.direction = self.direction(s.direction, s.x, g)
            if telemetry is not None:
                telemetry.direction2 = norm2(direction)
            return direction
        telemetry.accepted, news = self.stepsize.accepts(s.rule, telemetry), self._news(messages)
        if telemetry.accepted:
            s.first = telemetry.loss if s.first is None else s.first + telemetry.surprise
            s.gained = None if s.first is None or telemetry.loss is None else s.first - telemetry.loss
            s.gradient = g if adds else Model(g.copy())  # the method's own changes with the next message
            s.direction = s.direction if news is None else self.direction.corrected(s.direction, news)
            s.aim, s.direction = self.direction(s.direction, s.x, s.gradient)
        else:
            aim, s.direction = self.direction.refused(s.direction, s.x, g if news is None else Model(g - news))
            s.aim = s.aim if aim is None else aim
        assert s.aim is not None, "round 0 is accepted"
        assert s.gradient is not None, "likewise"
        telemetry.direction2 = norm2(s.aim)
        promise = self.direction.promise(s.direction, s.gradient, s.aim)
        telemetry.descent, telemetry.length = promise.descent, self.direction.length(s.direction)
        telemetry.gap = promise.gap if telemetry.accepted and telemetry.length is not None else None
        return s.aim

    def _first_step(self, s: State) -> Step:
        """One for all rounds."""
        prox, rough = (None, self.beside) if self.direction.adds_penalty else (self.beside, None)
        return Step(s.x, 0.0, prox, self.scratch, False, lambda: self.direction.quadratic(s.direction), rough)

    def _advance(self, s: State, t: int, step: Step) -> None:
        """Everybody's step, and what the rule may know of it."""
        before = None if self.beside is None or s.gradient is None else Model(s.x.copy())
        s.broadcast, s.downlink = self.downlink.send(s.downlink, s.x, step)
        if self.method.stands(t) and self.prox is None:
            s.broadcast = None
        if step.asked:
            assert step.taken is not None, f"{self.downlink} must say how it moved"
            estimate = self.method.estimate(s.method)
            known = 0.0 if estimate is None else dot(step.taken, estimate)
            slope = 0.0 if s.gradient is None else dot(step.taken, s.gradient)
            if before is not None and self.beside is not None and s.gradient is not None:
                slope = self.beside.rise(before, step.taken, s.gradient)
            s.move = Move(norm2(step.taken), dot(step.taken, step.direction), step.gamma, known, slope)

    def _stopped(self, t: int, rounds: int, s: State, telemetry: Telemetry | None, clock: Clock) -> str:
        """Why the run ends here, if it does. Every rule sees every round, also the last."""
        mapping = None if s.move is None or not s.move.norm2 else s.move.norm2**0.5 / s.move.gamma
        loss = None if telemetry is None else telemetry.loss
        up, down = self.ledger.uplink / self.n, self.ledger.downlink / self.n
        with clock.paused():
            gap = None if telemetry is None else telemetry.gap
            steep = 0.0 if gap is None else self._steepness(s)
            surprise = telemetry.surprise if telemetry is not None and s.verdict is Verdict.KEEP else 0.0
            share = 1.0 if telemetry is None else telemetry.share
            progress = Progress(t, up, clock.seconds, loss, mapping, s.x, down, gap, s.gained, steep, surprise, share)
            reason = self.stops.after(progress)
        reason = f"ran all {rounds} rounds" if t == rounds else reason
        if reason and self.guard.must_choose(s):
            self.ledger.compared()
        return reason

    def _steepness(self, s: State) -> float:
        """||g||^2 at the accepted x, of the shortest subgradient where the penalty has kinks."""
        assert s.gradient is not None, "an accepted point has one"
        return norm2(s.gradient if self.beside is None else self.beside.shortest_subgradient(s.x, s.gradient))

    def _record(
        self,
        t: int,
        gamma: float,
        s: State,
        session: Session,
        g: Model,
        clock: Clock,
        metrics: bool,
        watch: Watch | None,
        loss: float | None,
    ) -> dict[str, float]:
        """`loss`: what a rule that searches has heard of f in any case."""
        row: dict[str, float] = {
            "round": t,
            "gamma": gamma,
            "seconds": clock.seconds,
            **self.ledger.row,
            **self.stops.columns,
        }
        with clock.paused():
            if metrics:
                row |= self.observer.metrics(gamma, session, s.x, g)
            elif loss is not None:
                row["f"] = loss
            self.rows.append(row)
            if watch is not None:
                watch(row)
        return row

    def _save(self, writer: StateWriter | None, t: int, stopped: str, s: State, clock: Clock, session: Session) -> None:
        """A checkpoint after round t, where one is due."""
        if writer is not None and writer.due(t, bool(stopped)):
            with clock.paused():
                writer.save(t + 1, self.snapshots.take(t + 1, stopped, s, clock, session))


def _count(messages: list[Message], which: Callable[[Presence], bool]) -> int:
    """How many clients' presence is such."""
    return sum(message.support.n for message in messages if which(message.presence))


def _mean(bent: list[Message], tellers: Support, n: int) -> Model:
    """The mean over n clients of what the `tellers` among them say of their Hessians, 0 for those who were away: summed in
    client order, or, where features are many, its parts one after the other."""
    if not apart(tellers.d):
        mean = Model(np.empty(tellers.d * (tellers.d + 1) // 2))
        for k, message in enumerate(bent):
            message.scatter(mean, k == 0, n if k == len(bent) - 1 else 0)
        return mean
    ends = np.concatenate([[0], np.cumsum(tellers.sizes * (tellers.sizes + 1) // 2)])
    parts = Model(np.zeros(ends[-1]))
    for message in bent:
        first = message.support.first
        message.add_to(Lifted(parts[ends[first] : ends[first + message.support.n]]))
    parts /= n
    return parts
