"""The example of a recommender is short, and it trains; its data are what they say."""

from __future__ import annotations

import ast
import runpy
import sys
from copy import deepcopy
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
from racing.federated_averaging import Averaging, FedAdagrad, FedAdam, FedAvg, layout, orders  # noqa: E402
from racing.feedback import TEST, TRAIN, VALID, feedback  # noqa: E402

import errorfeedback as ef  # noqa: E402

EXAMPLE = ROOT / "examples" / "recommender.py"


def test_the_example_is_at_most_forty_lines():
    text = EXAMPLE.read_text()
    places = {k for node in ast.parse(text).body[1:] for k in range(node.lineno - 1, node.end_lineno)}
    assert sum(bool(text.splitlines()[k].strip()) for k in places) <= 40


def test_every_user_has_rows_to_train_with_and_the_most_popular_item_half_of_the_users():
    made = feedback(users=60, items=90, seed=1)
    clients = made.clients()
    assert 50 <= len(clients) == made.users <= 60
    assert all(len(liked) for *_, liked in clients)
    assert all((user == i).all() for i, (user, _, _) in enumerate(clients))
    assert np.bincount(made.rows(TRAIN)[1]).max() == 30
    assert (np.diff([len(liked) for *_, liked in clients]) >= 0).all(), "numbered by how much they met"
    valid, test = (len(made.rows(part)[0]) for part in (VALID, TEST))
    assert test / (valid + test) == pytest.approx(2 / 3, abs=0.05)
    pairs = made.user * made.items + made.item
    assert len(np.unique(pairs)) == len(pairs), "no pair is in two parts"


def test_the_example_trains_over_few_bit_links():
    """Its loss comes down, in an eighth of the bits of numbers in full. (What it learns of others' tastes takes more data
    than a test has: benchmarks/recommender.py.)"""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'errorfeedback[torch]'")
    example = runpy.run_path(str(EXAMPLE))
    torch.set_num_threads(1)
    torch.manual_seed(0)
    data = feedback(users=60, items=40, seed=0)
    module = example["Recommender"](data.users, data.items).double()
    problem = example["problem_of"](module, data.clients())
    result = example["train"](module, problem, data.rows(TRAIN), [ef.Budget(bytes=4000)])
    assert problem.value(result.x) < 0.6 * problem.value(problem.restrict(problem.x0))
    assert np.nanmin(result.history["validation"]) < 0.1  # 1 - AUC on the rows that it was trained with
    assert result.history["uplink_bits"][-1] < 64 / 8 * problem.support.size * result.rounds


def discounted(values, factor):
    """sum_s factor^(t - s) values_s, t the last."""
    return sum(factor ** (len(values) - 1 - s) * value for s, value in enumerate(values))


def averaging(changes, gradients):
    return 0.7 * discounted(changes, 0.5)


def adagrad(changes, gradients):
    return 0.3 * gradients[-1] / (np.sqrt(sum(g**2 for g in gradients)) + 1e-3)


def adam(changes, gradients):
    m, v = 0.2 * discounted(gradients, 0.8), 0.1 * discounted([g**2 for g in gradients], 0.9)
    return 0.3 * m / (np.sqrt(v + 0.9 ** len(gradients) * 1e-6) + 1e-3)


SERVERS = [(Averaging(0.7, 0.5), averaging), (FedAdagrad(0.3, 1e-3), adagrad), (FedAdam(0.3, 1e-3, 0.8, 0.9), adam)]


@pytest.mark.parametrize(("server", "literal"), SERVERS, ids=["FedAvg", "FedAdagrad", "FedAdam"])
def test_compiled_fedavg_is_a_plain_loop_over_copies_of_the_module(server, literal):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'errorfeedback[torch]'")
    example = runpy.run_path(str(EXAMPLE))
    torch.manual_seed(0)
    data = feedback(users=9, items=7, seed=0)
    module = example["Recommender"](data.users, data.items).double()
    problem = example["problem_of"](module, data.clients())
    support = problem.support
    assert len(layout(data)[0]) == support.size, "a client gets and sends what it owns"
    x = torch.nn.utils.parameters_to_vector(module.parameters()).detach().numpy()
    user, item, liked = data.rows(TRAIN)
    owns = np.zeros((data.users, len(x)))
    owns[np.repeat(np.arange(data.users), support.sizes), problem.columns[support.indices]] = 1
    mine = np.bincount(user)
    rows, changes, gradients = mine @ owns, [], []
    setting = FedAvg(epochs=2, batch=3, rate=0.5, l2=0.01, server=server, halved=2)
    for t, made in enumerate(islice(setting.rounds(x, data), 3)):
        rate, order = 0.5 * 2 ** (-t / 2), orders(user, 2, t)
        changes.append(np.zeros(len(x)))
        for i in range(data.users):
            w = x.copy()
            for epoch in order:
                for batch in torch.tensor(epoch[user[epoch] == i]).split(3):
                    slope = slope_of(torch, module, w, user[batch], item[batch], liked[batch])
                    w -= rate * (slope + 0.01 * len(user) / rows * w) * owns[i]
            changes[-1] += mine[i] * (w - x) / rows
        gradients.append(changes[-1] / rate)
        x = x + literal(changes, gradients)
        np.testing.assert_allclose(made, x, rtol=0, atol=1e-12)


def slope_of(torch, module, w, user, item, liked):
    """The gradient of the mean loss of these rows at w, by a copy of the module."""
    copy = deepcopy(module)
    torch.nn.utils.vector_to_parameters(torch.tensor(w), copy.parameters())
    out = copy(torch.tensor(user), torch.tensor(item))
    torch.nn.functional.binary_cross_entropy_with_logits(out, torch.tensor(liked)).backward()
    return torch.nn.utils.parameters_to_vector([p.grad for p in copy.parameters()]).numpy()
