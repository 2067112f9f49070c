"""JAX models as problems: gradients are JAX's own, the same model in torch has the same trajectory, and what cannot be is
refused.
"""

from __future__ import annotations

import numpy as np
import pytest

import errorfeedback as ef

jax = pytest.importorskip("jax", reason="JAX is not installed: pip install 'errorfeedback[jax]'")
jnp = jax.numpy
USERS, ITEMS, K = 6, 23, 3
TABLES = {"users": 0, "items": 1}
FEW = {
    "method": ef.EF21(ef.PowersOfTwo(4), start="compressed"),
    "stepsize": ef.Armijo(),
    "direction": ef.LBFGS(),
    "downlink": ef.FittedStep(),
}


@pytest.fixture(autouse=True)
def _precise():
    """float64 for these tests alone."""
    before = jnp.zeros(0).dtype == np.float64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


def params(dtype=np.float64):
    draw = np.random.default_rng(0)
    shapes = {"users": (USERS, K), "items": (ITEMS, K), "net": [(5, 2 * K), (5,), (1, 5), (1,)]}
    made = jax.tree.map(
        lambda shape: draw.standard_normal(shape).astype(dtype), shapes, is_leaf=lambda s: isinstance(s, tuple)
    )
    return {"users": made["users"], "items": made["items"], "net": made["net"]}


def apply(params, user, item):
    W, a, v, b = params["net"]
    h = jnp.tanh(jnp.concatenate([params["users"][user], params["items"][item]], -1) @ W.T + a)
    return (h @ v.T + b)[..., 0]


def losses(z, y):
    return jnp.maximum(z, 0) - z * y + jnp.log1p(jnp.exp(-jnp.abs(z)))


def mean(z, y):
    return losses(z, y).mean()


def data(dtype=np.float64):
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 21, USERS)
    return [
        ((np.full(m, i), rng.integers(0, ITEMS - 1, m)), (rng.random(m) < 0.5).astype(dtype)) for i, m in enumerate(sizes)
    ]


def made(loss=losses, **options):
    return ef.jax.problem(apply, params(), loss, data(), **{"tables": TABLES, "lower_bound": 0.0, **options})


@pytest.mark.parametrize(("loss", "per_call"), [(losses, 4), (mean, 32)])
def test_gradients_are_those_of_the_model(loss, per_call):
    problem = made(loss, clients_per_call=per_call)
    x = problem.x0 + np.random.default_rng(1).standard_normal(problem.width)
    values, grads, ends = problem.values_at(x), problem.gradients_at(x), problem.support.indptr
    for i, (inputs, y) in list(enumerate(data()))[::4]:
        f = lambda p: losses(apply(p, *inputs), y).mean()  # noqa: E731, B023
        value, gradient = jax.value_and_grad(f)(ef.jax.params_of(params(), x))
        whole = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(gradient)])
        ours = np.zeros(problem.width)
        ours[problem.columns[problem.support.features(i)]] = grads[ends[i] : ends[i + 1]]
        assert values[i] == pytest.approx(float(value), rel=1e-12)
        assert np.abs(ours - whole).max() < 1e-12 * max(1.0, np.abs(whole).max())


def test_clients_have_the_rows_that_occur():
    problem = made()
    assert problem.support.counts[problem.common].tolist() == [USERS] * 41
    sizes = [K + K * len(np.unique(item)) + 41 for (_, item), _ in data()]
    assert problem.support.sizes.tolist() == sizes


def test_the_same_model_in_torch_has_the_same_trajectory():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'errorfeedback[torch]'")
    nn = torch.nn

    class Same(nn.Module):
        def __init__(self):
            super().__init__()
            self.items, self.out, self.users = nn.Embedding(ITEMS, K), nn.Linear(1, 1), nn.Embedding(USERS, K)
            self.out = nn.Sequential(nn.Linear(2 * K, 5), nn.Tanh(), nn.Linear(5, 1))

        def forward(self, user, item):
            return self.out(torch.cat([self.users(user), self.items(item)], -1)).squeeze(-1)

    module, mine = Same().double(), made()
    assert [p.name for p in mine.parameters] == ["items", "net.0", "net.1", "net.2", "net.3", "users"]
    ef.torch.load_into(module, mine.x0)
    clients = [(tuple(torch.tensor(each) for each in inputs), torch.tensor(y)) for inputs, y in data()]
    theirs = ef.torch.problem(module, nn.BCEWithLogitsLoss(reduction="none"), clients, lower_bound=0.0)
    assert np.array_equal(mine.x0, theirs.x0)
    for options in (FEW, {"method": ef.EF21(ef.TopK(5)), "stepsize": ef.Automatic()}):
        one, other = (ef.solve(problem, rounds=25, **options) for problem in (mine, theirs))
        assert np.abs(one.x - other.x).max() < 1e-10
        assert np.abs(one.history["f"] - other.history["f"]).max() < 1e-10
        assert np.array_equal(one.history["uplink_bits"], other.history["uplink_bits"])
        assert mine.value(one.x) < mine.value(mine.x0) - 0.03


def test_the_bits_are_the_same_wherever_clients_live():
    problem = made(clients_per_call=4)
    one = ef.solve(problem, rounds=15, **FEW)
    for engine in (ef.Local(3), ef.Threads(2)):
        assert np.array_equal(one.x, ef.solve(problem, rounds=15, engine=engine, **FEW).x), engine


def test_minibatches():
    problem = made(clients_per_call=4)
    x, whole = problem.restrict(problem.x0), problem.gradients_at(problem.x0)
    sampled = [np.empty(problem.support.size) for _ in range(2)]
    for out, size in zip(sampled, (20, 3), strict=True):
        problem.gradients(ef.Point(x), out, rows=ef.Sample(size, ef.Round(2, 0)))
    assert np.abs(sampled[0] - whole).max() < 1e-14
    assert np.abs(sampled[1] - whole).max() > 1e-3


def otherwise(params, user, item):
    return apply(params, user, item) + jnp.mean(params["items"] ** 2)


BAD = {
    "no parameters": ({"params": {}}, "params has no parameters"),
    "integers": ({"params": {"w": np.arange(3)}, "tables": {}}, "the parameter 'w' is of int64; all must be"),
    "names": ({"tables": {"words": 0}}, "tables names 'words', but the parameters are items, net.0"),
    "inputs": ({"tables": {"items": 2}}, r"tables\['items'\] = 2; it must be the number of an input"),
    "used otherwise": ({"apply": otherwise}, r"client 0: from its own rows .*; name a table in common="),
    "wrong input": ({"tables": {"users": 0, "items": 0}}, r"client \d+: from its own rows of the tables"),
    "no clients": ({"client_datasets": []}, "there are no clients"),
    "no data": ({"client_datasets": [((np.zeros(0, int), np.zeros(0, int)), np.zeros(0))]}, "client 0 has no data"),
    "rows": (
        {"client_datasets": [((np.zeros(2, int), np.zeros(3, int)), np.zeros(3))]},
        r"client 0: inputs\[0\] has 2 rows",
    ),
    "outside": (
        {"client_datasets": [((np.zeros(2, int), np.full(2, ITEMS)), np.zeros(2))]},
        r"client 0: inputs\[1\] has the row 23, but 'items' has 23 rows",
    ),
    "nan": ({"loss": lambda z, y: losses(z, y) * jnp.nan}, "client 0: its value at x0 is nan"),
    "shape": ({"loss": lambda z, y: z[:1]}, r"the loss has shape \(1,\) for 18 rows"),
    "sum": ({"loss": lambda z, y: losses(z, y).sum()}, "every row of data is given twice: it is the sum over the rows"),
    "fails": ({"apply": lambda params, x: x}, "the model cannot compute the loss of client 0: TypeError"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_models_are_refused_with_a_reason(name):
    changed, words = BAD[name]
    given = {"apply": apply, "params": params(), "loss": losses, "client_datasets": data(), "tables": TABLES, **changed}
    with pytest.raises(ValueError, match=words):
        ef.jax.problem(**given)


def test_float64_is_not_rounded_in_silence():
    jax.config.update("jax_enable_x64", False)
    with pytest.raises(ValueError, match="params is of float64, which JAX would round to float32"):
        made()
    single = ef.jax.problem(apply, params(np.float32), losses, data(np.float32), tables=TABLES)
    assert single.gradients_at(single.x0).dtype == np.float32
