"""What a federated engine costs: rounds per second and bytes of 3, 10 and 30 nodes on this machine, and what that means for
1,000 nodes far away.

    python benchmarks/federated.py                       the stream, with a synced journal and without
    python benchmarks/federated.py --messages --ray      also plain Flower messages (minutes), and Ray's actors

All of it on one machine: nodes are threads of two processes, so that they compete for its cores with each other and with the
server, which real nodes do not. A round of the optimiser itself is small here (TopK(1), 300 clients).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import numpy as np

import errorfeedback as ef
from errorfeedback.estimators.model_file import load

CLIENTS, FEATURES, ROWS = 300, 60, 6
ROUNDS, CHUNK = 200, 10
PROCESSES = 2
METHOD, RULE = ef.EF21(ef.TopK(1)), ef.Constant(0.05)
TRIPS = (0.005, 0.05, 0.2)
"""Seconds of a round trip."""
SIZES = (3, 10, 30, 100, 300, 1000)
PROGRAMS = ("flower-superlink", "flower-supernode", "flower-superexec")
"""What Flower runs all the time; the last of them starts a process for every message."""
PREPARING = 13
"""Requests before round 0."""
POLLS = 6
"""Round trips of Flower's own HTTP for one message and its reply: pull, objects, confirm; push, objects, confirm."""


def part(lo: int, hi: int) -> ef.Problem:
    """The rows of some clients, made on the node."""
    rng = np.random.default_rng(lo)
    rows = ROWS * (hi - lo)
    A = rng.standard_normal((rows, FEATURES)) * (rng.random((rows, FEATURES)) < 0.2)
    A[:, 0] = 1.0
    return ef.logistic(A, np.where(rng.random(rows) < 0.5, -1, 1), np.repeat(np.arange(lo, hi), ROWS), classes=(-1, 1))


def live(invitations: list[tuple[bytes, int, int]], folder: str | None) -> None:
    """A process of nodes."""
    kept = None if folder is None else Path(folder)
    with ThreadPoolExecutor(len(invitations)) as pool:
        places = [(ef.Invitation.unpack(packed), ef.OwnRows(part(lo, hi))) for packed, lo, hi in invitations]
        list(pool.map(lambda each: ef.join(each[0], each[1], kept), places))


@dataclass(frozen=True)
class Cost:
    """Of a round."""

    seconds: float
    crossed: float
    """Bytes up and down between the server and a node, at the socket."""
    counted: float
    """The same of frames alone."""


def stream(nodes: int, journal: bool) -> Cost:
    """Rounds over the stream."""
    cuts = [CLIENTS * k // nodes for k in range(nodes + 1)]
    ranges = {f"node-{k}": range(cuts[k], cuts[k + 1]) for k in range(nodes)}
    with tempfile.TemporaryDirectory() as folder, ef.Listener(ranges) as listener:
        spawn, shared = get_context("spawn"), [[] for _ in range(PROCESSES)]
        for k, (name, clients) in enumerate(ranges.items()):
            shared[k % PROCESSES].append((listener.invitation(name).pack(), clients.start, clients.stop))
        given = [(each, folder if journal else None) for each in shared if each]
        processes = [spawn.Process(target=live, args=each) for each in given]
        for process in processes:
            process.start()
        transport = listener.transport()
        problem, _ = ef.gathered(transport, nodes)
        cost = measured(problem, ef.Elsewhere(transport), lambda: sum(map(sum, listener.traffic().values())), nodes)
    for process in processes:
        process.join()
    return cost


def measured(problem: ef.Problem, engine: ef.Engine, crossed: Callable[[], int], nodes: int) -> Cost:
    """Seconds of the quickest chunk of rounds: what else a shared machine does only adds to them. Bytes are the difference
    of a long run and a short one, in which all that is done once cancels out."""
    marks = []
    for rounds in (CHUNK, ROUNDS):
        before = crossed()
        run = ef.solve(problem, METHOD, RULE, rounds=rounds, every=CHUNK, metrics=False, engine=engine)
        bits = run.history["uplink_bits"][-1] + run.history["downlink_bits"][-1]
        marks.append((crossed() - before, float(bits) / 8))
    beside, counted = (np.array(marks[1]) - marks[0]) / (ROUNDS - CHUNK) / nodes
    return Cost(float(np.diff(run.history["seconds"]).min()) / CHUNK, beside, counted)


def local() -> Cost:
    return measured(part(0, CLIENTS), ef.Local(), lambda: 0, 1)


def ray_actors() -> Cost:
    return measured(part(0, CLIENTS), ef.Ray(2), lambda: 0, 2)


@dataclass(frozen=True)
class MessageCost:
    """Of a request to all nodes, and its answers."""

    nodes: int
    seconds: float
    """In the rounds."""
    processor: float
    """Processor seconds of all that Flower runs, in the whole run,"""
    link: float
    """of these the SuperLink's,"""
    requests: int
    """for so many."""
    crossed: str


def messages(nodes: int, rounds: int) -> MessageCost:
    """What plain Flower takes, from a trial as users start it."""
    with tempfile.TemporaryDirectory() as folder:
        words = ["federate", "try", "mushrooms", "--nodes", str(nodes), "--clients", "30", "--path", "messages"]
        words += ["--rounds", str(rounds), "--tolerance", "0", "--out", folder]
        run = subprocess.Popen([sys.executable, "-m", "errorfeedback", *words], stdout=subprocess.DEVNULL)
        spent: dict[str, dict[str, float]] = {program: {} for program in PROGRAMS}
        while run.poll() is None:
            for program, known in spent.items():
                known.update(_processor_seconds(program, folder))
            time.sleep(1.0)
        assert run.returncode == 0, "the trial says why"
        facts = load(Path(folder) / "model.npz").provenance
    training = float(facts["seconds to join, to prepare, to train"].split(",")[2])
    requests = rounds + 5  # start, round 0, the result, the judgement, the farewell
    measured_there = facts["measured at Flower's sockets"]
    crossed = f"{facts['frames counted']} in frames, {measured_there} at the sockets"
    link, *others = (sum(known.values()) for known in spent.values())
    return MessageCost(nodes, training / requests, link + sum(others), link, PREPARING + requests, crossed)


def _processor_seconds(program: str, folder: str) -> dict[str, float]:
    """By process, of those that run this program for a folder, with all that they have started and seen to its end."""
    spent = {}
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has just ended, or is another user's
            if program.encode() in (place / "cmdline").read_bytes() and folder.encode() in (place / "environ").read_bytes():
                numbers = (place / "stat").read_text().rpartition(")")[2].split()[11:15]
                spent[place.name] = sum(map(int, numbers)) / os.sysconf("SC_CLK_TCK")
    return spent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", action="store_true", help="also plain Flower messages, with 3 and with 10 nodes")
    parser.add_argument("--ray", action="store_true", help="also Ray's actors")
    asked = parser.parse_args()
    alone = local()
    print(f"Local: {1e3 * alone.seconds:.2f} ms a round")
    if asked.ray:
        print(f"Ray, 2 actors, synced journals: {1e3 * ray_actors().seconds:.2f} ms a round")
    costs = {}
    for nodes in (3, 10, 30):
        for journal in (True, False):
            cost = costs[nodes, journal] = stream(nodes, journal)
            how = "synced journal" if journal else "no journal"
            print(
                f"stream, {nodes} nodes, {how}: {1e3 * cost.seconds:.2f} ms a round, {1 / cost.seconds:.0f} a second; "
                f"a node's bytes in a round: {cost.crossed:.0f} at the socket, {cost.counted:.0f} in frames",
                flush=True,
            )
    stream_model(costs)
    if asked.messages:
        few, many = messages(3, 3), messages(10, 3)
        for each in (few, many):
            print(f"messages, {each.nodes} nodes: {each.seconds:.2f} s a request; {each.crossed}", flush=True)
        messages_model(few, many)


def stream_model(costs: dict[tuple[int, bool], Cost]) -> None:
    """A round of N nodes takes at most a + b N and a round trip to the farthest.

    a: what 3 nodes with a synced journal take here, for a node's own part; b: the server's part for each of them, at most
    that share of what 30 nodes without a journal take here, all on the same cores. Both are upper bounds.
    """
    a, b = costs[3, True].seconds, costs[30, False].seconds / 30
    print(f"\na round of N nodes on the stream: at most {1e3 * a:.2f} ms + {1e3 * b:.3f} ms x N + a round trip")
    for trip in TRIPS:
        rates = ", ".join(f"{size}: {1e3 * (a + b * size + trip):.0f} ms" for size in SIZES)
        print(f"round trips of {1e3 * trip:.0f} ms: stream, nodes: {rates}")


def messages_model(few: MessageCost, many: MessageCost) -> None:
    """A request to N nodes takes w + p N / c on one machine of c cores that has nothing else to do, and w + p + s N and 6
    round trips where every node has its own.

    p: processor seconds for a message to one node and its reply, at most, from the difference of the two runs; s: the part
    of the SuperLink, which is one process, wherever the nodes are; w: Flower's own waits, what is left of few nodes' time.
    """
    more, cores = many.requests * many.nodes - few.requests * few.nodes, os.cpu_count() or 1
    p, s = (many.processor - few.processor) / more, (many.link - few.link) / more
    w = few.seconds - p * few.nodes / cores
    print(f"\na message and its reply: {p:.2f} processor seconds, of which {s:.2f} are the SuperLink's")
    print(f"a request to N nodes on this machine: {w:.1f} s + {p / cores:.2f} s x N")
    print(f"with a machine for every node: {w + p:.1f} s + {s:.2f} s x N at the SuperLink + {POLLS} round trips")
    for trip in TRIPS:
        rates = ", ".join(f"{size}: {w + p + s * size + POLLS * trip:.0f} s" for size in SIZES)
        print(f"round trips of {1e3 * trip:.0f} ms: messages, nodes: {rates}")


if __name__ == "__main__":
    main()
