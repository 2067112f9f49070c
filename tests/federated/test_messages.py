"""Plain messages over a grid that loses some and fails at some, and whose nodes are slow or lose their disks: the same
model."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from flower_python import WHY, python_with

FLOWER = python_with("flwr")
TROUBLE = ["failed", "forgot before round", "forgot before start", "lost", "slow"]
PROGRAM = """if True:
    import json, sys, time, warnings
    from pathlib import Path
    warnings.simplefilter("ignore")
    import numpy as np
    from flwr.app import ConfigRecord, Error, Message, RecordDict
    from flwr.supercore.task_identity import TaskIdentity
    from dealt_rows import CLIENTS, dealt, table
    from errorfeedback.cli._inputs import estimator_of
    from errorfeedback.cli.verbs._inputs import Inputs
    from errorfeedback.clients.exactly_once import ExactlyOnce
    from errorfeedback.data.reading import Reading
    from errorfeedback.federated.assignment import Assignment
    from errorfeedback.engines.allow_list import AllowList
    from errorfeedback.federated.flower import messages, records
    from errorfeedback.federated.nodes import Nodes
    from errorfeedback.federated.site import Site
    from errorfeedback.storage.files import content, value_of
    from errorfeedback.wire.requests import Request

    class Grid:
        def __init__(self, folders):
            self.folders, self.pushed, self.waiting, self.places = folders, 0, {}, {}
            self.trouble, self.verbs, self.slow, self.ready = [], [], None, {}

        def push_messages(self, sent):
            return [self.push(message) for message in sent]

        def push(self, message):
            self.pushed += 1
            name, node = str(self.pushed), message.metadata.dst_node_id
            message.metadata.__dict__["_message_id"] = name
            if self.pushed in (5, 24):
                self.trouble.append("lost")
            elif self.pushed == 8:
                self.trouble.append("failed")
                self.waiting[name] = Message(Error(1, "the process died"), reply_to=message)
            else:
                verb = Request.unpack(records.heard(message, "request")).verb
                self.verbs.append(verb)
                if self.verbs.count(verb) == {"start": 1, "round": 5}.get(verb):
                    self.trouble.append(f"forgot before {verb}")
                    del self.places[node]
                if node not in self.places:
                    site = Site(value_of(records.heard(message, "assignment"), "it"), self.folders[node])
                    self.places[node] = ExactlyOnce(site)
                request = records.heard(message, "request")
                self.slow = request if self.pushed == 13 else self.slow
                if request == self.slow:  # every process takes longer than is waited for, one after the other
                    self.trouble.append("slow")
                    self.ready[name] = max([time.monotonic(), *self.ready.values()]) + 1.5 * messages.AGAIN
                answer = self.places[node].serve(request)
                said = RecordDict({records.RECORD: ConfigRecord({"answer": answer})})
                self.waiting[name] = Message(said, reply_to=message)
            return name

        def pull_messages(self, names):
            ready = [name for name in names if self.ready.get(name, 0.0) <= time.monotonic()]
            return [self.waiting.pop(name) for name in ready if name in self.waiting]

    TaskIdentity.task_id = TaskIdentity.run_id = TaskIdentity.node_id = 1  # as in a process that Flower has started
    folder = Path(sys.argv[1])
    messages.AGAIN, messages.POLL = 0.3, 0.01
    rows = table(folder)
    inputs = Inputs(data=str(rows), clients=CLIENTS)
    data, folders = dealt(rows, folder, 2, inputs)
    options = {"rounds": 8, "tolerance": 0.0}
    expected = estimator_of(inputs, **options).fit(data.A, data.y, groups=data.clients)
    model = estimator_of(inputs, **options)
    grid = Grid(folders)
    allowed = AllowList({f"node-{k}": sorted(path.name for path in each.iterdir()) for k, each in enumerate(folders)})
    nodes = Nodes(messages.Messages(grid, [0, 1], allowed, content(Assignment.of(model, Reading()))), 2)
    common = nodes.gather()
    model.fit_elsewhere(common.objective, common.learned, nodes)
    print(json.dumps([bool(np.array_equal(model.coef_, expected.coef_)), sorted(set(grid.trouble))]))
"""


@pytest.mark.skipif(FLOWER is None, reason=WHY)
def test_lost_messages_failed_and_slow_processes_and_lost_journals_change_no_bit(tmp_path):
    here = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    command, environment = [FLOWER, "-c", PROGRAM, str(tmp_path)], os.environ | {"PYTHONPATH": here}
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=400, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout.splitlines()[-1]) == [True, TROUBLE]
