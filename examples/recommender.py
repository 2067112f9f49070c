"""A recommender trained across its users' devices: nobody but the user sees what she clicked on.

Users and items have embeddings, a small network makes a score of both, and every user is a client. Differences of gradients
go up in 6 bits a number, rounded AdaGrad steps come down; a client sends and hears of its own embedding, of the items that
it met, and of the network. Run it with: PYTHONPATH=benchmarks python examples/recommender.py
"""

import numpy as np
import torch
from racing.feedback import VALID, feedback  # who met which item and liked it: put your own data here
from sklearn.metrics import roc_auc_score

import errorfeedback as ef


class Recommender(torch.nn.Module):
    def __init__(self, users, items, k=4, hidden=8):
        super().__init__()
        self.users, self.items = torch.nn.Embedding(users, k), torch.nn.Embedding(items, k)
        self.net = torch.nn.Sequential(torch.nn.Linear(3 * k, hidden), torch.nn.Tanh(), torch.nn.Linear(hidden, 1))
        for table in (self.users, self.items):
            torch.nn.init.normal_(table.weight, std=0.3)

    def forward(self, user, item):
        u, i = self.users(user), self.items(item)
        return self.net(torch.cat([u, i, u * i], -1)).squeeze(-1)


def problem_of(module, clients):
    datasets = [((torch.tensor(user), torch.tensor(item)), torch.tensor(liked)) for user, item, liked in clients]
    rows = np.array([len(liked) for *_, liked in clients])
    loss = torch.nn.BCEWithLogitsLoss(reduction="none")
    weights = rows / rows.mean()
    return ef.torch.problem(module, loss, datasets, lower_bound=0.0, client_weights=weights, clients_per_call=100)


def train(module, problem, valid, stop=()):
    user, item, liked = (torch.tensor(column) for column in valid)

    def held_out(x):
        ef.torch.load_into(module, problem.extend(x, problem.x0))
        with torch.no_grad():
            return 1 - roc_auc_score(liked, module(user, item))

    up, down = ef.EF21(ef.FittedAnswer(least=6), start="compressed"), ef.FittedStep(least=6)  # 6 bits a number, both ways
    stop = [ef.Validation(held_out, every=5, patience=100, flat=None), *stop]
    step, adagrad, l2 = ef.Constant(0.2), ef.Diagonal(), ef.ElasticNet(l2=2e-4)
    return ef.solve(problem, up, step, direction=adagrad, downlink=down, prox=l2, stop=stop, rounds=150, metrics=False)


if __name__ == "__main__":
    torch.manual_seed(0)
    data = feedback(users=600, items=500, seed=0)
    module = Recommender(data.users, data.items).double()
    result = train(module, problem_of(module, data.clients()), data.rows(VALID))
    ef.torch.load_into(module, result.x)
    print(result, result.returned)
