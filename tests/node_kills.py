"""Kill nodes and servers with SIGKILL, and cut connections, at random moments of runs over the stream on loopback.

    python tests/node_kills.py --kills 60

A server with a checkpoint, three nodes with journals and a proxy between them are processes of their own. One of them is
killed (and started again, at once or a little later) or all connections are cut, again and again; every run must end, and is
compared, bit for bit, with one that was left alone.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

import numpy as np
from own_places import part, whole
from stream_nodes import NODES, Tapped

import errorfeedback as ef
from errorfeedback.clients.invitation import Invitation
from errorfeedback.storage.files import read, write

KINDS = ("node", "server", "connections")
LONGEST = 180.0
"""Seconds after which a run hangs."""
COLUMNS = ("round", "gamma", "f", "uplink_bits", "downlink_bits")
RUNS = [
    {"method": ef.EF21(ef.TopK(2)), "stepsize": ef.Automatic(guess=1e3), "downlink": ef.Changed()},
    {
        "method": ef.EF21(ef.FittedAnswer(), start="compressed"),
        "stepsize": ef.Armijo(),
        "direction": ef.LBFGS(),
        "downlink": ef.FittedStep(),
    },
    {"method": ef.EF21SGDM(ef.TopK(2), batch=2), "stepsize": ef.Constant(0.01), "downlink": ef.Compressed(ef.TopK(3))},
]


def options(number, rounds):
    return RUNS[number % len(RUNS)] | {"rounds": rounds, "every": 10, "seed": number, "metrics": False}


def outcome(result):
    return {"x": result.x, **{name: result.history[name] for name in COLUMNS}}


def serve(folder, number, rounds):
    """The server's process: it begins the run, or goes on with it."""
    with ef.Listener(NODES, folder=folder / "listener", patience=60) as listener:
        for name in NODES:
            write(folder / f"{name}.invitation", listener.invitation(name).pack().decode())
        transport = listener.transport()
        problem, _ = ef.gathered(transport, len(NODES))
        engine, state = ef.Elsewhere(transport), folder / "state"
        if (state / "run.ef").exists():
            result = ef.resume(state, problem=problem, engine=engine)
        else:
            result = ef.solve(problem, **options(number, rounds), engine=engine, checkpoint=ef.Checkpoint(state, every=15))
        write(folder / "outcome", outcome(result))


def live(folder, name):
    """A node's process."""
    while not (folder / "port").exists():
        time.sleep(0.005)
    invitation = Invitation.unpack(read(folder / f"{name}.invitation").encode())
    tapped = Invitation(**vars(invitation) | {"port": int((folder / "port").read_text())})
    ef.join(tapped, ef.OwnRows(part(NODES[name].start, NODES[name].stop), scale=True), folder / name, patience=60, every=25)


def tap(folder):
    """The proxy's process: a signal cuts all connections."""
    while not all((folder / f"{name}.invitation").exists() for name in NODES):
        time.sleep(0.005)
    proxy = Tapped(Invitation.unpack(read(folder / "a.invitation").encode()).port)
    signal.signal(signal.SIGUSR1, lambda *_: proxy.cut())
    (folder / "port.tmp").write_text(str(proxy.port))
    (folder / "port.tmp").rename(folder / "port")
    while True:
        signal.pause()


def forked(job, *given):
    """A child of this process, in which everything is imported and compiled."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        logging.disable()
        job(*given)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


class Job:
    """All processes of one run."""

    def __init__(self, folder, number, rounds):
        self.folder = folder
        self.jobs = {"server": (serve, folder, number, rounds), "tap": (tap, folder)}
        self.jobs |= {name: (live, folder, name) for name in NODES}
        self.pids = {}
        for name in self.jobs:
            self.start(name)

    def start(self, name):
        self.pids[name] = forked(*self.jobs[name])

    def kill(self, name):
        """False where it had ended before."""
        os.kill(self.pids[name], signal.SIGKILL)
        _, status = os.waitpid(self.pids.pop(name), 0)
        assert os.WIFSIGNALED(status) or status == 0, f"{name} failed with {status}"
        return os.WIFSIGNALED(status)

    @property
    def ended(self):
        return (self.folder / "outcome").exists()

    def disturb(self, kind, rng):
        """Whether something was killed, or cut."""
        if kind == "connections":
            os.kill(self.pids["tap"], signal.SIGUSR1)
            return True
        name = "server" if kind == "server" else str(rng.choice(list(NODES)))
        killed = self.kill(name)
        time.sleep(rng.uniform(0, 0.3) * (rng.random() < 0.5))
        if not self.ended:
            self.start(name)
        return killed

    def close(self):
        for name in list(self.pids):
            self.kill(name)


def disturbed(number, rounds, folder, rng, kinds, counts):
    """One run to its end, with as many kills of these kinds as fall into it."""
    job, began = Job(folder, number, rounds), time.monotonic()
    try:
        while not (folder / "state").exists() and time.monotonic() - began < LONGEST:
            time.sleep(0.002)
        while not job.ended and time.monotonic() - began < LONGEST:
            time.sleep(rng.uniform(0.02, 0.5))
            if kinds and not job.ended:
                counts[kinds[0]] += job.disturb(kinds[0], rng)
                kinds.pop(0)
        return read(folder / "outcome") if job.ended else None
    finally:
        job.close()


def kill_many(kills, rng, rounds=250):
    """How often what was killed, how many runs there were, how many of them hung, and how many came to other bits."""
    counts = Counter(dict.fromkeys((*KINDS, "runs", "hung", "different"), 0))
    while (left := kills - sum(counts[kind] for kind in KINDS)) > 0:
        number = counts["runs"]
        expected = outcome(ef.solve(whole(True), **options(number, rounds)))
        kinds = [KINDS[k % len(KINDS)] for k in rng.permutation(min(left, 12))]
        with tempfile.TemporaryDirectory(prefix="node-kills-") as folder:
            found = disturbed(number, rounds, Path(folder), rng, kinds, counts)
        counts["runs"] += 1
        counts["hung"] += found is None
        counts["different"] += found is not None and any(
            not np.array_equal(expected[name], found[name], equal_nan=True) for name in expected
        )
    return counts


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    began = time.monotonic()
    counts = kill_many(given.kills, np.random.default_rng(given.seed))
    print(json.dumps({**counts, "seconds": round(time.monotonic() - began)}))
    sys.exit(bool(counts["hung"] or counts["different"]))


if __name__ == "__main__":
    main()
