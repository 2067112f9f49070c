"""Runs on modules: the bits are the same wherever clients live and after a resume, and the user's module is left alone."""

from __future__ import annotations

import numpy as np
import pytest
from bytewise import Bytewise
from torch_modules import BY_ROW, FEW, MEAN, Recommender, data, made, nn, point, torch

import errorfeedback as ef


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


MINIBATCHES = [ef.EF21SGDM(ef.TopK(2), batch=4, eta=0.3), ef.EF14(ef.PowersOfTwo(4), batch=4)]


@pytest.mark.parametrize("method", MINIBATCHES, ids=str)
def test_a_linear_module_has_the_trajectory_of_the_librarys_on_minibatches(method):
    draw = np.random.default_rng(0)
    A, y, clients = draw.standard_normal((60, 7)), draw.random(60) < 0.5, np.arange(60) % 6
    module = nn.Sequential(nn.Linear(7, 1, bias=False), nn.Flatten(0)).double()
    nn.init.zeros_(module[0].weight)
    parts = [(torch.from_numpy(A[clients == i]), torch.from_numpy(y[clients == i] * 1.0)) for i in range(6)]
    mine, theirs = (
        ef.solve(problem, method, ef.Constant(0.2), rounds=100)
        for problem in (ef.torch.problem(module, BY_ROW, parts), ef.logistic(A, y, clients))
    )
    assert np.abs(mine.x - theirs.x).max() < 1e-10
    assert np.abs(mine.history["f"] - theirs.history["f"]).max() < 1e-10
    assert np.array_equal(mine.history["uplink_bits"], theirs.history["uplink_bits"])
    lowest = ef.solve(ef.logistic(A, y, clients), ef.DGD(), ef.Armijo(), direction=ef.LBFGS(), rounds=30).history["f"][-1]
    f = mine.history["f"]
    assert f[-1] - lowest < 0.1 * (f[0] - lowest)


@pytest.mark.parametrize("method", [ef.EF21SGDM(ef.TopK(30), batch=4, eta=0.5), MINIBATCHES[1]], ids=str)
def test_tables_are_trained_on_minibatches_with_the_same_bits_everywhere(method):
    problem = ef.torch.problem(made(Recommender), BY_ROW, data(), lower_bound=0.0)
    one, *others = (
        ef.solve(problem, method, ef.Constant(2.0), rounds=15, engine=engine)
        for engine in (ef.Local(), ef.Local(3), ef.Threads(2))
    )
    assert one.history["f"][-1] < 0.99 * one.history["f"][0]
    assert all(np.array_equal(one.x, other.x) for other in others)


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
