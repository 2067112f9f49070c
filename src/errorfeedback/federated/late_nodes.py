"""A training that nodes join late, in parts: where somebody comes, the run ends after the round it is in, all who are there
gather again, and the next part goes on from the model.

Each part is a run of `train` on all clients that are in it, from x: the newcomers' features enter with 0, and n, J_i, L_i,
scales and encodings are those of all. Rounds, bits and seconds are counted on in one history, with a note for every arrival.
A node that brings a class that nobody had changes what a model is: that part begins at 0.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import numpy as np

from errorfeedback.core import PerColumn
from errorfeedback.estimators.base import Held, LinearEF21
from errorfeedback.estimators.earlier import Earlier
from errorfeedback.estimators.held_out import HeldOut
from errorfeedback.federated.nodes import Nodes
from errorfeedback.federated.site import Common
from errorfeedback.runtime.arrivals import Arrivals
from errorfeedback.storage.checkpoint import Checkpoint

LOG = logging.getLogger("errorfeedback")


def fit_with(
    model: LinearEF21,
    nodes: Nodes,
    common: Common,
    again: Callable[[], Nodes],
    waiting: Callable[[], Sequence[str]],
    valid: Callable[[Nodes, Common], Held | HeldOut | None] = lambda nodes, common: nodes.held,
    checkpoint: Checkpoint | None = None,
) -> tuple[Nodes, Common]:
    """Train with these nodes, who have gathered, and with who comes later; those of the last part. `again`: all who are
    there by then, `waiting`: who is not in the run, `valid`: held-out rows. With a checkpoint nobody can be waiting."""
    stop = (Arrivals(waiting),) if checkpoint is None else ()
    held = valid(nodes, common)
    model.fit_elsewhere(common.objective, common.learned, nodes, valid=held, checkpoint=checkpoint, stop=stop)
    while came := list(waiting()):
        before, nodes = common, again()
        common = nodes.gather()
        earlier = _earlier(model, before, common, came)
        held = valid(nodes, common)
        model.fit_elsewhere(common.objective, common.learned, nodes, valid=held, stop=stop, earlier=earlier)
    return nodes, common


def _earlier(model: LinearEF21, before: Common, after: Common, came: Sequence[str]) -> Earlier:
    """The run so far, with a note of who came."""
    history, start = model.history_, _start(model, before, after)
    clients, features = ((len(each.objective.clients), each.objective.features) for each in (before, after))
    note = (
        f"{', '.join(came)} joined after round {history['round'][-1]}: {clients[0]} clients with {clients[1]} features "
        f"became {features[0]} with {features[1]}"
        + ("" if start is not None else ", and other classes: the model began anew")
    )
    LOG.warning("%s", note)
    history.notes = (*history.notes, note)
    return Earlier(start, history, model.n_iter_ + 1, model.bytes_up_, model.bytes_down_)


def _start(model: LinearEF21, before: Common, after: Common) -> PerColumn | None:
    """The model's numbers, by the names of the features; 0 for those that are new."""
    if not np.array_equal(before.learned.get("classes_", 0), after.learned.get("classes_", 0)):
        return None
    places = {name: j for j, name in enumerate(before.encoding.names)}
    where = np.array([places.get(name, -1) for name in after.encoding.names])
    known = np.atleast_2d(model.coef_)
    start = np.where(where >= 0, known[:, where], 0.0)
    if model.fit_intercept:
        start = np.column_stack([start, np.atleast_1d(model.intercept_)])
    return start.T.ravel()
