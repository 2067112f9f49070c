"""A federation on one machine, of real processes: a SuperLink and SuperNodes that talk over TLS, know each other by keys and
have their own files. Between each node and the SuperLink stands a `Relay` that counts what crosses.

Nothing goes outside: Flower's telemetry and its search for updates are off, and nobody installs anything.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread

from errorfeedback.extras import require
from errorfeedback.federated.processes import Processes, free_ports, is_open
from errorfeedback.federated.relay import Relay

QUIET = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}
CONTROL = "errorfeedback.federated.flower.control"
REGISTERED = "registered"
"""The file that says that nodes may come."""
TRAFFIC = "traffic.json"
START = 120.0
"""Seconds that a SuperLink may take to come up on a busy machine."""
REFRESH = 0.3
"""Seconds between two accounts of the traffic."""


@dataclass(frozen=True)
class Federation:
    """A folder that `site_files` and `keys` have filled, with the rows of every node in nodes/NODE/data."""

    folder: Path
    nodes: tuple[str, ...]
    port: int
    """Of the SuperLink."""

    def data(self, node: str) -> Path:
        return self.folder / "nodes" / node / "data"

    def run(self) -> None:
        """Train, and end everything."""
        with self.started() as processes:
            processes.wait("control")

    @contextmanager
    def started(self) -> Iterator[Processes]:
        """The SuperLink, the SuperNodes, and what asks them to train."""
        require("flwr", "federate")
        here = os.environ | QUIET | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"}
        with ExitStack() as stack:
            relays = [stack.enter_context(Relay(self.port)) for _ in self.nodes]
            stack.enter_context(_accounts(self.folder / TRAFFIC, self.nodes, relays))
            processes = stack.enter_context(Processes(self.folder / "logs", here))
            self.start_link(processes)
            self.start_run(processes, self.nodes)
            processes.until("control", (self.folder / REGISTERED).exists, START, "register the nodes")
            for node, relay in zip(self.nodes, relays, strict=True):
                self.start_node(processes, node, relay.port)
            yield processes

    def start_link(self, processes: Processes) -> None:
        """The SuperLink, which has what it knows in a file."""
        keys = self.folder / "keys"
        words = ["--host", "127.0.0.1", "--port", str(self.port), "--ssl-certfile", str(keys / "server.pem")]
        words += ["--ssl-keyfile", str(keys / "server.key"), "--ssl-ca-certfile", str(keys / "ca.pem")]
        words += ["--enable-supernode-auth", "--disable-runtime-dependency-installation"]
        words += ["--database", str(self.folder / "superlink.db")]
        home = str(self.folder / "flower")
        processes.start("superlink", [_program("flower-superlink"), *words], FLWR_HOME=home)
        processes.until("superlink", lambda: is_open(self.port), START, f"listen on port {self.port}")

    def start_run(self, processes: Processes, new: Sequence[str] = ()) -> None:
        """What asks the SuperLink for a run, and ends with it; `new` nodes are made known first."""
        command = [sys.executable, "-m", CONTROL, str(self.folder), *new]
        processes.start("control", command, FLWR_HOME=str(self.folder / "flower"))

    def start_node(self, processes: Processes, node: str, door: int) -> None:
        """A SuperNode that reaches the SuperLink through a door of this machine."""
        (port,) = free_ports(1)  # for its own apps
        keys, place = self.folder / "keys", self.folder / "nodes" / node
        config = f'data="{place / "data"}" state="{place / "state"}"'
        words = ["--superlink", f"127.0.0.1:{door}", "--root-certificates", str(keys / "ca.pem"), "--port", str(port)]
        words += ["--auth-supernode-private-key", str(keys / f"{node}.key"), "--node-config", config]
        processes.start(node, [_program("flower-supernode"), *words], FLWR_HOME=str(place / "flower"))


def new_federation(folder: Path, nodes: Sequence[str]) -> Federation:
    """On a free port."""
    return Federation(folder, tuple(nodes), *free_ports(1))


def _program(name: str) -> str:
    """One of Flower's, of the same environment as this process."""
    beside = Path(sys.executable).with_name(name)
    return str(beside) if beside.exists() else shutil.which(name) or name


@contextmanager
def _accounts(path: Path, nodes: Sequence[str], relays: Sequence[Relay]) -> Iterator[None]:
    """A file that always has the bytes of every node so far."""
    over = Event()

    def write() -> None:
        while not over.is_set():
            passed = path.with_suffix(".new")
            passed.write_text(json.dumps({node: [each.up, each.down] for node, each in zip(nodes, relays, strict=True)}))
            passed.replace(path)
            over.wait(REFRESH)

    writer = Thread(target=write, daemon=True)
    writer.start()
    try:
        yield
    finally:
        over.set()
        writer.join()
