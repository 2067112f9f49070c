"""The server side of a run: one loop for every method, rule and engine, its books, and what a checkpoint holds.

Round t = 0, 1, ..., `rounds`: the clients answer at x^t, the server forms its direction and gamma^t, the round is
recorded where it is due, and x^{t+1} = prox_{gamma^t R}(x^t - gamma^t direction); R = 0 unless a proximal term is given.
A rule may keep a point and go back to it (`Verdict`); then the best of its points is returned.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any

import numpy as np

from errorfeedback.compressors.base import Message
from errorfeedback.compressors.frames import LOSS_FRAME_BITS
from errorfeedback.core import NOTHING, VALUE_BITS, Ask, Model, PerClient, Round
from errorfeedback.methods.base import Method
from errorfeedback.problems.base import Problem
from errorfeedback.problems.proximal import ElasticNet
from errorfeedback.records.clock import Clock
from errorfeedback.runtime.keeper import Keeper
from errorfeedback.runtime.local import Session
from errorfeedback.runtime.sketch import estimate
from errorfeedback.runtime.stopping import Progress, Stop
from errorfeedback.runtime.worker import Observation
from errorfeedback.sparsity.support import descend
from errorfeedback.stepsizes.base import Move, StepSize, Telemetry, Verdict
from errorfeedback.stepsizes.proof import Proof
from errorfeedback.stepsizes.theory import Theory

LAST, BEST = "the last point", "the point with the lowest loss among those that the clients told it at"


class Server:
    """The server's memory during one run."""

    def __init__(
        self,
        problem: Problem,
        method: Method,
        stepsize: StepSize,
        theory: Theory,
        f_star: float,
        prox: ElasticNet | None,
        stop: Sequence[Stop],
    ) -> None:
        self.support, self.method, self.stepsize, self.theory = problem.support, method, stepsize, theory
        self.f_star, self.prox, self.stop = f_star, prox, stop
        self.stop_states = [rule.start() for rule in stop]
        self.move: Move | None = None
        self.kept: tuple[Model, Any] | None = None
        self.proof: Proof | None = stepsize.proof(theory, method)
        self.total, self.step = np.empty((2, problem.d), dtype=problem.dtype)  # scratch: a round allocates nothing of size d
        self.value_bits = 8 * problem.dtype.itemsize
        self.uplink, self.downlink = problem.setup_bits
        self.uplink += stepsize.setup_bits * problem.n
        self.payload, self.authors = self.uplink, 0
        # a client gets its own coordinates of x, and the rule's commands
        self.broadcast_bits = self.value_bits * self.support.size + stepsize.command_bits * self.support.n
        self.rows: list[dict[str, float]] = []

    def run(
        self,
        session: Session,
        x: Model,
        rounds: int,
        seed: int,
        due: Callable[[int], bool],
        metrics: bool,
        watch: Callable[[dict[str, float]], None] | None,
        keeper: Keeper | None,
    ) -> tuple[Model, str, str, int]:
        rule = self.stepsize.start(self.theory, self.method)
        clock = Clock()
        state, first = None, 0
        if keeper is not None and keeper.found is not None:
            first, x, state, rule = self._recall(keeper.found, session)
            clock = Clock(keeper.found["seconds"])
            if keeper.found["stopped"]:
                return *self._returned(session, x), keeper.found["stopped"], first - 1
        for t in range(first, rounds + 1):
            ask = self.stepsize.ask(rule)
            ctx = Round(t, seed, ask)
            if t == 0:
                messages = session.start(x, ctx)
                direction, state = self.method.server_init(self._received(messages, ask, first=True), ctx)
            else:
                messages = session.round(x, ctx)
                direction, state = self.method.server(state, self._received(messages, ask), ctx)
            telemetry = None if ask is NOTHING else self._telemetry(ask, messages, session, x, direction)
            gamma, rule = self.stepsize.next(rule, self.theory, self.method, telemetry)
            verdict = self.stepsize.verdict(rule)
            stopped = self._stopped(t, rounds, x, telemetry, verdict, clock) if self.stop or t == rounds else ""
            if due(t) or stopped:
                seconds = clock.seconds
                with clock.paused():
                    row = self._record(t, gamma, seconds, session, x, direction if metrics else None)
                    if watch is not None:
                        watch(row)
                if not np.isfinite(row.get("f", 0.0)) and self.kept is None:
                    return x, LAST, f"diverged: f is not finite at round {t}", t
            if verdict is Verdict.KEEP:
                self.kept = x.copy(), deepcopy(state)
                session.keep()
            if stopped:
                self._save(keeper, t, stopped, x, state, rule, clock, session)
                return *self._returned(session, x), stopped, t
            if verdict is Verdict.RESTORE:
                x, state = self._back()
                session.restore()
            else:
                self._advance(x, direction, gamma, ask, state)
            self._save(keeper, t, "", x, state, rule, clock, session)
        raise AssertionError("the last round stops")

    def _save(
        self, keeper: Keeper | None, t: int, stopped: str, x: Model, state: Any, rule: Any, clock: Clock, session: Session
    ) -> None:
        """A checkpoint after round t, where one is due."""
        if keeper is not None and keeper.due(t, bool(stopped)):
            with clock.paused():
                keeper.save(t + 1, self._snapshot(t + 1, stopped, x, state, rule, clock.seconds, session))

    def _snapshot(
        self, t: int, stopped: str, x: Model, state: Any, rule: Any, seconds: float, session: Session
    ) -> dict[str, Any]:
        """All that round t and those after it depend on; random draws depend on (seed, t) only."""
        return {
            "round": t,
            "stopped": stopped,
            "x": x,
            "server": state,
            "rule": rule,
            "move": self.move,
            "kept": self.kept,
            "stop": self.stop_states,
            "clients": session.memory(),
            "bits": (self.uplink, self.payload, self.downlink, self.authors),
            "rows": {name: np.array([row[name] for row in self.rows]) for name in self.rows[0]},
            "seconds": seconds,
        }

    def _recall(self, found: dict[str, Any], session: Session) -> tuple[int, Model, Any, Any]:
        """Go back to a snapshot: the round it is before, x, and the memory of server and rule."""
        self.uplink, self.payload, self.downlink, self.authors = found["bits"]
        self.move, self.kept = found["move"], found["kept"]
        self.stop_states = found["stop"]
        columns = {name: column.tolist() for name, column in found["rows"].items()}
        self.rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        session.recall(found["clients"])
        return found["round"], found["x"], found["server"], found["rule"]

    def _advance(self, x: Model, direction: Model, gamma: float, ask: Ask, state: Any) -> None:
        """x = prox_{gamma R}(x - gamma direction), and what the rule may know of the move."""
        asked = ask.slope or self.stop
        if self.prox is None:
            descend(x, direction, gamma, self.step if asked else self.step[:0])
        else:
            self.step[:] = x
            x -= gamma * direction
            self.prox.step(x, gamma)
            np.subtract(x, self.step, out=self.step)
        if asked:
            estimate = self.method.estimate(state)
            known = 0.0 if estimate is None else float(np.vdot(self.step, estimate))
            self.move = Move(_norm2(self.step), float(np.vdot(self.step, direction)), gamma, known)

    def _back(self) -> tuple[Model, Any]:
        """What was kept; the next round is at the same point again."""
        assert self.kept is not None, "a rule keeps a point before it goes back"
        self.move = None
        return self.kept[0].copy(), deepcopy(self.kept[1])

    def _torn(self, x: Model, verdict: Verdict = Verdict.GO) -> bool:
        """Whether the end has to choose between x and the point that was kept."""
        chosen = verdict is Verdict.KEEP or bool(self._choices())
        return self.kept is not None and not chosen and not np.array_equal(x, self.kept[0])

    def _close(self, x: Model, verdict: Verdict) -> None:
        """On the books: the exact loss at both points, where the end has to choose."""
        if self._torn(x, verdict):
            self.uplink += 2 * LOSS_FRAME_BITS * self.support.n
            self.payload += 2 * VALUE_BITS * self.support.n

    def _returned(self, session: Session, x: Model) -> tuple[Model, str]:
        """The point that a stopping rule chose; else the better one of x and the point that was kept, by the exact loss."""
        for choice in self._choices():
            return choice
        if self.kept is None or not self._torn(x):
            return x, LAST
        best = self.kept[0]
        if self._objective(session.values(x), x) <= self._objective(session.values(best), best):
            return x, LAST
        return best, BEST

    def _choices(self) -> list[tuple[Model, str]]:
        """The points that stopping rules would return, and what they are."""
        chosen = (rule.choice(state) for rule, state in zip(self.stop, self.stop_states, strict=True))
        return [each for each in chosen if each is not None]

    def _objective(self, losses: PerClient, x: Model) -> float:
        return float(np.mean(losses)) + (0.0 if self.prox is None else self.prox.value(x))

    def _stopped(self, t: int, rounds: int, x: Model, telemetry: Telemetry | None, verdict: Verdict, clock: Clock) -> str:
        """Why the run ends here, if it does. Every rule sees every round, also the last."""
        loss = None if telemetry is None else telemetry.loss
        mapping = None if self.move is None or not self.move.norm2 else self.move.norm2**0.5 / self.move.gamma
        n = self.support.n
        seen = Progress(t, self.uplink / n, clock.seconds, loss, mapping, x, self.downlink / n)
        with clock.paused():
            looked = [rule.next(state, seen) for rule, state in zip(self.stop, self.stop_states, strict=True)]
        reasons, self.stop_states = [reason for reason, _ in looked], [state for _, state in looked]
        reason = f"ran all {rounds} rounds" if t == rounds else next(filter(None, reasons), "")
        if reason:
            self._close(x, verdict)
        return reason

    def _received(self, messages: list[Message], ask: Ask, first: bool = False) -> Model:
        """The mean message, and its bits on the books. Added up in client order: the number of shards changes no bit."""
        told = 0 if ask is NOTHING else ask.bits(self.value_bits)
        up, down, last = 0, self.broadcast_bits, len(messages) - 1
        for k, message in enumerate(messages):
            frames = message.frames
            bits, payload, authors = frames.cost(told, self.value_bits)
            up += bits
            self.payload += payload
            if frames.absent and not told:  # a client that has to tell something needs x
                down -= self.value_bits * frames.absent
            if not first:
                self.authors += authors
            message.scatter(self.total, k == 0, self.support.n if k == last else 0)
        self.uplink += up
        if up:  # a client that has nothing to send (EF21's zero start) need not know x
            self.downlink += down
        return self.total

    def _telemetry(self, ask: Ask, messages: list[Message], session: Session, x: Model, g: Model) -> Telemetry:
        """What the rule asked for: the numbers that came with the messages, and what only a simulation can know."""
        told = np.concatenate([message.told for message in messages if message.told is not None])
        if ask.full_gradient:
            return Telemetry(told[:, 0], self._error2(session.observe(x, losses=False), g))
        error2 = estimate(told[:, -ask.sketch :].sum(axis=0), self.support.n) if ask.sketch else None
        return Telemetry(
            G_i=told[:, bool(ask.slope) + bool(ask.loss)] if ask.G else None,
            error2=error2,
            slope=float(np.mean(told[:, 0])) + (self.move.known if self.move else 0.0) if ask.slope else None,
            loss=self._objective(told[:, int(bool(ask.slope))], x) if ask.loss else None,
            move=self.move,
            direction2=_norm2(g),
        )

    def _error2(self, seen: Observation, g: Model) -> float:
        return _norm2(g - self.support.scatter(seen.grads) / self.support.n)

    def _record(
        self, t: int, gamma: float, seconds: float, session: Session, x: Model, direction: Model | None
    ) -> dict[str, float]:
        row: dict[str, float] = {
            "round": t,
            "gamma": gamma,
            "uplink_bits": self.uplink,
            "payload_bits": self.payload,
            "downlink_bits": self.downlink,
            "authors_bits": self.authors,
            "seconds": seconds,
        }
        for rule, state in zip(self.stop, self.stop_states, strict=True):
            row |= rule.columns(state)
        if direction is not None:
            row |= self._metrics(gamma, session, x, direction)
        self.rows.append(row)
        return row

    def _metrics(self, gamma: float, session: Session, x: Model, direction: Model) -> dict[str, float]:
        seen = session.observe(x)
        f = self._objective(seen.values, x)
        gradient = self.support.scatter(seen.grads) / self.support.n
        found = {"f": f, "grad_norm2": _norm2(gradient)}
        G_i = np.zeros(self.support.n) if seen.error is None else self.support.norms2(seen.error)
        G = float(np.mean(G_i))
        if seen.error is not None:
            found |= {"G": G, "c_t": self.support.n * self._error2(seen, direction) / G if G > 0 else 0.0}
        if self.proof is not None:
            found["lyapunov"] = self.proof.lyapunov(f, G_i, self.f_star)
        elif seen.error is not None:
            found["lyapunov"] = self.theory.lyapunov(f, G, gamma, self.f_star)
        return found


def _norm2(v: Model) -> float:
    """||v||^2, in float64 whatever v is in."""
    return float(np.square(v, dtype=np.float64).sum())
