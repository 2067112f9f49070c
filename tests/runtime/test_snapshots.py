"""A run that stops between a kept point and the way back to it goes on bit for bit, and no part of its snapshot is idle.

The controls blank one part of the snapshot each, and must change the run: were that part never written, the first test
would fail.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from problem_pairs import pair

import errorfeedback as ef
from errorfeedback.methods.base import Method
from errorfeedback.probes.losses import Losses
from errorfeedback.probes.slopes import Slopes
from errorfeedback.runtime.stopping import GradientMapping, RelativeDecrease
from errorfeedback.stepsizes.base import StepSize, Verdict
from errorfeedback.storage.checkpoint import Folder

KEPT, STOPPED, BACK, ROUNDS = 6, 12, 17, 40
WHEN = {KEPT: Verdict.KEEP, BACK: Verdict.RESTORE}
LOSS = RelativeDecrease(0.9, patience=5, gap=5)
MAPPING = GradientMapping(1e9, patience=22)


@ef.storable
@dataclass(frozen=True)
class Back(StepSize):
    """Keeps the point of one round and goes back to it in another; how far it steps depends on all that it is told."""

    methods: ClassVar[tuple[type[Method], ...]] = (Method,)
    commands: ClassVar[bool] = True
    tells_loss = True

    def ask(self, state):
        return Slopes(32), Losses(64)

    def start(self, theory, method):
        return -1, 0.0

    def next(self, state, theory, method, telemetry):
        t, drift = state
        moved = 0.0 if telemetry.move is None else telemetry.move.norm2 + telemetry.move.predicted
        drift = 0.9 * drift + np.tanh(telemetry.answers[Slopes] + telemetry.loss + moved)
        return 0.05 * (1 + 0.1 * np.tanh(drift)), (t + 1, float(drift))

    def verdict(self, state):
        return WHEN.get(state[0], Verdict.GO)


class StopError(Exception):
    pass


def run(**options):
    problem = pair("logistic", n=7, d=15, fill=0.3)[0]
    prox = ef.ElasticNet(l1=0.01, l2=0.1)
    return ef.solve(problem, ef.EF21(ef.TopK(1)), Back(), rounds=ROUNDS, x0=np.ones(15), prox=prox, **options)


def stopped(folder, stop):
    def watch(row):
        if row["round"] == STOPPED:
            raise StopError

    with pytest.raises(StopError):
        run(stop=stop, watch=watch, checkpoint=ef.Checkpoint(folder, every=1))
    return folder


def differences(a, b):
    found = [
        name for name in ("x", "stopped", "returned", "rounds") if not np.array_equal(getattr(a, name), getattr(b, name))
    ]
    for name in a.history.keys() - {"seconds"}:
        if not np.array_equal(a.history[name], b.history[name], equal_nan=True):
            found.append(name)
    return found


@pytest.mark.parametrize("engine", [ef.Local(1), ef.Local(3), ef.Threads(2)], ids=str)
@pytest.mark.parametrize("stop", [LOSS, MAPPING], ids=lambda rule: type(rule).__name__)
def test_a_run_goes_on_before_the_way_back_and_before_its_stopping_rule_has_seen_enough(stop, engine, tmp_path):
    whole = run(stop=[stop])
    assert BACK < whole.rounds < ROUNDS
    assert whole.history["round"][-1] == whole.rounds
    assert differences(whole, ef.resume(stopped(tmp_path, [stop]), engine=engine)) == []


def clients(place, zero=np.zeros_like):
    """One of the clients' memories blanked: the estimates, the kept ones, where they stood."""

    def blank(found):
        parts = list(found["clients"])
        parts[place] = zero(parts[place])
        return {**found, "clients": tuple(parts)}

    return blank


def server(name, blank):
    """One of the server's memories blanked."""
    return lambda found: {**found, "state": found["state"] | {name: blank(found["state"][name])}}


BLANKS = {
    "the model": server("x", np.ones_like),
    "the server's estimate": server("method", np.zeros_like),
    "the rule's memory": server("rule", lambda rule: (rule[0], 0.0)),
    "the last move": server("move", lambda move: None),
    "the server's kept point": server("kept", lambda kept: (np.zeros_like(kept[0]), *kept[1:])),
    "the server's kept estimate": server("kept", lambda kept: (kept[0], np.zeros_like(kept[1]), *kept[2:])),
    "what the clients are about to hear": server("broadcast", lambda broadcast: None),
    "the stopping rules' memory": lambda found: {**found, "stop": [LOSS.start(), MAPPING.start()]},
    "the clients' estimates": clients(0),
    "the clients' kept estimates": clients(1),
    "where the clients stood": clients(
        2, lambda notes: {name: np.zeros_like(notes[name]) for name in ("Slopes",)} | {"Losses": None}
    ),
    "the bits": lambda found: {**found, "bits": (0, 0, 0, 0, 0, 0)},
}


@pytest.mark.parametrize("blank", BLANKS)
def test_a_snapshot_without_one_of_its_parts_is_another_run(blank, tmp_path, monkeypatch):
    whole = run(stop=[LOSS, MAPPING])
    newest = Folder.newest
    stopped(tmp_path, [LOSS, MAPPING])
    monkeypatch.setattr(Folder, "newest", lambda *given: BLANKS[blank](newest(*given)))
    assert differences(whole, ef.resume(tmp_path))
