r"""
Natural clients
===============

Benchmarks deal the rows of a data set to clients like cards. Real clients do not get their rows like that: a user has
the items she met, a site the words of its language, a hospital the codes it uses. That is what makes features *rare*,
and what the constants :math:`c` and :math:`r` measure. This page takes one data set, gives it to its real clients and
to random ones, and looks at what changes.
"""

import numpy as np
from matplotlib import pyplot as plt
from scipy import sparse

import errorfeedback as ef

# %%
# Readers and books
# -----------------
# 150 readers, 1,200 books. A few books are read by everybody; most belong to a genre, and readers keep to two genres. A
# row is one evening: eight of the reader's books that were looked at, and whether one was bought.

rng = np.random.default_rng(1)
readers, books, genres, evenings, per_row = 150, 1_200, 30, 40, 8
fame = np.arange(1, books + 1) ** -0.6
genre = rng.integers(genres, size=books)
taste = rng.normal(0, 1, books)

row, column = [], []
for reader in range(readers):
    mine = np.isin(genre, rng.choice(genres, 2, replace=False)) | (np.arange(books) < 15)
    shelf = rng.choice(books, 60, replace=False, p=fame * mine / (fame * mine).sum())
    for evening in range(evenings):
        row += [reader * evenings + evening] * per_row
        column += list(rng.choice(shelf, per_row, replace=False))
A = sparse.csr_array((np.ones(len(row)), (row, column)), shape=(readers * evenings, books))
y = rng.random(readers * evenings) < 1 / (1 + np.exp(-A @ taste / 1.5))
groups = np.repeat(np.arange(readers), evenings)

# %%
# Two ways to deal
# ----------------
# ``clients`` takes a label per row (natural clients) or a rule such as ``ef.Shuffled``. The function that is minimised
# is the same: the mean over all rows, as every client has equally many.

own = ef.logistic(A, y, clients=groups)
dealt = ef.logistic(A, y, clients=ef.Shuffled(readers, seed=0))
problems = {"natural clients": own, "shuffled rows": dealt}
for name, problem in problems.items():
    s = problem.support
    owners = np.median(s.counts)
    print(f"{name:16} c = {s.c:3}, r = {s.r:3}, mean |J_i| = {s.sizes.mean():5.1f}, median owners of a feature {owners:g}")

# %%

figure, (left, right) = plt.subplots(1, 2, figsize=(7.2, 3.4))
for name, problem in problems.items():
    counts = np.sort(problem.support.counts)[::-1]
    left.loglog(np.arange(1, len(counts) + 1), counts, label=name)
    right.hist(problem.support.sizes, bins=np.arange(0, 240, 6), label=name, alpha=0.85)
left.set(xlabel="feature, by how many clients have it", ylabel="clients that have it")
left.set_title("Features")
left.legend()
right.set(xlabel="features that a client has, |J_i|", ylabel="clients")
right.set_title("Clients")
plt.show()

# %%
# A shuffled client has three times as many features, because it got a bit of everybody. Whatever a method sends, it
# sends more of it.
#
# What it costs
# -------------
# The same recipe for both: few-bit differences up, rounded quasi-Newton steps down, as ``train`` has it.


def trained(problem):
    """The recipe of `errorfeedback train`."""
    return ef.solve(
        ef.scaled(problem),
        ef.EF21(ef.FittedAnswer(), start="compressed"),
        ef.Armijo(),
        direction=ef.LBFGS(),
        downlink=ef.FittedStep(),
        prox=ef.ElasticNet(l2=1e-3),
        rounds=60,
    )


def lowest(problem):
    """The minimum, by the same steps with every number in full."""
    options = {"direction": ef.LBFGS(), "prox": ef.ElasticNet(l2=1e-3), "rounds": 300}
    return ef.solve(ef.scaled(problem), ef.DGD(), ef.Armijo(), **options).history["f"].min()


figure, axes = plt.subplots()
for name, problem in problems.items():
    h, bottom = trained(problem).history, lowest(problem)
    gap = (h["f"] - bottom) / (h["f"][0] - bottom)
    sent = (h["uplink_bits"] + h["downlink_bits"]) / 8 / readers
    axes.semilogy(sent, gap, label=name)
    there = np.argmax(gap < 1e-3)
    print(f"{name:16} {sent[there]:6.0f} bytes per client to a relative gap of 1e-3, in {there} rounds")
axes.set(xlabel="bytes per client, up and down", ylabel="share of the gap that is left", ylim=(1e-6, 1.5), xlim=(0, 12_000))
axes.set_title("The same model, the same method, other clients")
axes.legend()
plt.show()

# %%
# And the theorems
# ----------------
# The best sellers are on every shelf, so :math:`c = n` in both cases: a single common feature hides how rare all others
# are. ``ef.ExactOnCommon`` sends the common ones exactly in every round; then only the others count. What it buys, in
# proved step sizes:

common = np.flatnonzero(own.support.counts > readers / 2)
print(f"{len(common)} of {own.d} features are on more than half of the shelves")
for name, compressor in {
    "Top8": ef.TopK(8),
    f"{len(common)} common ones exactly, Top4 of the rest": ef.ExactOnCommon(common, 4),
}.items():
    theory = ef.analyse(own, compressor)
    numbers = compressor.entries(own.support).mean()
    print(f"{name:42} {numbers:5.1f} numbers a round, proved step {ef.Best().gamma(theory, ef.EF21(compressor)):.4f}")

# %%
# What to take from it
# --------------------
# - Tell the library who your clients are (``--client-column``, ``groups=``, a folder with a file for each): dealing
#   rows at random costs bytes, and hides what is rare.
# - :math:`c` is a maximum, and one common feature sets it. Look at how features are spread (``errorfeedback inspect``
#   draws it), not at :math:`c` alone.
# - The bytes of a round go with :math:`|J_i|`, the features that a client has; nothing is ever sent for the others.
