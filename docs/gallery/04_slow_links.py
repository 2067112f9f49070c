r"""
Slow links
==========

A round takes as long as its slowest client needs to hear the step and to answer. On a link with 50 ms of latency and
1 Mbit/s up, ten thousand numbers take 0.6 s and the trip 0.1 s; at 20 kbit/s the same message takes half a minute. So
the best method depends on the link, and neither rounds nor bytes alone decide. This page runs four methods once, and
asks what each would have taken on four links.
"""

import numpy as np
from matplotlib import pyplot as plt

import errorfeedback as ef

LINKS = {
    "satellite\n10k/50k, 500 ms": ef.Network(up="10kbit/s", down="50kbit/s", latency="500ms"),
    "meter\n100k/1M, 20 ms": ef.Network(up="100kbit/s", down="1Mbit/s", latency="20ms"),
    "phone\n1M/10M, 50 ms": ef.Network(up="1Mbit/s", down="10Mbit/s", latency="50ms"),
    "data centre\n1G/1G, 0.1 ms": ef.Network(up="1Gbit/s", latency="0.1ms"),
}

# %%
# The data
# --------
# 60 clients with 60 rows each. Features are Zipf popular: the first is everywhere, most are with a few.

rng = np.random.default_rng(3)
n, rows, d, per_row = 60, 60, 3_000, 20
popularity = np.arange(1, d + 1) ** -0.7
A = np.zeros((n * rows, d))
for client in range(n):
    mine = rng.choice(d, 250, replace=False, p=popularity / popularity.sum())
    for k in range(rows):
        A[client * rows + k, rng.choice(mine, per_row, replace=False)] = 1.0
y = rng.random(n * rows) < 1 / (1 + np.exp(-A @ rng.normal(0, 0.8, d)))
problem = ef.scaled(ef.logistic(A, y, clients=n))
penalty = ef.ElasticNet(l2=1e-3)
print(problem)

# %%
# Four methods
# ------------
# From one number a round to all numbers in full. All but the first take quasi-Newton steps.

curved = {"stepsize": ef.Armijo(), "direction": ef.LBFGS(), "prox": penalty}
runs = {
    "one number (Top1)": ef.solve(
        problem, ef.EF21(ef.TopK(1)), ef.Automatic(), downlink=ef.Changed(), prox=penalty, rounds=4_000, every=5
    ),
    "4 bits and up": ef.solve(
        problem, ef.EF21(ef.FittedAnswer(), start="compressed"), downlink=ef.FittedStep(), rounds=80, **curved
    ),
    "16 bits": ef.solve(
        problem, ef.EF21(ef.Uniform(16), start="compressed"), downlink=ef.RoundedStep(ef.Uniform(16)), rounds=60, **curved
    ),
    "all 64 bits": ef.solve(problem, ef.DGD(), rounds=150, **curved),
}
best = min(result.history["f"].min() for result in runs.values())
largest = problem.support.sizes.max() / problem.support.sizes.sum()  # the busiest client's share of all bits


def seconds(history, link):
    """Time on the link until every recorded round: two trips, and what the busiest client sends and receives."""
    up, down = (np.diff(history[f"{way}link_bits"], prepend=0) * largest for way in ("up", "down"))
    trips = np.diff(history["round"], prepend=-1)
    return np.cumsum([t * link.seconds(u / t, v / t) for t, u, v in zip(trips, up, down, strict=True)])


def first(history, goal):
    """The first recorded round with so small a share of the gap left."""
    gap = (history["f"] - best) / (history["f"][0] - best)
    return int(np.argmax(gap < goal)) if (gap < goal).any() else len(gap) - 1


# %%
# Which is best where
# -------------------

goal = 1e-3
figure, axes = plt.subplots(figsize=(7.6, 4.2))
for k, (name, result) in enumerate(runs.items()):
    h = result.history
    at = first(h, goal)
    times = [seconds(h, link)[at] for link in LINKS.values()]
    axes.bar(np.arange(len(LINKS)) + 0.2 * (k - 1.5), times, 0.18, label=name)
    print(f"{name:18} {h['round'][at]:5} rounds, {(h['uplink_bits'] + h['downlink_bits'])[at] / 8 / n:9,.0f} bytes a client")
axes.set_xticks(np.arange(len(LINKS)), list(LINKS))
axes.set(yscale="log", ylabel="seconds on the link")
axes.set_title("Time until a thousandth of the gap is left")
axes.legend(ncols=2)
axes.grid(axis="x", visible=False)
plt.show()

# %%
# Where bits are dear, four of them win; where a trip is dear, so do fewer rounds with more bits in each; in a data
# centre nothing of it matters. One number a round is the cheapest message up, but it takes hundreds of rounds, pays for
# every trip, and the steps that come back move every feature: what comes down is nearly all of its bytes.
#
# Let it choose
# -------------
# ``network=`` (``--network`` on the command line) tells the estimator what the links can do. It then chooses bits so
# that transfers take at most a tenth of a round trip, and asks for few-bit Hessians where they save time:

for text in ("up=10kbit/s,down=50kbit/s,latency=500ms", "up=1Mbit/s,down=10Mbit/s,latency=50ms"):
    model = ef.EF21Classifier(l2=1e-3, network=text).fit(A, y, groups=np.repeat(np.arange(n), rows))
    print(f"{text}\n    {model.choice_}\n    {model.history_.rows} recorded rounds")

# %%
# Clients with different links are classes: ``ef.Links({"phone-*": ef.Network(up="100kbit/s"), "*":
# ef.Network(up="1Mbit/s")})``, or ``--network`` once for each. A round then lasts as long as the slowest of them.
