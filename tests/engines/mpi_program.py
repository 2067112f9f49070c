"""Run under mpiexec by test_mpi.py: one job per word of the command line."""

from __future__ import annotations

import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from discovery import METHODS, covering, fits
from problem_pairs import pair

import errorfeedback as ef
from errorfeedback.clients.joined_problem import joined_problem
from errorfeedback.clients.shard import Shard
from errorfeedback.clients.shards import LocalSession
from errorfeedback.estimators.classifier import EF21Classifier
from errorfeedback.probes.base import widths_of
from errorfeedback.problems.scaling import scaled
from errorfeedback.problems.spread import shard_of_all
from errorfeedback.runtime.ledger import ownership_bits
from errorfeedback.runtime.validation import Validation
from errorfeedback.wire.frames import LOSS_FRAME_BITS
from errorfeedback.wire.requests import DONE, Request

OPTIONS = {"rounds": 7, "seed": 3, "every": 3}
FEW = ef.PowersOfTwo(4)
QUASI_NEWTON = ef.EF21(ef.FittedAnswer(), "compressed")
QUASI = {"rounds": 30, "prox": ef.ElasticNet(l2=1e-3), "downlink": ef.FittedStep()}
DIRECTIONS = [
    ef.LBFGS(),
    *(ef.Curvature(FEW, price=price) for price in (0.0, 2.0, 10.0)),
    ef.Curvature(FEW, price=0.0, clients=2),
]


def problems():
    yield pair("logistic", n=7, d=15, fill=0.2)[0]
    yield pair(n=7, d=4, fill=1.0, lam=0.5)[0]
    yield pair("softmax", n=7, d=8, fill=0.3)[0]
    yield ef.autoencoder(np.random.default_rng(0).standard_normal((21, 4)), clients=7, code=2)


def assert_same_bits(a, b, what):
    assert np.array_equal(a.x, b.x), what
    assert a.certificate.verdict == b.certificate.verdict, what
    for column in a.history.keys() - {"seconds"}:
        assert np.array_equal(a.history[column], b.history[column], equal_nan=True), (what, column)


def say(line):
    """In one piece: all ranks write into one pipe."""
    os.write(1, f"{line}\n".encode())


def conformance():
    """Every method x compressor, and the rules with telemetry: as Local on the first and the last rank. One half of the
    methods on even numbers of ranks, the other on odd ones."""
    pairs = [(method, problem) for method, problem in covering(METHODS, problems()) if fits(method, problem)]
    mine = pairs[ef.MPI().world.size % 2 :: 2]
    runs = [(problem, method, ef.Constant(0.01), {}) for method, problem in mine]
    sparse = next(problems())
    single = ef.logistic(sparse.A.toarray(), sparse.target, clients=7, dtype=np.float32)
    for problem in (sparse, single):
        runs += [(problem, ef.EF21(ef.TopK(1)), rule, {}) for rule in (ef.Adaptive(), ef.Adaptive(sketch=3), ef.Best())]
    hard = {"prox": ef.ElasticNet(l1=1e-3, l2=1e-3), "rounds": 40}
    runs += [(scaled(sparse), ef.EF21(ef.TopK(1)), ef.Automatic(guess=guess), hard) for guess in (None, 1e4)]
    for problem in (sparse, single, scaled(sparse, power=0.5)):
        runs += [(problem, QUASI_NEWTON, ef.Armijo(), QUASI | {"direction": direction}) for direction in DIRECTIONS]
    for problem, method, rule, more in runs:
        options = OPTIONS | {"x0": np.random.default_rng(1).standard_normal(problem.width)} | more
        result = ef.solve(problem, method, rule, engine=ef.MPI(), **options)
        if ef.MPI().world.rank in (0, ef.MPI().world.size - 1):
            assert_same_bits(result, ef.solve(problem, method, rule, **options), (method, rule))
    say(f"same bits {len(runs)}")


class Counting:
    """The world, with an account of the bytes of rounds that go up, and of all that go down."""

    def __init__(self, world):
        self.world, self.up, self.down, self.verb = world, 0, 0, ""
        self.rank, self.size = world.rank, world.size

    def __getattr__(self, name):
        return getattr(self.world, name)

    def Recv(self, buffer, rank):
        self.world.Recv(buffer, rank)
        if self.rank:
            self.verb = Request.unpack(buffer.tobytes()).verb

    def Send(self, buffer, *more):
        if self.verb in ("round", "values"):
            self.up += len(buffer) - len(DONE)
        self.world.Send(buffer, *more)

    def Isend(self, buffer, *more):
        self.down += len(buffer)
        return self.world.Isend(buffer, *more)

    def total(self, number):
        out = np.zeros(1, dtype=np.int64)
        self.world.Allreduce(np.array([number]), out)
        return int(out[0])


SETTINGS = {
    "absent": (ef.EF21(ef.Participating(ef.TopK(2), 0.6)), ef.Constant(0.1)),
    "sketch": (ef.EF21(ef.TopK(2)), ef.Adaptive(sketch=3)),
    "automatic": (ef.EF21(ef.TopK(1)), ef.Automatic()),
    "curvature": (QUASI_NEWTON, ef.Armijo()),
}


def count():
    """The bytes that cross MPI_Send, and those that rank 0 need not send to itself, are the history's."""
    say(f"counted {[count_one(name) for name in sys.argv[2:]]}")


def count_one(name):
    engine, before = ef.MPI(), LocalSession.round
    world = vars(engine)["world"] = Counting(engine.world)
    problem, (method, rule) = next(problems()), SETTINGS[name]
    own = 0

    def counted(job):
        def inner(self, order):
            nonlocal own
            messages, told = job(self, order), int(widths_of(order.probes, 64).sum())
            own += sum(message.frames.cost(told, 64).bits for message in messages) // 8
            own += sum(message.curvature.frames.cost(16, 64).bits for message in messages if message.curvature) // 8
            return messages

        return inner

    if world.rank == 0:
        LocalSession.round = counted(before)
        own += name == "automatic" and 2 * LOSS_FRAME_BITS // 8 * (problem.n // world.size)
    more = {"direction": ef.Curvature(FEW, price=0.0)} if name == "curvature" else {}
    result = ef.solve(problem, method, rule, rounds=31, every=31, metrics=False, engine=engine, **more)
    LocalSession.round = before
    crossed, stayed = world.total(world.up), world.total(own)
    # before round 0; here every rank knows all L_i, and who owns what
    setup = result.stepsize.setup_bits(problem) * result.theory.n + ownership_bits(problem)
    assert 8 * (crossed + stayed) + setup == result.history["uplink_bits"][-1], (crossed, stayed)
    assert (crossed > 0) == (world.size > 1)
    return crossed


def down():
    """What is sent down where every feature has one owner, and where all ranks have it, and what x is on all of them."""
    d, sent, options = 3000, [], {"rounds": 30, "every": 30, "metrics": False}
    for c in (1, 6):
        engine = ef.MPI()
        world = vars(engine)["world"] = Counting(engine.world)
        problem, method, rule = ef.synthetic(n=6, d=d, m=3, c=c), ef.EF21(ef.TopK(1)), ef.Constant(0.01)
        a, b = (ef.solve(problem, method, rule, engine=each, **options) for each in (engine, ef.Local()))
        assert_same_bits(a, b, c)
        sent.append(world.total(world.down))
    say(f"down {sent[0]} {sent[1]} {31 * 8 * d * (world.size - 1)}")


def fail():
    """Rank 1 raises, or dies, in round 5."""
    how, rank = sys.argv[2], ef.MPI().world.rank
    before = Shard.round

    def broken(self, order):
        if order.ctx.t == 5 and rank == 1:
            if how == "raise":
                raise FloatingPointError("the disk of this node is gone")
            os.kill(os.getpid(), signal.SIGKILL)
        return before(self, order)

    Shard.round = broken
    checkpoint = ef.Checkpoint(sys.argv[3], every=2)
    ef.solve(next(problems()), ef.EF21(ef.TopK(1)), ef.Constant(0.01), **OPTIONS, engine=ef.MPI(), checkpoint=checkpoint)


def damage():
    """A byte of rank 1's answer in round 3 changes on the way."""
    engine = ef.MPI()
    world = vars(engine)["world"] = Damaging(engine.world)
    ef.solve(next(problems()), ef.EF21(ef.TopK(1)), ef.Constant(0.01), **OPTIONS, metrics=False, engine=engine)
    say(f"not noticed on {world.rank}")


class Damaging(Counting):
    def Send(self, buffer, *more):
        self.up += self.verb == "round"
        if self.up == 4:
            buffer = bytearray(buffer)
            buffer[len(buffer) // 2] ^= 4
        self.world.Send(buffer, *more)


def disagree():
    """Rank 1 is given something else: every rank refuses, and says what. What cannot be compared is let through."""
    rank = ef.MPI().world.rank
    problem, wide = pair("logistic", n=7, d=15, fill=0.2)[0], pair("logistic", n=7, d=16, fill=0.2)[0]
    labels, data = problem.target.copy(), problem.A.copy()
    labels[-1], data.data[-1] = -labels[-1], 2 * data.data[-1]
    given = {"problem": problem, "method": ef.EF21(ef.TopK(1)), "stepsize": ef.Constant(0.01), **OPTIONS}
    cases = [
        (r"problem\.target is \w+ on rank 0 and \w+ on rank 1$", {"problem": replace(problem, target=labels)}),
        (r"problem\.A is \w+ on rank 0", {"problem": replace(problem, A=data)}),
        (r"problem\.width is 15 on rank 0 and 16 on rank 1", {"problem": wide}),
        (r"method is .*k=1.* and .*k=2.* on rank 1$", {"method": ef.EF21(ef.TopK(2))}),
        (r"stepsize is Constant\(value=0\.01\) .* Constant\(value=0\.02\) on rank 1$", {"stepsize": ef.Constant(0.02)}),
        (r"same, but rounds is 7 on rank 0 and 8 on rank 1$", {"rounds": 8}),
        (r"rounds is 7 .*; seed is 3 on rank 0 and 4 on rank 1$", {"rounds": 8, "seed": 4}),
        (r"x0 is \w+ on rank 0", {"x0": np.ones(15)}),
        (r"prox is None on rank 0 and ElasticNet", {"prox": ef.ElasticNet(l1=0.1, l2=0.0)}),
        (r"engine is MPI\(timeout=120\.0\) on rank 0 and MPI\(timeout=60\) on rank 1$", {"engine": ef.MPI(timeout=60)}),
    ]
    for words, other in cases:
        with pytest.raises(ValueError, match=words):
            ef.solve(**({"engine": ef.MPI()} | given | (other if rank == 1 else {})))
    for model in (EF21Classifier(k=1 + rank), (EF21Classifier, ef.EF21Regressor)[rank % 2]()):
        with pytest.raises(ValueError, match=r"k is 1 .* 2 on rank 1$|estimator is 'EF21Classifier' .* 'EF21Regressor'"):
            model.fit(np.eye(6), np.arange(6) % 2, groups=np.arange(6), engine=ef.MPI())
    make = (ef.logistic, ef.least_squares)[rank % 2]
    either = "(Squared.* and Logistic|Logistic.* and Squared)"
    with pytest.raises(ValueError, match=rf"place \d and place \d differ in their loss: {either}"):
        ef.MPI().converse(lambda seat: shard_of_all(make(np.eye(6), np.tile([-1, 1], 3), clients=3), seat))
    ef.solve(**given, stop=[Validation(lambda x: 1.0, every=2, flat=None)], engine=ef.MPI())
    say(f"refused {len(cases)}")


def resume():
    result = ef.resume(sys.argv[2], engine=ef.MPI())
    whole = ef.solve(next(problems()), ef.EF21(ef.TopK(1)), ef.Constant(0.01), **OPTIONS)
    assert_same_bits(result, whole, "resume")
    say("same bits")


def table():
    """Rows with three classes, and their clients, of which the first is larger than TOGETHER (`smoothness.clients`)."""
    rng = np.random.default_rng(4)
    clients = np.repeat(np.arange(9), [60, 5, 7, 3, 6, 4, 8, 5, 9])
    X = rng.standard_normal((len(clients), 25)) * (rng.random((len(clients), 25)) < 0.3)
    X[clients == 0] = rng.standard_normal((60, 25))
    return X, rng.integers(0, 3, len(clients)), clients


def seated(seat):
    yield
    return seat


def fitted(engine, checkpoint=None, own=False):
    """A model of which every rank has the rows of its own clients; with `own`, each has a feature in all its rows."""
    X, y, clients = table()
    X, y = (np.c_[X, np.eye(9)[clients]], y > 0) if own else (X, y)
    seat = engine.converse(seated)
    ends = [0, 2, 5, 6, 9] if seat.of == 4 else [9 * k // seat.of for k in range(5)]
    mine = (clients >= ends[seat.number]) & (clients < ends[seat.number + 1])
    model = EF21Classifier(max_iter=20, tol=0).fit(X[mine], y[mine], clients[mine], engine=engine, checkpoint=checkpoint)
    assert ("are left to it" in model.choice_) is own
    return model


def assert_same_model(a, b):
    assert np.array_equal(a.coef_, b.coef_)
    assert np.array_equal(a.intercept_, b.intercept_)
    for column in a.history_.keys() - {"seconds"}:
        assert np.array_equal(a.history_[column], b.history_[column], equal_nan=True), column


def place_of(clients, ranks):
    """Where every row's client stands when rank after rank has said which it has."""
    order = sorted(set(clients.tolist()), key=lambda client: (client % ranks, client))
    return np.array([order.index(client) for client in clients])


def whole_problem(rows, seat):
    part = yield from shard_of_all(rows, seat)
    return (yield from joined_problem(part, seat))


def spread():
    """Nobody has all rows, and the model is that of one process; the rules that need no rows of others work too."""
    engine = ef.MPI()
    for own in (False, True):
        assert_same_model(fitted(engine, own=own), fitted(ef.Local(), own=own))
    X, y, clients = table()
    mine = clients % engine.world.size == engine.world.rank
    rows = ef.least_squares(X[mine], y[mine], clients[mine])
    problem = engine.converse(lambda seat: whole_problem(rows, seat))
    top1 = ef.EF21(ef.TopK(1))
    for method, rule in (
        (top1, ef.RareFeatures()),
        (top1, ef.Weighted()),
        (top1, ef.EF21Standard()),
        (ef.DGD(), ef.InverseL()),
    ):
        result = ef.solve(problem, method, rule, rounds=5, engine=engine)
        assert result.history["f"][-1] <= result.history["f"][0]
    ordered = np.argsort(clients % engine.world.size, kind="stable")
    whole = ef.least_squares(X[ordered], y[ordered], place_of(clients, engine.world.size)[ordered])
    for direction in DIRECTIONS:
        result = ef.solve(problem, QUASI_NEWTON, ef.Armijo(), direction=direction, **QUASI, engine=engine)
        assert_same_bits(result, ef.solve(whole, QUASI_NEWTON, ef.Armijo(), direction=direction, **QUASI), direction)
    if engine.world.size > 1:
        for job, words in (
            (lambda: ef.solve(problem, top1, ef.Spectral(), rounds=1, engine=engine), "lie on several ranks"),
            (lambda: ef.solve(problem, ef.DGD(), ef.Constant(0.1), rounds=1), "needs engine=ef.MPI"),
        ):
            with pytest.raises(ValueError, match=words):
                job()
        whole = ef.analyse(ef.least_squares(X, y, clients))
        assert ef.analyse(problem).L >= whole.L
        assert ef.analyse(problem).L_plus >= whole.L_plus
    say("same model")


def spread_fail():
    """The last rank dies in round 12; a checkpoint is written after every fifth."""
    engine = ef.MPI()
    before = Shard.round

    def broken(self, order):
        if order.ctx.t == 12 and engine.world.rank == engine.world.size - 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return before(self, order)

    Shard.round = broken
    fitted(engine, ef.Checkpoint(sys.argv[2], every=5))


def spread_resume():
    assert (Path(sys.argv[2]) / "round-000000000010.ef").exists()
    assert_same_model(fitted(ef.MPI(), ef.Checkpoint(sys.argv[2], every=5)), fitted(ef.Local()))
    say("same model")


def endless():
    """Until a signal comes."""
    engine = ef.MPI(timeout=float(sys.argv[3]))
    watch = lambda row: say(f"round {row['round']}")  # noqa: E731
    say(f"pid {engine.world.rank} {os.getpid()}")
    ef.solve(
        next(problems()),
        ef.EF21(ef.TopK(1)),
        ef.Constant(0.01),
        rounds=10**9,
        every=100,
        watch=watch,
        engine=engine,
        checkpoint=None if sys.argv[2] == "none" else ef.Checkpoint(sys.argv[2], every=10**8),
    )


def slow():
    """A round of rank 1, and the watch of rank 0, that take longer than the timeout, asleep and in Python."""
    engine, before = ef.MPI(timeout=5), Shard.round

    def work():
        time.sleep(4)
        end = time.monotonic() + 2
        while time.monotonic() < end:
            pass

    def delayed(self, order):
        if order.ctx.t == 3 and engine.world.rank == 1:
            work()
        return before(self, order)

    Shard.round = delayed
    watch = lambda row: work() if row["round"] == 6 else None  # noqa: E731
    ef.solve(next(problems()), ef.EF21(ef.TopK(1)), ef.Constant(0.01), **OPTIONS, engine=engine, watch=watch)
    say("all is well")


def unfit():
    """One rank has rows that cannot be trained with."""
    engine = ef.MPI()
    X = np.eye(6)
    X[0, 0] = np.nan if engine.world.rank == int(sys.argv[2]) else 1.0
    try:
        EF21Classifier().fit(X, np.arange(6) % 2, groups=np.arange(6), engine=engine)
    except ValueError:
        say(f"refused on {engine.world.rank}")


def leave():
    """One rank ends before the others are done with it."""
    engine = ef.MPI()
    if engine.world.rank == int(sys.argv[2]):
        raise FileNotFoundError("my rows are not here")
    ef.solve(next(problems()), ef.EF21(ef.TopK(1)), ef.Constant(0.01), **OPTIONS, engine=engine)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
