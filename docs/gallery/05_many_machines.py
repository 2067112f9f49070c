r"""
Many machines: MPI ranks, and nodes with rows of their own
==========================================================

The same round runs in one process, on threads, on the ranks of an MPI job and on nodes that answer bytes with bytes.
Messages are added up in client order and random draws are keyed by (seed, round, client), so that the model has **the
same bits** wherever it was trained. This page starts real processes and compares.
"""

import hashlib
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
from matplotlib import pyplot as plt

import errorfeedback as ef

folder = Path(mkdtemp())
bin_of_this_python = Path(sys.executable).parent

# %%
# One program, any number of ranks
# --------------------------------
# ``pip install 'errorfeedback[mpi]'`` brings mpi4py and an MPI. The program differs from that of one process by
# ``engine=ef.MPI()``.

program = folder / "train.py"
program.write_text("""
import hashlib, sys
import numpy as np
import errorfeedback as ef

problem = ef.synthetic(n=96, d=800, m=12, c=10)
method = ef.EF21(ef.PowersOfTwo(4), start="compressed")
result = ef.solve(problem, method, ef.Armijo(), direction=ef.LBFGS(), downlink=ef.FittedStep(), rounds=60,
                  engine=ef.MPI() if "mpi" in sys.argv else ef.Local())
bits = result.history["uplink_bits"][-1] + result.history["downlink_bits"][-1]
sys.stdout.write(hashlib.sha256(result.x.tobytes()).hexdigest()[:16] + f" {bits / 8 / problem.n:,.0f} bytes a client\\n")
""")
mpiexec = shutil.which("mpiexec", path=str(bin_of_this_python)) or shutil.which("mpiexec")


def printed(*command):
    """The first line that a command prints."""
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder).stdout.splitlines()[0]


print("one process:", printed(sys.executable, "train.py"))
print("three ranks:", printed(mpiexec, "-n", "3", sys.executable, "train.py", "mpi"))

# %%
# The hash of the model is the same, and so are the bytes: they are counted in frames, not in what MPI makes of them. On
# the command line it is
#
# .. code-block:: console
#
#    mpiexec -n 4 errorfeedback train parts/ --engine mpi --out run/
#
# where every file of ``parts/`` is a client, and each rank reads only its own files. What happens when a rank is
# killed, stopped or fed other data is in :doc:`/engines`.
#
# Nodes that keep their rows
# --------------------------
# In a federation the server has no rows at all. ``ef.Listener`` and ``ef.join`` connect it to its nodes over TLS
# (:doc:`/engines`), and Flower is another way (:doc:`/federated`). This page shows what is below both, for a connection
# of your own: HTTP, gRPC, a message queue. The library needs no more of it than "bring these bytes there, bring the
# answer back". A node is a loop of four lines; here its connection is the standard input and output of a process, and
# its rows are made in the process and never leave it.

node = folder / "node.py"
node.write_text("""
import struct, sys
import numpy as np
import errorfeedback as ef

number, nodes, clients = (int(word) for word in sys.argv[1:])
mine = range(number * clients // nodes, (number + 1) * clients // nodes)
rng = [np.random.default_rng([7, client]) for client in mine]          # put your own rows here
A = np.concatenate([(draw.random((30, 400)) < 0.05) * 1.0 for draw in rng])
y = np.concatenate([draw.random(30) < 0.5 for draw in rng])
place = ef.OwnRows(ef.logistic(A, y, clients=np.repeat(list(mine), 30), classes=(False, True)))
while True:
    head = sys.stdin.buffer.read(8)
    if not head:
        break
    answer = place.serve(sys.stdin.buffer.read(struct.unpack("<Q", head)[0]))
    sys.stdout.buffer.write(struct.pack("<Q", len(answer)) + answer)
    sys.stdout.buffer.flush()
""")


class Pipes(ef.Engine, ef.Transport):
    """The server's side: one process per node, and a count of what really crossed."""

    def __init__(self, nodes, clients):
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "cwd": folder}
        words = [[sys.executable, "node.py", str(k), str(nodes), str(clients)] for k in range(nodes)]
        self.nodes = [subprocess.Popen(each, **pipes) for each in words]
        self.crossed = 0

    def open(self, problem, setup):
        return ef.RemoteSession(self, problem, setup, problem.cuts, start=True)

    def send(self, requests):
        for each, request in zip(self.nodes, requests, strict=True):
            each.stdin.write(struct.pack("<Q", len(request)) + request)
            each.stdin.flush()
            self.crossed += 8 + len(request)

    def receive(self):
        answers = [each.stdout.read(struct.unpack("<Q", each.stdout.read(8))[0]) for each in self.nodes]
        self.crossed += sum(8 + len(answer) for answer in answers)
        return answers

    def stop(self):
        """Close the connections: the nodes end by themselves."""
        for each in self.nodes:
            each.stdin.close()
            each.wait()


# %%
# ``ef.gathered`` asks the nodes who owns which feature and gives the server a problem without rows.

recipe = {
    "method": ef.EF21(ef.PowersOfTwo(4), start="compressed"),
    "stepsize": ef.Armijo(),
    "direction": ef.LBFGS(),
    "downlink": ef.FittedStep(),
    "prox": ef.ElasticNet(l2=1e-3),
    "rounds": 40,
    "metrics": False,
}
clients, costs = 24, {}
for nodes in (1, 3):
    engine = Pipes(nodes, clients)
    problem, _ = ef.gathered(engine, nodes)
    before = engine.crossed
    result = ef.solve(problem, engine=engine, **recipe)
    engine.stop()
    h = result.history
    frames = h["uplink_bits"][-1] / 8 + h["downlink_bits"][-1] / 8
    costs[nodes] = (frames, before, engine.crossed - before - frames)
    print(f"{nodes} nodes: {hashlib.sha256(result.x.tobytes()).hexdigest()[:16]}, loss {h['f'][-1]:.6f}")

# %%
# Every bit that a client says or hears is on the books, and what a connection adds can be read off beside it: what the
# nodes tell of themselves before round 1, once, and what is around the frames in every request. The latter grows with
# the nodes, not with the clients or the model; here both are small.

figure, axes = plt.subplots(figsize=(7.2, 2.8))
place = np.arange(len(costs))
frames, before, around = np.array(list(costs.values())).T / 1024
axes.barh(place, frames, 0.5, label="frames of the clients, on the books")
axes.barh(place, before, 0.5, left=frames, color="C1", label="before round 1: who owns what")
axes.barh(place, around, 0.5, left=frames + before, color="C6", label="requests around the frames")
axes.set_yticks(place, [f"{nodes} node{'s' * (nodes > 1)}" for nodes in costs])
axes.set(xlabel="KiB for 24 clients and 40 rounds")
axes.set_title("What crossed the pipes")
axes.legend()
axes.grid(axis="y", visible=False)
plt.show()

# %%
# What to take from it
# --------------------
# - Choose the engine by where the rows are, not by what you want to compute: the model is the same to the last bit.
# - A node needs ``ef.OwnRows(problem).serve``, a transport ``send`` and ``receive``. Certificates, retries and who may
#   join are the transport's job: frames are checked against faults, not against attackers
#   (:doc:`/explanation/security`). ``ef.Listener`` and Flower have all of that, and deadlines for slow nodes.
# - A checkpoint of one engine goes on on another: ``ef.resume(folder, engine=...)``.
