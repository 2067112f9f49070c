"""`errorfeedback train DATA --out run/`: real data in, model out, no step size to choose."""

from __future__ import annotations

import shlex
import sys
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from errorfeedback.cli._data import engine_of, reading_of, say
from errorfeedback.cli._held import how_drawn, share_of
from errorfeedback.cli._inputs import Estimator, has_classes, rows_of, trained_by
from errorfeedback.cli._kept import keep
from errorfeedback.cli._live import live_page
from errorfeedback.cli._outcome import HELD, Judged, Outcome
from errorfeedback.cli._progress import one_run
from errorfeedback.cli.verbs._training import Training
from errorfeedback.core import Floats
from errorfeedback.data.read import read_held_out
from errorfeedback.data.rows import Data, stacked
from errorfeedback.engines.base import Engine
from errorfeedback.estimators.base import Held
from errorfeedback.estimators.doubts import TrainingWarning
from errorfeedback.estimators.held_out import check_some, held_out
from errorfeedback.estimators.scores import measured
from errorfeedback.planner.network import Links
from errorfeedback.problems.conversation import Conversation, Seat
from errorfeedback.runtime.agreement import agree
from errorfeedback.storage.checkpoint import Checkpoint

T = TypeVar("T")
SECONDS = 60.0
"""Between checkpoints."""


def train(options: Training, on: Engine | None = None, command: str | None = None) -> None:
    """Train a linear model across clients; write the model, the history and a report.

    `on` and `command` are for a run that is gone on with: another engine, and the command that began it."""
    with ExitStack() as stack:
        on = engine_of(options.engine, options.timeout) if on is None else on
        stack.enter_context(on.guard())
        command = shlex.join(["errorfeedback", *sys.argv[1:]]) if command is None else command
        on.converse(lambda seat: agree(lambda: {"the command": command}, seat))
        links = Links.parse(options.network) if options.network else None
        model = trained_by(options)
        if options.checkpoint is not None and on.leads:
            keep(options.checkpoint, options, command)
        data, held, names = on.converse(lambda seat: _rows(options, seat))
        if links is not None:
            links.of(names.tolist())  # every client has one
        _fit(model, data, held, options, on, len(names))
        judged = {} if held is None else {f"{HELD} ({options.valid})": _judged(model, [_said(model, held)])}
        judged["training"] = _judged(model, on.converse(lambda seat: _heard(_said(model, data))))
        if on.leads:
            Outcome(model, data, judged, how_drawn(options), links, options.target, command).write(options.out)


def _fit(model: Estimator, data: Data, held: Data | None, options: Training, on: Engine, n: int) -> None:
    assert data.y is not None, "data without a target is refused"
    with (
        one_run(options.rounds, on.leads and not options.quiet) as at,
        live_page(options.live and on.leads, n, f"Training on {data.name}") as live,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore", TrainingWarning)  # they are among the results
        model.fit(
            data.A,
            data.y,
            groups=data.clients,
            sample_weight=data.weights,
            watch=_view(at, n, live),
            valid=None if held is None else _valid(held),
            engine=on,
            checkpoint=None if options.checkpoint is None else Checkpoint(options.checkpoint, seconds=SECONDS),
        )


def _valid(held: Data) -> Held:
    """As `fit` takes it; a file of held-out rows is nobody's."""
    y = np.asarray(held.y)
    return (held.A, y, held.weights) if held.clients is None else (held.A, y, held.weights, held.clients)


def _rows(options: Training, seat: Seat) -> Conversation[tuple[Data, Data | None, NDArray[Any]]]:
    """The rows of this process to train with, all rows that are held out, and the names of all clients."""
    data, held = yield from _with_held(options, seat)
    names = yield np.unique(np.asarray(data.clients))
    return data, held, np.concatenate(names)


def _with_held(options: Training, seat: Seat) -> Conversation[tuple[Data, Data | None]]:
    data = yield from rows_of(options, seat)
    if options.valid is None:
        return data, None
    share = share_of(options.valid)
    if share is not None:
        return (yield from _divided(data, share, options, seat))
    held = read_held_out(options.valid, reading_of(options), data.encoding)
    if not seat.number:
        say(held.notes)
    return data, held


def _divided(data: Data, share: float, options: Training, seat: Seat) -> Conversation[tuple[Data, Data]]:
    """Without and with the held-out rows."""
    labels = np.asarray(data.y) if has_classes(options) else np.zeros(data.A.shape[0])
    mine = yield from held_out(labels, np.asarray(data.clients), share, options.seed, seat)
    parts, rows = zip(*(yield data.take(mine), len(mine)), strict=True)
    held = stacked(parts)
    check_some(held.A.shape[0], share, sum(rows))
    return data.take(~mine), held


def _heard(word: T) -> Conversation[list[T]]:
    """What all processes say."""
    return (yield word)


def _said(model: Estimator, data: Data) -> tuple[Floats, Any, Floats | None]:
    return model.decision(data.A), data.y, data.weights


def _judged(model: Estimator, everyone: list[tuple[Floats, Any, Floats | None]]) -> Judged:
    """The measures over the rows of all processes."""
    scores, y = (np.concatenate([each[k] for each in everyone]) for k in (0, 1))
    weights = None if everyone[0][2] is None else np.concatenate([each[2] for each in everyone if each[2] is not None])
    return Judged(len(y), measured(model, scores, y, weights))


def _view(
    at: Callable[[int, str], None], n: int, live: Callable[[dict[str, float]], None]
) -> Callable[[dict[str, float]], None]:
    """Follows the run."""

    def show(row: dict[str, float]) -> None:
        live(row)
        words = f"loss {row['f']:.6g}, step {row['gamma']:.4g}, {row['uplink_bits'] / 8e3 / n:,.1f} kB up per client"
        if "validation" in row:
            words += f", validation loss {row['validation']:.4f}"
        at(int(row["round"]), words)

    return show
