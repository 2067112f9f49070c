"""Modules as problems: the gradients are the module's own, clients have the rows that occur, the bits are the same wherever
clients live, and modules that cannot be trained so are refused with a reason.
"""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from bytewise import Bytewise

import errorfeedback as ef

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'errorfeedback[torch]'")
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


def test_the_users_module_is_left_alone():
    module = made(Recommender, sparse=True)
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    problem = ef.torch.problem(module, BY_ROW, data())
    ef.solve(problem, rounds=3, **FEW)
    assert all(torch.equal(tensor, before[name]) for name, tensor in module.state_dict().items())
    assert module.items.sparse
    assert not module.items._forward_pre_hooks


@pytest.mark.parametrize("per_call", [1, 4])
def test_the_bits_are_the_same_wherever_clients_live(per_call):
    problem = ef.torch.problem(made(Recommender), BY_ROW, data(), lower_bound=0.0, clients_per_call=per_call)
    one = ef.solve(problem, rounds=25, **FEW)
    assert problem.value(one.x) < 0.95 * one.history["f"][0]
    for engine in (ef.Local(3), ef.Threads(2), Bytewise(2)):
        other = ef.solve(problem, rounds=25, engine=engine, **FEW)
        assert np.array_equal(one.x, other.x), engine
        assert np.array_equal(one.history["uplink_bits"], other.history["uplink_bits"])


def test_a_client_rounds_as_it_does_in_any_shard():
    """Products of these odd widths round by their place in a batch: a client must keep its own."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(31, 33), nn.Tanh(), nn.Linear(33, 1), nn.Flatten(0)).double()
    clients = [(torch.randn(96, 31).double(), torch.ones(96).double()) for _ in range(20)]
    problem = ef.torch.problem(module, BY_ROW, clients, clients_per_call=8)
    grads, ends = problem.gradients_at(problem.x0), problem.support.indptr
    for lo, hi in ((1, 20), (3, 6), (7, 10), (10, 17)):
        assert np.array_equal(problem.shard(lo, hi).gradients_at(problem.x0), grads[ends[lo] : ends[hi]]), (lo, hi)


@pytest.mark.parametrize("loss", [BY_ROW, MEAN], ids=["by row", "mean"])
@pytest.mark.parametrize("per_call", [1, 4])
def test_minibatches_are_keyed_by_seed_round_and_client(loss, per_call):
    """On average over many rounds they are the gradient; a shard draws what the whole draws; all rows are the gradient."""
    problem = ef.torch.problem(made(Recommender), loss, data(), clients_per_call=per_call)
    x, out = problem.restrict(point(problem)), np.empty(problem.support.size)

    def sampled(size, t, part=problem):
        out = np.empty(part.support.size)
        part.gradients(ef.Point(x), out, rows=ef.Sample(size, ef.Round(t, 0)))
        return out

    problem.gradients(ef.Point(x), out)
    assert np.abs(sampled(20, 0) - out).max() < 1e-14
    ends = problem.support.indptr
    for size in (3, 12):
        assert np.array_equal(sampled(size, 5)[ends[2] : ends[7]], sampled(size, 5, problem.shard(2, 7)))
    assert not np.array_equal(sampled(3, 5), sampled(3, 6))
    draws = np.array([sampled(3, t) for t in range(100)])
    assert np.abs(draws.mean(0) - out).max() < 5 * draws.std(0).max() / 10


def test_client_weights_scale_every_f_i():
    weights = np.linspace(0.5, 2.0, USERS)
    for loss in (BY_ROW, MEAN):
        plain, weighted = (ef.torch.problem(made(Recommender), loss, data(), client_weights=w) for w in (None, weights))
        x = point(plain)
        assert np.allclose(weighted.values_at(x), weights * plain.values_at(x), rtol=1e-13)
        assert np.allclose(weighted.gradients_at(x), plain.support.repeat(weights) * plain.gradients_at(x), rtol=1e-11)
    with pytest.raises(ValueError, match=r"client_weights\[0\] = -1.0; a weight must be"):
        ef.torch.problem(made(Recommender), BY_ROW, data(), client_weights=-np.ones(USERS))


def test_a_checkpoint_takes_the_module_again_and_refuses_another(tmp_path):
    class StopError(Exception):
        pass

    def watch(row):
        if row["round"] == 7:
            raise StopError

    problem = ef.torch.problem(made(Recommender), BY_ROW, data(), lower_bound=0.0)
    with pytest.raises(StopError):
        ef.solve(problem, rounds=12, **FEW, watch=watch, checkpoint=ef.Checkpoint(tmp_path, every=3))
    flipped = [(inputs, 1 - target) for inputs, target in data()]
    with pytest.raises(ValueError, match="belongs to another run: data is ModelProblem"):
        ef.resume(tmp_path, problem=ef.torch.problem(made(Recommender), BY_ROW, flipped, lower_bound=0.0))
    again = ef.resume(tmp_path, problem=ef.torch.problem(made(Recommender), BY_ROW, data(), lower_bound=0.0))
    assert np.array_equal(again.x, ef.solve(problem, rounds=12, **FEW).x)


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


class Double(torch.autograd.Function):
    """x -> 2x with the slope of 3x."""

    @staticmethod
    def forward(x):
        return 2 * x

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, grad):
        return 3 * grad


class WrongBackward(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(4, 1)

    def forward(self, x):
        return Double.apply(self.out(x).squeeze(-1))


def plain(m=3, rows=None):
    return (torch.ones(m, 4).double(), torch.zeros(m if rows is None else rows).double())


class Noise(nn.Linear):
    def forward(self, x):
        return super().forward(x).squeeze(-1) + torch.randn(len(x))


def linear(**options):
    return nn.Sequential(nn.Linear(4, 1, **options), nn.Flatten(0)).double()


def with_integers():
    module = linear()
    module.count = nn.Parameter(torch.zeros(2, dtype=torch.int64), requires_grad=False)
    return module


BAD = {
    "no parameters": (nn.Flatten, [plain()], "Flatten has no parameters that require gradients"),
    "integers": (with_integers, [plain()], "the parameter 'count' is of torch.int64; all must be of float64 or"),
    "mixed": (
        lambda: nn.Sequential(linear(), nn.Linear(1, 1)),
        [plain()],
        r"'1.weight' is of torch.float32 on cpu, but others",
    ),
    "half": (lambda: linear().half(), [plain()], "the parameter '0.weight' is of torch.float16"),
    "no clients": (linear, [], "there are no clients"),
    "no data": (linear, [plain(), plain(0)], "client 1 has no data"),
    "rows": (linear, [plain(), plain(3, 2)], r"client 1: inputs\[0\] has 3 rows, but the target 2"),
    "no pair": (linear, [plain()[0]], "client 0: its data is a Tensor; it must be a pair"),
    "no tensor": (linear, [([1.0, 2.0], plain()[1])], r"client 0: inputs\[0\] is a float; it must be a tensor"),
    "columns": (linear, [plain(), (torch.ones(3, 5).double(), plain()[1])], "cannot compute the data of client 1"),
    "nan": (linear, [plain(), (torch.full((3, 4), torch.nan).double(), plain()[1])], "client 1: its value at x0 is nan"),
    "dropout": (lambda: nn.Sequential(nn.Dropout(), linear()), [plain()], "'0' drops out at random .* module.eval()"),
    "batch norm": (
        lambda: nn.Sequential(nn.BatchNorm1d(4), linear()).double(),
        [plain()],
        "the buffer '0.running_mean' changes",
    ),
    "noise": (lambda: Noise(4, 1).double(), [plain()], "gives another loss for the same data"),
    "backward": (lambda: WrongBackward().double(), [plain()], r"client 0: the gradient at coordinate [0-4] is .*; mend it"),
    "max_norm": (lambda: Recommender(max_norm=1.0).double(), data(), "the embedding 'items' has max_norm"),
    "max": (lambda: Bags("max").double(), bags(), "has mode='max'"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_modules_and_data_are_refused_with_a_reason(name):
    module, clients, words = BAD[name]
    with pytest.raises(ValueError, match=words):
        ef.torch.problem(module(), BY_ROW, clients)


def test_a_loss_of_another_shape_is_refused():
    with pytest.raises(ValueError, match="clients_per_call = 0; it must be a whole number of at least 1"):
        ef.torch.problem(linear(), BY_ROW, [plain()], clients_per_call=0)
    with pytest.raises(ValueError, match=r"the loss has shape \(2,\) for 3 rows"):
        ef.torch.problem(linear(), lambda out, target: out[:2], [plain()])
    with pytest.raises(ValueError, match="the loss is 3; it must be a tensor"):
        ef.torch.problem(linear(), lambda out, target: 3, [plain()])


def test_what_is_frozen_is_said():
    module = nn.Sequential(nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 4), linear()).double().eval()
    module[2].weight.requires_grad_(False)
    problem = ef.torch.problem(module, BY_ROW, [plain(), plain(2)])
    for words in ("buffers are frozen: 0.running_mean", "parameters are frozen: 2.weight", "dropout is off (eval): 1"):
        assert words in str(problem)
    assert_is_the_module(problem, module, BY_ROW, [plain(), plain(2)])


def test_errorfeedback_does_not_bring_torch_along_and_says_how_to_get_it():
    program = """if True:
        import sys, errorfeedback as ef
        ef.solve
        assert "torch" not in sys.modules and "jax" not in sys.modules and "torch" in dir(ef)
        sys.modules["torch"] = None
        try:
            ef.torch
        except ImportError as error:
            print(error)
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "ef.torch needs torch" in done.stdout
    assert "pip install 'errorfeedback[torch]'" in done.stdout
