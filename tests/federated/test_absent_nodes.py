"""Nodes that are slow, and one that goes for good, while `train`'s own recipe runs over a stream."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager, suppress

import numpy as np
from dealt_rows import CLIENTS, Here, dealt, table
from scripted_hosts import InOneProcess
from stream_nodes import needs_stream

import errorfeedback as ef
from errorfeedback.cli._inputs import estimator_of
from errorfeedback.cli.verbs._inputs import Inputs
from errorfeedback.data.reading import Reading
from errorfeedback.estimators.earlier import Earlier
from errorfeedback.federated.assignment import Assignment
from errorfeedback.federated.late_nodes import fit_with
from errorfeedback.federated.nodes import Nodes
from errorfeedback.federated.site import Site
from errorfeedback.wire.requests import ROUND, Request

pytestmark = needs_stream
ROUNDS, SLOW, GONE, CAME = 25, (3, 9), 12, 4


class GoneError(OSError):
    """Nobody is there any more."""


class Slow(Site):
    """Sleeps in some rounds."""

    def serve(self, sent):
        if sent.startswith(b"round") and ROUND.unpack_from(Request.unpack(sent).body)[0] in SLOW:
            time.sleep(0.8)
        return super().serve(sent)


class Going(Site):
    """Goes in one."""

    def serve(self, sent):
        if sent.startswith(b"round") and ROUND.unpack_from(Request.unpack(sent).body)[0] == GONE:
            raise GoneError
        return super().serve(sent)


@contextmanager
def joined(listener, sites):
    def live(name, site):
        with suppress(GoneError, TimeoutError):
            ef.join(listener.invitation(name), site, patience=0.0)

    threads = [threading.Thread(target=live, args=each) for each in sites.items()]
    with listener:
        for thread in threads:
            thread.start()
        yield Nodes(listener.transport(), len(sites))
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()


def test_the_model_is_that_of_one_process_with_the_same_absences_and_who_is_gone_does_not_end_the_run(tmp_path):
    rows, inputs = table(tmp_path), Inputs(data=str(tmp_path / "rows.csv"), clients=CLIENTS)
    data, folders = dealt(rows, tmp_path, 3, inputs)
    model, expected = (estimator_of(inputs, rounds=ROUNDS, tolerance=0) for _ in range(2))
    kinds, counts = (Site, Slow, Going), [len(list(folder.iterdir())) for folder in folders]
    sites = {f"node-{k}": kind(Assignment.of(model, Reading()), folders[k]) for k, kind in enumerate(kinds)}
    listener = ef.Listener({f"node-{k}": range(count) for k, count in enumerate(counts)}, deadline=0.3, patience=60)
    with joined(listener, sites) as nodes:
        common = nodes.gather()
        model.fit_elsewhere(common.objective, common.learned, nodes, watch=lambda row: time.sleep(0.05))
        nodes.dismiss()
    notes = [note for note in model.history_.notes if "took no part" in note]
    spans = [note.split("rounds ")[1].split(" to ") for note in notes if note.startswith("node-1")]
    missed = {(t, 1) for first, last in spans for t in range(int(first), int(last) + 1)}
    assert set(SLOW) <= {t for t, _ in missed}
    assert [note.split(" took ")[1] for note in notes if "node-2" in note] == [f"no part from round {GONE} on"]
    missed |= {(t, 2) for t in range(GONE, ROUNDS + 1)}
    expected.fit(data.A, data.y, groups=data.clients, engine=InOneProcess(missed, tuple(np.cumsum([0, *counts]).tolist())))
    assert np.array_equal(model.coef_, expected.coef_)
    assert np.array_equal(model.intercept_, expected.intercept_)
    assert [each is None for each in nodes.judgements] == [False, False, True]
    there = np.concatenate([each.losses for each in nodes.judgements[:2]])
    assert np.isclose(model.loss_ - model.penalty_, there.mean())


def test_a_node_that_comes_late_joins_the_run_with_its_clients_and_features(tmp_path):
    """The second part is the run of all nodes that begins at the model of the first; one history has both."""
    rows, inputs = table(tmp_path), Inputs(data=str(tmp_path / "rows.csv"), clients=CLIENTS)
    _, folders = dealt(rows, tmp_path, 3, inputs)
    for path in (path for folder in folders[:2] for path in folder.iterdir()):
        path.write_text(path.read_text().replace("Wien", "Linz"))  # which only the third node knows
    model, first, second = (estimator_of(inputs, rounds=12, tolerance=0) for _ in range(3))
    counts = {f"node-{k}": range(len(list(folder.iterdir()))) for k, folder in enumerate(folders)}
    sites = {name: Site(Assignment.of(model, Reading()), folder) for name, folder in zip(counts, folders, strict=True)}
    listener = ef.Listener(counts, quorum=2, wait=0.2)
    late = threading.Thread(target=ef.join, args=(listener.invitation("node-2"), sites["node-2"]))
    looks = iter(range(100))

    def seats():
        transport = listener.transport()
        return Nodes(transport, len(transport.members))

    def waiting():
        if next(looks) == CAME:
            late.start()
            while not listener.latecomers():
                listener.turn(0.1)
        return listener.latecomers()

    with joined(listener, {name: sites[name] for name in list(sites)[:2]}) as begun:
        nodes, common = fit_with(model, begun, begun.gather(), seats, waiting)
        nodes.dismiss()
    late.join(20)
    (note,) = [note for note in model.history_.notes if "joined" in note]
    assert note == f"node-2 joined after round {CAME}: 8 clients with 12 features became 12 with 13"
    assert model.history_["round"].tolist() == list(range(13))
    assert (np.diff(model.history_["uplink_bits"]) > 0).all()
    assert (nodes.judged().keys(), len(common.encoding.names)) == (counts.keys(), 12)
    few, many = ([Site(Assignment.of(model, Reading()), folder) for folder in folders[:n]] for n in (2, 3))
    some = Nodes(Here(few), 2)
    gathered = some.gather()
    first.max_iter = CAME
    first.fit_elsewhere(gathered.objective, gathered.learned, some)
    all_ = Nodes(Here(many), 3)
    whole = all_.gather()
    start = dict(zip(gathered.encoding.names, first.coef_[0], strict=True))
    x0 = np.array([*(start.get(name, 0.0) for name in whole.encoding.names), first.intercept_[0]])
    second.fit_elsewhere(
        whole.objective, whole.learned, all_, earlier=Earlier(x0, first.history_, first.n_iter_ + 1, 0.0, 0.0)
    )
    assert np.array_equal(model.coef_, second.coef_)
    assert model.bytes_up_ == first.bytes_up_ + second.bytes_up_
    assert model.bytes_down_ == first.bytes_down_ + second.bytes_down_
    assert min(first.bytes_up_, first.bytes_down_, second.bytes_up_, second.bytes_down_) > 0
