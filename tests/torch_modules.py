"""Modules and data that the tests of `ef.torch.problem` share, and what autograd says of them."""

from __future__ import annotations

import numpy as np
import pytest

import errorfeedback as ef

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'errorfeedback[torch]'")
torch.set_num_threads(1)  # these modules are tiny: threads would wait for each other
nn = torch.nn
USERS, ITEMS, K = 11, 23, 3
BY_ROW, MEAN = nn.BCEWithLogitsLoss(reduction="none"), nn.BCEWithLogitsLoss()
FEW = {
    "method": ef.EF21(ef.PowersOfTwo(4), start="compressed"),
    "stepsize": ef.Armijo(),
    "direction": ef.LBFGS(),
    "downlink": ef.FittedStep(),
}


class Recommender(nn.Module):
    """Widths are odd on purpose: products of such matrices round by their place in memory."""

    def __init__(self, **options):
        super().__init__()
        self.users, self.items = nn.Embedding(USERS, K), nn.Embedding(ITEMS, K, **options)
        self.net = nn.Sequential(nn.Linear(2 * K, 5), nn.Tanh(), nn.Linear(5, 1))

    def forward(self, user, item):
        return self.net(torch.cat([self.users(user), self.items(item)], -1)).squeeze(-1)


class Bags(nn.Module):
    """Each row has three words, of which word 0 is none."""

    def __init__(self, mode="mean"):
        super().__init__()
        self.words, self.out = nn.EmbeddingBag(ITEMS, K, mode=mode, padding_idx=0), nn.Linear(K, 1)

    def forward(self, words):
        return self.out(self.words(words)).squeeze(-1)


def made(kind, *args, dtype=torch.float64, **options):
    torch.manual_seed(0)
    return kind(*args, **options).to(dtype)


def data(dtype=torch.float64, n=USERS):
    rng = np.random.default_rng(0)
    out = []
    for client in range(n):
        m = int(rng.integers(1, 21))
        item, y = rng.integers(0, ITEMS - 1, m), rng.random(m) < 0.5
        out.append(((torch.full((m,), client), torch.from_numpy(item)), torch.from_numpy(y).to(dtype)))
    return out


def bags():
    rng = np.random.default_rng(0)
    return [
        (torch.from_numpy(rng.integers(0, ITEMS, (m, 3))), torch.from_numpy((rng.random(m) < 0.5) * 1.0)) for m in (2, 5, 9)
    ]


def by_autograd(module, loss, client):
    """f_i and its gradient in all parameters."""
    inputs, target = client
    inputs = inputs if isinstance(inputs, tuple) else (inputs,)
    value = loss(module(*inputs), target).mean()
    grads = torch.autograd.grad(value, [p for p in module.parameters() if p.requires_grad])
    return float(value.detach()), torch.cat([g.to_dense().reshape(-1) for g in grads]).numpy()


def point(problem):
    """Other numbers wherever some client has one."""
    near = problem.restrict(problem.x0) + np.random.default_rng(1).standard_normal(problem.d)
    return problem.extend(near, problem.x0)


def assert_is_the_module(problem, module, loss, clients, rtol=1e-12):
    """Values and gradients at another point are those of plain autograd, and zero outside J_i."""
    x = point(problem)
    ef.torch.load_into(module, x)
    values, grads = problem.values_at(x), problem.gradients_at(x)
    for i, client in enumerate(clients):
        value, gradient = by_autograd(module, loss, client)
        ours = np.zeros(problem.width)
        ours[problem.columns[problem.support.features(i)]] = grads[problem.support.indptr[i] : problem.support.indptr[i + 1]]
        assert values[i] == pytest.approx(value, rel=rtol)
        assert np.abs(ours - gradient).max() <= rtol * max(1.0, np.abs(gradient).max())


def plain(m=3, rows=None):
    return (torch.ones(m, 4).double(), torch.zeros(m if rows is None else rows).double())


def linear(**options):
    return nn.Sequential(nn.Linear(4, 1, **options), nn.Flatten(0)).double()
