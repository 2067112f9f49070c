"""Modules as problems: values and gradients are the module's own, and clients have the rows that occur."""

from __future__ import annotations

import numpy as np
import pytest
from torch_modules import (
    BY_ROW,
    ITEMS,
    MEAN,
    USERS,
    Bags,
    K,
    Recommender,
    assert_is_the_module,
    bags,
    data,
    made,
    nn,
    point,
    torch,
)

import errorfeedback as ef


@pytest.mark.parametrize("per_call", [1, 4, 32])
@pytest.mark.parametrize("loss", [BY_ROW, MEAN], ids=["by row", "mean"])
def test_gradients_are_those_of_the_module(loss, per_call):
    module = made(Recommender)
    problem = ef.torch.problem(module, loss, data(), clients_per_call=per_call)
    assert ("client by client" if per_call == 1 else f"{min(per_call, USERS)} clients in a call") in str(problem)
    assert_is_the_module(problem, module, loss, data())


@pytest.mark.parametrize("mode", ["sum", "mean"])
@pytest.mark.parametrize("per_call", [1, 32])
def test_bags_of_words_with_padding(mode, per_call):
    module = made(Bags, mode)
    assert_is_the_module(ef.torch.problem(module, BY_ROW, bags(), clients_per_call=per_call), module, BY_ROW, bags())


def test_float32_stays_float32():
    module = made(Recommender, dtype=torch.float32)
    problem = ef.torch.problem(module, BY_ROW, data(torch.float32))
    assert problem.dtype == np.float32
    assert problem.gradients_at(problem.x0).dtype == np.float32
    assert_is_the_module(problem, module, BY_ROW, data(torch.float32), rtol=1e-5)


def test_sparse_tables_and_padding_give_the_same():
    for options in ({"sparse": True}, {"padding_idx": 4}):
        module = made(Recommender, **options)
        assert_is_the_module(ef.torch.problem(module, BY_ROW, data()), module, BY_ROW, data())


def test_clients_have_the_rows_that_occur_and_all_of_the_rest():
    problem = ef.torch.problem(made(Recommender), BY_ROW, data())
    first, dense = USERS * K + ITEMS * K, K * 2 * 5 + 5 + 5 + 1
    for i, ((_, item), _) in enumerate(data()):
        rows = [USERS * K + row * K + k for row in sorted(set(item.tolist())) for k in range(K)]
        expected = [*range(i * K, i * K + K), *rows, *range(first, first + dense)]
        assert problem.columns[problem.support.features(i)].tolist() == expected
    assert problem.columns[problem.common].tolist() == list(range(first, first + dense))
    assert problem.dropped_features >= K  # the last item occurs nowhere


def test_more_rows_than_occur_may_be_given_and_fewer_are_refused():
    all_items = [np.arange(ITEMS)] * USERS
    problem = ef.torch.problem(made(Recommender), BY_ROW, data(), supports={"items.weight": all_items})
    assert (problem.support.sizes == K + ITEMS * K + 41).all()
    few = [[0]] * USERS
    with pytest.raises(
        ValueError, match=r"supports\['items.weight'\]\[0\] has 1 rows but not \d+, which occurs in its data"
    ):
        ef.torch.problem(made(Recommender), BY_ROW, data(), supports={"items.weight": few})
    with pytest.raises(ValueError, match=r"supports names 'net.0.weight', which is no table of rare rows; these are: users"):
        ef.torch.problem(made(Recommender), BY_ROW, data(), supports={"net.0.weight": few})


def test_load_into_puts_numbers_where_they_were():
    module, other = made(Recommender), made(Recommender)
    problem = ef.torch.problem(module, BY_ROW, data())
    x = point(problem)
    ef.torch.load_into(other, x)
    assert np.array_equal(torch.cat([p.detach().reshape(-1) for p in other.parameters()]).numpy(), x)
    assert np.array_equal(ef.torch.problem(other, BY_ROW, data()).x0, x)
    with pytest.raises(ValueError, match=r"x has shape \(3,\), but the model has 143 numbers"):
        ef.torch.load_into(other, np.zeros(3))


def test_client_weights_scale_every_f_i():
    weights = np.linspace(0.5, 2.0, USERS)
    for loss in (BY_ROW, MEAN):
        plain, weighted = (ef.torch.problem(made(Recommender), loss, data(), client_weights=w) for w in (None, weights))
        x = point(plain)
        assert np.allclose(weighted.values_at(x), weights * plain.values_at(x), rtol=1e-13)
        assert np.allclose(weighted.gradients_at(x), plain.support.repeat(weights) * plain.gradients_at(x), rtol=1e-11)
    with pytest.raises(ValueError, match=r"client_weights\[0\] = -1.0; a weight must be"):
        ef.torch.problem(made(Recommender), BY_ROW, data(), client_weights=-np.ones(USERS))


def test_datasets_are_read_row_by_row():
    pairs = [torch.utils.data.TensorDataset(torch.eye(4, dtype=torch.float64)[:m], torch.ones(m).double()) for m in (2, 4)]
    module = nn.Sequential(nn.Linear(4, 1), nn.Flatten(0)).double()
    clients = [tuple(each.tensors) for each in pairs]
    assert_is_the_module(ef.torch.problem(module, BY_ROW, pairs), module, BY_ROW, clients)


def test_vectors_without_any_padding():
    """16 numbers a client, 8 rows of data."""
    module = nn.Sequential(nn.Linear(16, 1, bias=False), nn.Flatten(0)).double()
    clients = [(torch.ones(8, 16).double() * k, torch.zeros(8).double()) for k in (1, 2)]
    for per_call in (1, 2):
        problem = ef.torch.problem(module, BY_ROW, clients, clients_per_call=per_call)
        assert_is_the_module(problem, module, BY_ROW, clients)


class Flow(nn.Module):
    """Its forward asks for numbers, which vmap cannot."""

    def __init__(self):
        super().__init__()
        self.out = nn.Linear(4, 1)

    def forward(self, x):
        return self.out(x).squeeze(-1) * (2.0 if float(x.sum().item()) > 0 else 1.0)


def test_a_module_that_vmap_refuses_is_computed_client_by_client_and_says_so():
    module, clients = made(Flow), [(torch.ones(m, 4).double(), torch.ones(m).double()) for m in (2, 3)]
    problem = ef.torch.problem(module, BY_ROW, clients)
    assert "client by client; vmap refused the module (RuntimeError" in str(problem)
    assert_is_the_module(problem, module, BY_ROW, clients)


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.items, self.out = nn.Embedding(ITEMS, K), nn.Linear(K, ITEMS, bias=False)
        self.out.weight = self.items.weight

    def forward(self, item):
        return self.out(self.items(item))


class Direct(nn.Module):
    """Reads its table otherwise than by rows."""

    def __init__(self):
        super().__init__()
        self.items = nn.Embedding(ITEMS, K)

    def forward(self, item):
        return self.items(item).sum(-1) + self.items.weight.square().mean()


class Positions(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places, self.out = nn.Embedding(ITEMS, K), nn.Embedding(3, K), nn.Linear(K, 1)

    def forward(self, words):
        return self.out((self.words(words) + self.places(torch.arange(3))).sum(1)).squeeze(-1)


def items_of(m=3):
    return [(torch.arange(2, 2 + m), torch.arange(m)), (torch.arange(5, 5 + m), torch.arange(m))]


def test_tables_that_are_used_otherwise_are_common():
    tied = ef.torch.problem(made(Tied), nn.CrossEntropyLoss(reduction="none"), items_of())
    assert tied.support.c == tied.n
    assert len(tied.common) == ITEMS * K
    positions = ef.torch.problem(made(Positions), BY_ROW, bags())
    assert [p.name for p in positions.parameters if p.table] == ["words.weight"]
    floats = [(item, target.double()) for item, target in items_of()]
    with pytest.raises(ValueError, match=r"client 0: from its own rows .* name a table in common= that is used otherwise"):
        ef.torch.problem(made(Direct), BY_ROW, floats)
    module = made(Direct)
    assert_is_the_module(ef.torch.problem(module, BY_ROW, floats, common=["items.weight"]), module, BY_ROW, floats)
