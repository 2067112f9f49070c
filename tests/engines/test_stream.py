"""Nodes over TLS on loopback: the bits of one process, every byte at the socket counted, and nobody else let in."""

from __future__ import annotations

import threading

import numpy as np
import over_tls
import pytest
from own_places import assert_same_bits, part, whole
from stream_nodes import NODES, Tapped, joined, needs_stream

import errorfeedback as ef
from errorfeedback.clients.invitation import Invitation
from errorfeedback.wire.requests import Request

pytestmark = needs_stream
RUN = {"method": ef.EF21(ef.TopK(2)), "stepsize": ef.Automatic(), "rounds": 30, "every": 7, "metrics": False}


def test_the_bits_are_those_of_one_process_and_the_bytes_at_the_socket_are_known(tmp_path):
    listener = ef.Listener(NODES)
    with joined(listener, tmp_path) as transport:
        problem, scale = ef.gathered(transport, 3)
        assert np.array_equal(scale, whole(True).scale)
        before = listener.traffic()
        found = ef.solve(problem, **RUN, engine=ef.Elsewhere(transport))
        crossed = {name: np.subtract(listener.traffic()[name], before[name]) for name in NODES}
        expected = ef.solve(whole(True), **RUN)
        assert_same_bits(expected, found)
        assert_same_bits(
            ef.solve(whole(True), **RUN, seed=4), ef.solve(problem, **RUN, seed=4, engine=ef.Elsewhere(transport))
        )
    requests = 33  # start, 31 rounds, the result
    up = expected.history["uplink_bits"][-1] / 8
    assert 45 * 3 * requests < sum(received for _, received in crossed.values()) < up + 60 * 3 * requests
    assert all(sent > 40 * requests for sent, _ in crossed.values())
    assert list(tmp_path.glob("*.journal")) == []


def test_connections_that_are_cut_are_made_again_and_change_no_bit(tmp_path):
    listener, cuts = ef.Listener(NODES), []
    tap = Tapped(listener.invitation("a").port)
    direct = listener.invitation
    listener.invitation = lambda node: Invitation(**vars(direct(node)) | {"port": tap.port})

    def cut(row):
        if row["round"] in (2, 9, 10, 20):
            tap.cut()
            cuts.append(row["round"])

    with joined(listener, tmp_path) as transport:
        problem, _ = ef.gathered(transport, 3)
        options = RUN | {"every": 1}
        found = ef.solve(problem, **options, engine=ef.Elsewhere(transport), watch=cut)
        assert_same_bits(ef.solve(whole(True), **options), found)
    tap.close()
    assert len(cuts) == 4


def test_a_node_that_starts_again_with_nothing_hears_all_of_it_again():
    class Forgetful(ef.OwnRows):
        """A node without a disk whose process begins anew in the middle of the run."""

        def serve(self, sent):
            answer = super().serve(sent)
            if sent.startswith(b"round") and Request.unpack(sent).number == 17 and not restarts:
                restarts.append(1)
                raise ConnectionResetError("killed")
            return answer

    restarts, listener = [], ef.Listener(NODES)
    mine = NODES["b"]

    def lives():
        try:
            ef.join(listener.invitation("b"), Forgetful(part(mine.start, mine.stop), scale=True), patience=0.0)
        except TimeoutError:
            ef.join(listener.invitation("b"), ef.OwnRows(part(mine.start, mine.stop), scale=True))

    others = {name: ef.OwnRows(part(each.start, each.stop), scale=True) for name, each in NODES.items() if name != "b"}
    threads = [threading.Thread(target=lives)]
    threads += [threading.Thread(target=ef.join, args=(listener.invitation(name), place)) for name, place in others.items()]
    with listener:
        for thread in threads:
            thread.start()
        transport = listener.transport()
        problem, _ = ef.gathered(transport, 3)
        assert_same_bits(ef.solve(whole(True), **RUN), ef.solve(problem, **RUN, engine=ef.Elsewhere(transport)))
    for thread in threads:
        thread.join(20)
    assert restarts == [1]


def test_who_has_no_token_or_another_certificate_is_refused(monkeypatch):
    monkeypatch.setattr("errorfeedback.engines.stream.LEAST", 0.1)
    with ef.Listener(NODES, patience=0.2) as listener:
        good = vars(listener.invitation("a"))
        errors = []

        def tries(changes):
            try:
                ef.join(Invitation(**good | changes), ef.OwnRows(part(0, 2)), patience=0.0)
            except (ef.NotInvitedError, TimeoutError) as error:
                errors.append(f"{type(error).__name__}: {error}")

        for changes in ({"token": "0" * 64}, {"node": "b"}, {"node": "z"}, {"certificate": "0" * 64}):
            thread = threading.Thread(target=tries, args=(changes,))
            thread.start()
            while thread.is_alive():
                listener.turn(0.05)
            thread.join()
        assert [error.split(":")[0] for error in errors] == ["NotInvitedError"] * 3 + ["TimeoutError"]
        assert "another certificate than the invitation says" in errors[-1]
        assert all(member.link is None for member in listener.members)
        assert "secret" not in repr(Invitation("h", 1, "c", "secret", 2, "n"))
        with pytest.raises(TimeoutError, match=r"a, b, c did not join within 0.2 seconds"):
            listener.transport()


@pytest.mark.parametrize(
    ("nodes", "reason"),
    [
        (NODES, "b speaks for 5 clients; it may for 4"),
        ({name: list(mine) for name, mine in NODES.items()}, "b brings client 1, and it may bring 2, 3, 4, 5 alone"),
    ],
    ids=["counted", "named"],
)
def test_a_node_may_not_speak_for_other_clients_than_it_was_given(nodes, reason):
    places = {"b": ef.OwnRows(part(1, 6), scale=True)}
    with joined(ef.Listener(nodes), places=places) as transport, pytest.raises(ValueError, match=reason):
        ef.gathered(transport, 3)


def test_the_example_of_the_docs_comes_to_the_bits_of_one_process(tmp_path):
    options = {"method": ef.EF21(ef.TopK(2)), "stepsize": ef.RareFeatures(), "rounds": 10}
    parts = {name: part(mine.start, mine.stop) for name, mine in NODES.items()}
    found = over_tls.train(parts, tmp_path, **options)
    split = ef.solve(whole(False), **options | {"stepsize": ef.Constant(found.history["gamma"][0])}, metrics=False)
    assert np.array_equal(found.x, split.x)


def test_metrics_that_would_carry_gradients_away_are_refused():
    with joined(ef.Listener(NODES)) as transport:
        problem, _ = ef.gathered(transport, 3)
        with pytest.raises(ValueError, match="metrics=True looks at every client's gradients"):
            ef.solve(problem, **RUN | {"metrics": True}, engine=ef.Elsewhere(transport))
        with pytest.raises(
            RuntimeError, match="a failed: ValueError: the gradients of a node are not looked at from outside"
        ):
            ef.solve(problem, **RUN | {"stepsize": ef.Adaptive()}, engine=ef.Elsewhere(transport))
        with pytest.raises(ValueError, match="GLM has its rows here"):
            ef.solve(whole(False), **RUN, engine=ef.Elsewhere(transport))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"patience": 1}, "patience = 1; it must be at least 5 seconds"),
        ({"deadline": 0}, "deadline = 0; a round has more than 0 seconds"),
        ({"quorum": 4}, "quorum = 4; it must be 1 to 3"),
        ({"wait": 601}, "wait = 601; it must be 0 to patience = 600"),
        ({"nodes": {"a": range(0)}}, "every node must have a client"),
    ],
    ids=str,
)
def test_nonsense_is_refused_before_anybody_calls(changes, reason):
    with pytest.raises(ValueError, match=reason):
        ef.Listener(**{"nodes": NODES} | changes)
