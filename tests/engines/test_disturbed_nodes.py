"""Short versions of `tests/node_kills.py` and `tests/fuzzing.py`: processes that are killed, and a node that means harm.

In processes of their own: one forks, the other has limits on its time and memory.
"""

from __future__ import annotations

import json
import subprocess
import sys

import fuzzing
import node_kills
import numpy as np
from launching import ENVIRONMENT
from stream_nodes import needs_stream

pytestmark = needs_stream


def counts(program, *words):
    command = [sys.executable, program.__file__, *map(str, words), "--seed", str(np.random.default_rng().integers(2**32))]
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def test_killed_nodes_and_servers_and_cut_connections_change_no_bit():
    seen = counts(node_kills, "--kills", 6)
    assert sum(seen[kind] for kind in node_kills.KINDS) == 6
    assert (seen["hung"], seen["different"]) == (0, 0)


def test_a_malicious_node_spoils_nothing_but_its_own_part():
    seen = counts(fuzzing, "--answers", 200, "--set-ups", 5, "--seconds", 120)
    assert seen["answers"] >= 200
    assert {"flipped", "cut", "added", "replayed", "behind", "random", "lies"} <= seen.keys()
    assert seen["compared"] >= 2
    assert sum(seen["set-ups"].values()) == 5
