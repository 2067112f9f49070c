r"""
Write your own compressor, method and engine
============================================

A member of a family is one class. What it does on the clients is written for *some clients* at once, never for one: a
lifted vector has the coordinates of client 0 on its features, then those of client 1, and so on. That is why the same
code runs in one process, on threads and over MPI with the same bits, why checkpoints hold it, and why every byte of
it is counted, without a line for any of that. This page writes three members and shows that they are full citizens.
"""

from dataclasses import dataclass
from itertools import pairwise
from queue import Queue
from threading import Thread
from typing import ClassVar

import numpy as np
from matplotlib import pyplot as plt

import errorfeedback as ef

problem = ef.synthetic(n=40, d=200, m=12, c=8)

# %%
# A compressor
# ------------
# TopK picks the K largest entries wherever they are. Let us send the K *neighbouring* entries with the most energy
# instead: features that lie together (words of a language, pixels of a patch) often matter together. Of :math:`w =
# \lceil |J_i|/K \rceil` windows that cover a client's entries the best has at least a :math:`w`-th of the energy, so
#
# .. math::
#
#    \|C(u) - u\|^2 \le (1 - \alpha_i) \|u\|^2, \qquad \alpha_i = 1/w.
#
# A compressor says its constant, how many values it sends and what their indices take. Its operator, bound to the
# support of a shard, makes messages.


@ef.storable
@dataclass(frozen=True)
class TopWindow(ef.Contractive):
    """The K neighbouring entries of a client with the most energy."""

    k: int

    def alpha(self, support):
        return 1.0 / np.ceil(support.sizes / self.k)

    def entries(self, support):
        return np.minimum(self.k, support.sizes).astype(float)

    def index_bits(self, support):
        return np.where(self.k < support.sizes, self.entries(support) * np.ceil(np.log2(support.sizes)), 0.0)

    def on(self, support):
        return Windows(support, self.frames(support), self.k)

    @classmethod
    def examples(cls):
        return [cls(2)]


class Windows(ef.Operator):
    """Windows of all clients of a shard, one after the other; the last of a client ends where its features end."""

    def __init__(self, support, frames, k):
        super().__init__(support, frames)
        length = np.minimum(k, support.sizes)
        starts = [
            np.minimum(np.arange(lo, hi, k), hi - m) for (lo, hi), m in zip(pairwise(support.indptr), length, strict=True)
        ]
        self.first = np.concatenate([[0], np.cumsum([len(each) for each in starts])])
        self.start, self.length = np.concatenate(starts), length

    def __call__(self, u, ctx):
        total = np.concatenate([[0.0], np.cumsum(u**2)])
        energy = total[self.start + np.repeat(self.length, np.diff(self.first))] - total[self.start]
        best = [self.start[lo + np.argmax(energy[lo:hi])] for lo, hi in pairwise(self.first)]
        at = np.concatenate([np.arange(b, b + m) for b, m in zip(best, self.length, strict=True)])
        return ef.Message(self.support, at, u[at], self.frames)


# %%
# Does it keep its promise? Draw vectors and look at the share of the energy that is lost, client by client:

context = ef.Round(0, 0)
rng = np.random.default_rng(0)
figure, axes = plt.subplots()
for name, compressor in {"TopK(4)": ef.TopK(4), "TopWindow(4)": TopWindow(4)}.items():
    operator, s = compressor.on(problem.support), problem.support
    lost = []
    for _ in range(100):
        u = rng.standard_normal(s.size) * rng.exponential(1.0, s.size)
        lost.append(s.norms2(operator(u, context).lifted() - u) / s.norms2(u))
    lost = np.array(lost)
    (line,) = axes.plot(s.sizes, 1 - compressor.alpha(s), "_", markersize=11, markeredgewidth=2)
    axes.plot(
        np.repeat(s.sizes[None], 100, 0).ravel(), lost.ravel(), ".", markersize=2.5, alpha=0.35, color=line.get_color()
    )
    axes.plot([], [], "o", color=line.get_color(), label=name)
    assert (lost <= 1 - compressor.alpha(s) + 1e-12).all()
axes.set(xlabel="features of the client", ylabel=r"$\|C(u) - u\|^2 / \|u\|^2$", ylim=(0, 1.02))
axes.set_title("Dots: what was lost. Bars: what was promised at most")
axes.legend()
plt.show()

# %%
# With :math:`\alpha` come all step sizes and certificates; with ``frames`` come the bytes; with ``ef.storable`` a
# checkpoint may hold it.

result = ef.solve(problem, ef.EF21(TopWindow(4)), ef.Best(), rounds=2_000)
print(result.certificate)

# %%
# A method
# --------
# DIANA (Mishchenko et al. 2019): clients send unbiased compressions of what is missing from shifts :math:`h_i`, which
# they learn:
#
# .. math::
#
#    g = h + \frac1n \sum_i C(\nabla f_i(x) - h_i), \qquad
#    h_i \leftarrow h_i + \beta\, C(\nabla f_i(x) - h_i), \qquad h = \frac1n \sum_i h_i.
#
# What the clients do and what the server does are functions of a state that goes in and comes out.


@ef.storable
@dataclass(frozen=True)
class DIANA(ef.Method):
    """Shifts that learn the gradients."""

    requires: ClassVar = ef.Unbiased
    rate: float = 0.07

    def init(self, node, ctx):
        return self.client(np.zeros(node.support.size), node, ctx)

    def client(self, h, node, ctx):
        message = node.compress(node.gradients() - h, ctx)
        return message, h + self.rate * message.lifted()

    def server_init(self, mean, ctx):
        return self.server(np.zeros_like(mean), mean, ctx)

    def server(self, h, mean, ctx):
        return h + mean, h + self.rate * mean


methods = {
    "DIANA, Rand4": (DIANA(ef.RandK(4)), ef.Constant(0.3)),
    "MARINA, Rand4": (ef.MARINA(ef.RandK(4), 0.15), ef.MarinaIndependent()),
    "EF21, Top4": (ef.EF21(ef.TopK(4)), ef.Best()),
    "EF21, TopWindow(4)": (ef.EF21(TopWindow(4)), ef.Best()),
}
figure, axes = plt.subplots()
for name, (method, rule) in methods.items():
    h = ef.solve(problem, method, rule, rounds=3_000, every=10).history
    axes.semilogy(h["uplink_bits"] / 8 / 1024 / problem.n, h["grad_norm2"], label=name)
axes.set(xlabel="sent by a client (KiB)", ylabel=r"$\|\nabla f(x^t)\|^2$", xlim=(0, 60), ylim=(1e-7, 10))
axes.set_title("Citizens: yours and ours on the same books")
axes.legend()
plt.show()

# %%
# (DIANA's step was tuned by hand; the others are proved. RandK sends no indices, because the server can repeat the
# draw.)
#
# An engine
# ---------
# An engine carries bytes and knows nothing of optimisation. ``ef.host`` has some of the clients and answers requests;
# how these get there and back is the engine's affair. Here hosts live in threads and get their mail through queues;
# ``tests/extending/queues.py`` has the same with processes.


def live(place, requests, answers):
    """The whole life of a host."""
    while not place.ended:
        answers.put(place.serve(requests.get()))


class Mail(ef.Transport):
    """Two queues for every host."""

    def __init__(self, places):
        self.boxes = [(Queue(), Queue()) for _ in places]
        self.hosts = [Thread(target=live, args=(place, *box)) for place, box in zip(places, self.boxes, strict=True)]
        for host in self.hosts:
            host.start()

    def send(self, requests):
        for (box, _), request in zip(self.boxes, requests, strict=True):
            box.put(request)

    def receive(self):
        return [box.get() for _, box in self.boxes]

    def close(self):
        for host in self.hosts:
            host.join()


@dataclass(frozen=True)
class Mailboxes(ef.Engine):
    """So many hosts, each with its part of the clients."""

    count: int = 3

    def open(self, problem, setup):
        cuts = [problem.n * k // self.count for k in range(self.count + 1)]
        places = [ef.host(problem, setup, lo, hi) for lo, hi in pairwise(cuts)]
        return ef.RemoteSession(Mail(places), problem, setup, cuts)


# %%
# All engines give the same bits, for our own method with our own compressor as for any other, and count the same bytes:

engines = {
    "local": ef.Local(),
    "two threads": ef.Threads(2),
    "three mailboxes": Mailboxes(3),
    "seven mailboxes": Mailboxes(7),
}
runs = {
    name: ef.solve(problem, ef.EF21(TopWindow(4)), ef.Best(), rounds=300, engine=engine) for name, engine in engines.items()
}
for name, result in runs.items():
    same = np.array_equal(result.x, runs["local"].x)
    print(f"{name:16} the same bits: {same}, {result.history['uplink_bits'][-1] / 8 / problem.n:,.0f} bytes up per client")

# %%
# The other families (losses, directions, step sizes, probes, downlinks, stopping rules, problems) work alike;
# :doc:`/extending` has the table of what a member of each writes, and one short file for each. A file in the package's
# own folder is found by discovery, and the conformance tests run over it.
