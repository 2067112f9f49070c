r"""
Your own model in PyTorch
=========================

The model need not be linear. Here it is a recommender: every user is a client, with an embedding of her own and the
embeddings of the items she met; a small network makes a score of both. ``ef.torch.problem`` finds out who depends on
which number, and from there on everything is as for a linear model: few bits up, quasi-Newton steps down, every bit
counted. Nobody but the user sees what she clicked on.

``pip install 'errorfeedback[torch]'``
"""

import numpy as np
import torch
from matplotlib import pyplot as plt

import errorfeedback as ef

torch.manual_seed(0)
torch.set_num_threads(1)
rng = np.random.default_rng(0)

# %%
# Users, items, clicks
# --------------------
# Users and items have a hidden place in a plane; a user clicks on what is near. Three quarters of the pairs are for
# training.

users, items, each = 80, 150, 60
user_place, item_place = rng.normal(0, 1, (users, 2)), rng.normal(0, 1, (items, 2))
clients, held_out = [], []
for u in range(users):
    met = rng.choice(items, each, replace=False)
    near = ((user_place[u] - item_place[met]) ** 2).sum(1)
    clicked = (rng.random(each) < 1 / (1 + np.exp(2 * near - 3))).astype(float)
    columns = [torch.tensor(np.full(each, u)), torch.tensor(met), torch.tensor(clicked)]
    clients.append(((columns[0][:45], columns[1][:45]), columns[2][:45]))
    held_out.append([column[45:] for column in columns])
test_user, test_item, test_clicked = (torch.cat(column) for column in zip(*held_out, strict=True))


class Recommender(torch.nn.Module):
    """A network on (u, i, u * i)."""

    def __init__(self, k=3, hidden=6):
        super().__init__()
        self.users, self.items = torch.nn.Embedding(users, k), torch.nn.Embedding(items, k)
        self.net = torch.nn.Sequential(torch.nn.Linear(3 * k, hidden), torch.nn.Tanh(), torch.nn.Linear(hidden, 1))
        for table in (self.users, self.items):
            torch.nn.init.normal_(table.weight, std=0.3)

    def forward(self, user, item):
        """One score per pair."""
        u, i = self.users(user), self.items(item)
        return self.net(torch.cat([u, i, u * i], -1)).squeeze(-1)


module = Recommender().double()
problem = ef.torch.problem(module, torch.nn.BCEWithLogitsLoss(reduction="none"), clients, lower_bound=0.0)
print(problem)

# %%
# Who depends on what
# -------------------
# The layers are listened to while the module runs over the data once. A user's own embedding is hers alone, an item
# belongs to those who met it, and the network is common to all, which is the paper's own caveat: from the second layer
# on nothing is rare.

counts = problem.support.counts
figure, axes = plt.subplots(figsize=(7.2, 3.0))
axes.hist(
    [counts[counts == 1], counts[(counts > 1) & (counts < users)], counts[counts == users]],
    bins=40,
    stacked=True,
    label=["embeddings of users", "embeddings of items", "the network"],
)
axes.set(xlabel="clients that depend on a number of the model", ylabel="numbers")
axes.set_title(f"{problem.d} numbers, {problem.support.sizes.mean():.0f} of them with an average client")
axes.legend()
plt.show()

# %%
# Train it
# --------
# Nothing here has a bound on its curvature, so no theorem gives a step size. Armijo's rule needs none: the losses that
# the clients tell accept or refuse every step.

result = ef.solve(
    problem,
    ef.EF21(ef.PowersOfTwo(4), start="compressed"),
    ef.Armijo(),
    direction=ef.LBFGS(),
    downlink=ef.FittedStep(),
    prox=ef.ElasticNet(l2=2e-3),
    rounds=200,
    metrics=False,
)
print(result)


def auc(module):
    """The chance that a click has a higher score than no click, over held-out pairs."""
    with torch.no_grad():
        score = module(test_user, test_item)
    order = torch.argsort(torch.argsort(score)).double() + 1
    hits = test_clicked.sum()
    return float((order[test_clicked == 1].sum() - hits * (hits + 1) / 2) / (hits * (len(order) - hits)))


print(f"held-out AUC before: {auc(module):.3f}")
ef.torch.load_into(module, result.x)
print(f"held-out AUC after:  {auc(module):.3f}")

# %%
# The same with Adam on all data in one place, the better of two weight decays at its best step in hindsight, to see
# what is lost by training where the data are:

u, i = (torch.cat([data[0][k] for data in clients]) for k in (0, 1))
target = torch.cat([data[1] for data in clients])
scores = []
for decay in (1e-2, 1e-1):
    torch.manual_seed(0)
    other = Recommender().double()
    adam = torch.optim.AdamW(other.parameters(), lr=0.02, weight_decay=decay)
    for step in range(500):
        adam.zero_grad()
        torch.nn.functional.binary_cross_entropy_with_logits(other(u, i), target).backward()
        adam.step()
        scores += [auc(other)] if step % 20 == 19 else []
print(f"Adam, all data in one place: {max(scores):.3f}")

# %%
# Training where the data are costs no accuracy here. (Nor does it gain any: with more tuning Adam may do better. A
# larger comparison, with test data that nobody chose by, is in :doc:`/own-model`.)
#
# What crossed the wire
# ---------------------

h = result.history
kib = (h["uplink_bits"] + h["downlink_bits"]) / 8 / 1024 / users
dense = 2 * 8 * problem.support.sizes.mean() / 1024
figure, axes = plt.subplots()
axes.plot(kib, np.minimum.accumulate(h["f"]), label="this run")
axes.axvline(10 * dense, color="C6", linestyle=":")
axes.annotate(" ten rounds of\n all numbers in full", (10 * dense, h["f"][0]), color="C6", va="top")
axes.set(xlabel="KiB per client, up and down", ylabel="lowest loss so far, with the penalty")
axes.set_title("A neural model in few bits")
axes.legend(loc="lower left")
plt.show()

# %%
# More: minibatches, JAX, plain Python functions, what is checked at the start and what is refused are in
# :doc:`/own-model`; error feedback inside PyTorch's own ``DistributedDataParallel`` is one line, ``ef.torch.hook``
# (:doc:`/ddp`).
