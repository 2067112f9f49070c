"""What stays on a node, what counts at the sockets, and what ends processes: each as real processes and sockets."""

from __future__ import annotations

import os
import signal
import socket
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from dealt_rows import CLIENTS, Here, dealt, table

from errorfeedback.cli._inputs import estimator_of
from errorfeedback.cli.verbs._inputs import Inputs
from errorfeedback.data.reading import Reading
from errorfeedback.federated.asking import ask
from errorfeedback.federated.assignment import Assignment
from errorfeedback.federated.nodes import Nodes
from errorfeedback.federated.processes import Processes
from errorfeedback.federated.relay import Relay
from errorfeedback.storage.files import content


def cmdlines() -> dict[bytes, int]:
    """Every process by its words."""
    found = {}
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has just ended
            found[(place / "cmdline").read_bytes()] = int(place.name)
    return found


def keepers(folder: Path) -> list[int]:
    mine = str(folder).encode()
    return [process for words, process in cmdlines().items() if mine in words and b"federated.keeper" in words]


class Kept:
    """A place that is asked as a ClientApp asks it; its keeper is killed before the request of that number."""

    def __init__(self, state, data, assignment, kill_at):
        self.state, self.data, self.assignment, self.kill_at, self.asked = state, data, assignment, kill_at, 0

    def serve(self, request):
        self.asked += 1
        if self.asked == self.kill_at:
            (keeper,) = keepers(self.state)
            os.kill(keeper, signal.SIGKILL)
        return ask(self.state, self.data, self.assignment, request)


def test_a_keeper_that_is_killed_comes_back_from_its_journal_and_ends_with_the_run(tmp_path):
    rows = table(tmp_path)
    inputs = Inputs(data=str(rows), clients=CLIENTS)
    data, (folder,) = dealt(rows, tmp_path, 1, inputs)
    options = {"rounds": 12, "tolerance": 0.0}
    expected = estimator_of(inputs, **options).fit(data.A, data.y, groups=data.clients)
    model = estimator_of(inputs, **options)
    place = Kept(tmp_path / "state", folder, content(Assignment.of(model, Reading())), kill_at=15)
    nodes = Nodes(Here([place]), 1)
    common = nodes.gather()
    model.fit_elsewhere(common.objective, common.learned, nodes)
    nodes.dismiss()
    assert place.asked > 15
    assert np.array_equal(model.coef_, expected.coef_)
    end = time.monotonic() + 20
    while keepers(tmp_path / "state") and time.monotonic() < end:
        time.sleep(0.05)
    assert keepers(tmp_path / "state") == []


def test_a_relay_counts_what_crosses_both_ways():
    with (
        socket.create_server(("127.0.0.1", 0)) as behind,
        Relay(behind.getsockname()[1]) as relay,
        socket.create_connection(("127.0.0.1", relay.port)) as caller,
    ):
        there, _ = behind.accept()
        caller.sendall(b"x" * 70_001)
        received = b""
        while len(received) < 70_001:
            received += there.recv(1 << 16)
        there.sendall(b"y" * 1003)
        there.close()
        answered = b""
        while chunk := caller.recv(1 << 16):
            answered += chunk
    assert (received, answered) == (b"x" * 70_001, b"y" * 1003)
    assert (relay.up, relay.down) == (70_001, 1003)


def test_processes_end_with_all_that_they_have_started_whatever_happens(tmp_path):
    sessions = []

    def fail():
        with Processes(tmp_path, os.environ) as processes:
            processes.start("stubborn", ["bash", "-c", "trap '' TERM; setsid sleep 321.5 & echo up; wait; wait"])
            processes.until("stubborn", lambda: "up" in (tmp_path / "stubborn.log").read_text(), 20, "come up")
            sessions.append(processes.running["stubborn"].pid)
            processes.start("brief", ["bash", "-c", "exit 3"])
            processes.wait("brief")

    with pytest.raises(RuntimeError, match="brief ended with code 3"):
        fail()
    with pytest.raises(ProcessLookupError):
        os.killpg(sessions[0], 0)
    assert not any(b"321.5" in words for words in cmdlines())
