"""The DDP hook, on real processes over gloo: the formulas, the same bits everywhere, exact resumption, clear refusals."""

from __future__ import annotations

import time
from functools import partial
from math import ceil, log2

import numpy as np
import pytest

import errorfeedback as ef

torch = pytest.importorskip("torch", reason="no torch: pip install 'errorfeedback[torch]'")

from ddp_runs import TIMEOUT, launched, run  # noqa: E402
from ddp_training import (  # noqa: E402
    Case,
    accumulated,
    all_trained,
    by_name,
    by_share,
    fresh,
    from_mean,
    hooked,
    hooked_twice,
    loaded,
    mixed,
    newest,
    not_ddp,
    not_finite,
    observed,
    refusals,
    saving,
    uneven,
    unused,
)

TOP = ef.EF14(ef.TopK(3))
FEW = ef.Rounded(ef.TopK(6), ef.PowersOfTwo(4))
MOMENTUM = ef.EF21SGDM(ef.TopK(3), eta=0.2)
SPARSE = [TOP, ef.EF21(ef.TopK(3)), MOMENTUM, ef.EF21(FEW, "compressed"), ef.EF14(ef.Participating(ef.TopK(3), 0.5))]
DENSE = [
    *SPARSE,
    ef.EF14(ef.PowersOfTwo(4)),
    ef.EF21SGDM(ef.SmallFloat(5)),
    ef.EF21(ef.RandK(2).contractive(), "gradient"),
]


def top(k, u):
    out = np.zeros_like(u)
    kept = np.argsort(-np.abs(u), kind="stable")[:k]
    out[kept] = u[kept]
    return out


class LiteralEF14:
    """v_i = C(e_i + grad_i), e_i = e_i + grad_i - v_i; the mean of the v_i."""

    def __init__(self, ranks, size):
        self.e = np.zeros((ranks, size), dtype=np.float32)

    def __call__(self, gradients):
        self.e += gradients
        v = np.array([top(3, e) for e in self.e])
        self.e -= v
        return v.mean(0)


class LiteralEF21SGDM:
    """v_i = (1 - eta) v_i + eta grad_i, g_i = g_i + C(v_i - g_i); the mean of the g_i."""

    def __init__(self, ranks, size):
        self.v, self.g = None, np.zeros((ranks, size), dtype=np.float32)

    def __call__(self, gradients):
        self.v = gradients if self.v is None else 0.8 * self.v + 0.2 * gradients
        self.g += np.array([top(3, u) for u in self.v - self.g])
        return self.g.mean(0)


@pytest.mark.parametrize(("method", "literal"), [(TOP, LiteralEF14), (MOMENTUM, LiteralEF21SGDM)], ids=["EF14", "EF21-SGDM"])
def test_the_gradient_is_what_the_formula_says(method, literal):
    steps = run(observed, 2, Case(method, sparse=False))[0]
    sizes = [g.size for g in steps[0][1]]
    formulas = [literal(2, size) for size in sizes]
    for everybody, made in steps:
        for k, formula in enumerate(formulas):
            expected = formula(np.array([own[k].ravel() for own in everybody]))
            np.testing.assert_allclose(made[k].ravel(), expected, rtol=1e-5, atol=1e-7)


@pytest.fixture(scope="module")
def training():
    """Bits after every step and bytes of both processes, by case."""
    ways = [("gradient_as_bucket_view", True), ("static_graph", True), ("bucket_cap_mb", 1e-5)]
    cases = [
        *(Case(method) for method in SPARSE),
        *(Case(method, sparse=False) for method in DENSE),
        *(Case(TOP, options=(way,)) for way in ways),
        Case(TOP, layout=torch.channels_last),
        Case(TOP, dtype=torch.float64),
        Case(TOP, dtype=torch.bfloat16),
        Case(by_share),
    ]
    return dict(zip(cases, zip(*run(all_trained, 2, cases), strict=True), strict=True))


def test_all_processes_have_the_same_bits_after_every_step(training):
    for case, ((one, _), (other, _)) in training.items():
        assert one == other, case
        assert len(set(one)) >= len(one) - 1, f"{case} does not move"  # EF21 from zero stands in its first step


@pytest.mark.parametrize("method", SPARSE[:4], ids=str)
def test_sparse_gradients_of_a_table_give_the_bits_of_dense_ones(training, method):
    assert training[Case(method)][0][0] == training[Case(method, sparse=False)][0][0]


def test_buckets_views_static_graphs_and_layouts_change_no_bit(training):
    ways = [case for case in training if case.method is TOP and case.sparse and case.dtype == torch.float32]
    assert len(ways) == 5
    assert len({training[case][0][0][-1] for case in ways}) == 1


def frame(size, k):
    """Bytes of a message of k of that many float32: head, count, indices, values, and one bit that says all is finite."""
    index = ceil(log2(size)) if k < size else 0
    return 3 + 1 + ceil((min(k, size) * (32 + index) + 1) / 8)


def test_every_byte_is_counted(training):
    sizes = [p.numel() for p in fresh().parameters()]
    expected = 6 * sum(frame(size, 3) for size in sizes)
    assert [sent for _, sent in training[Case(TOP, sparse=False)]] == [expected] * 2
    assert [sent for _, sent in training[Case(TOP)]] == [expected + 6 * 4] * 2, "a table's message has its length in front"


@pytest.mark.parametrize("method", [SPARSE[-1], MOMENTUM], ids=["EF14 that draws by the step", "EF21-SGDM"])
def test_killed_processes_go_on_bit_for_bit(tmp_path, method):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    whole.mkdir()
    killed.mkdir()
    case, steps, every = Case(method, momentum=0.5), 20, 3
    started = launched(saving, 2, case, killed, 10**6, every)
    until = time.monotonic() + TIMEOUT
    while newest(killed, 2) < 2 * every and time.monotonic() < until:
        time.sleep(0.01)
    for process, _ in started:
        process.kill()  # SIGKILL; one may have ended because the other has
    for process, _ in started:
        process.join()
    left = newest(killed, 2)
    assert left >= 2 * every, "it was killed after some steps"
    ends = left + steps
    assert run(saving, 2, case, killed, ends, every) == [
        (left, bits) for _, bits in run(saving, 2, case, whole, ends, every)
    ]


@pytest.mark.parametrize("method", [TOP, MOMENTUM], ids=["EF14", "EF21-SGDM"])
def test_on_another_number_of_processes_every_memory_becomes_the_mean(tmp_path, method):
    case = Case(method)
    run(saving, 2, case, tmp_path, 6, 6)
    states = [torch.load(tmp_path / f"{rank}-6.pt", weights_only=True)["hook"] for rank in (0, 1)]
    began = run(from_mean, 3, case, states)
    assert len({bits for _, bits in began}) == 1
    kept = [dense_memory(state["parameters"]) for state in states]
    for memory, _ in began:
        for name, arrays in dense_memory(memory).items():
            for k, array in enumerate(arrays):
                np.testing.assert_allclose(array, (kept[0][name][k] + kept[1][name][k]) / 2, rtol=1e-6, err_msg=name)


def dense_memory(parameters):
    """Every parameter's client memory, a list of arrays with one number for each of its own."""
    out = {}
    for name, saved in parameters.items():
        leaves = saved["client"] if isinstance(saved["client"], tuple) else (saved["client"],)
        out[name] = [leaf.numpy() for leaf in leaves]
        if saved["kind"] == "table":
            rows, width = saved["rows"].numpy(), saved["shape"][1]
            tables = [np.zeros(saved["shape"], dtype=np.float32) for _ in leaves]
            for table, leaf in zip(tables, out[name], strict=True):
                table[rows] = leaf.reshape(-1, width)
            out[name] = tables
    return out


@pytest.mark.parametrize("name", ["image.bias", "table.weight"])
def test_a_gradient_that_is_not_finite_is_named_on_every_process(name):
    said = run(not_finite, 2, Case(TOP), name)
    for text, _, _ in said:
        assert f"the gradient of '{name}' on process 1 is not finite (step 1)" in text
    (before,), (after,) = (dense_memory(memory)[name] for memory in said[1][1:])
    np.testing.assert_array_equal(before, after)
    assert said[1][2][name]["step"] == 1


def test_batches_without_synchronising_add_up():
    for made, expected, steps in run(accumulated, 2, Case(ef.EF14(ef.Identity()), sparse=False)):
        for ours, theirs in zip(made, expected, strict=True):
            torch.testing.assert_close(ours, theirs)
        assert steps == {1}


def test_unused_parameters_keep_the_processes_alike():
    one, other = run(unused, 2, ef.EF21(ef.TopK(2), "compressed"))
    assert one == other
    assert [none for _, none in one] == [False, True, False, True]


def test_processes_may_have_unequal_numbers_of_batches():
    one, other = run(uneven, 2, Case(TOP, sparse=False))
    assert one == other


REFUSED = {
    "not DDP": ("the model is a Linear; a hook needs torch.nn.parallel.DistributedDataParallel(model)", not_ddp),
    "twice": ("the model has a communication hook already, and DDP takes one", hooked_twice),
    "mixed precision": ("DDP with mixed_precision has a hook of its own; use torch.autocast in its place", mixed),
    "no method": (
        "the method of 'weight' is TopK(k=3); give a method such as ef.EF14(ef.TopK(1000))",
        partial(hooked, by_name),
    ),
    "no feedback": ("the method of 'weight' is DCGD, which has no error feedback", partial(hooked, ef.DCGD(ef.TopK(3)))),
    "lazy": ("CLAG, whose messages have no length that others could know", partial(hooked, ef.CLAG(ef.TopK(3)))),
    "complex": ("'weight' is of torch.complex64; gradients are sent as", partial(hooked, TOP, dtype=torch.complex64)),
    "lossy": ("find_unused_parameters=True with EF14: what is sent for 'weight'", partial(hooked, TOP, unused=True)),
    "table": (
        "'weight' has sparse gradients, and EF14(PowersOfTwo",
        partial(hooked, ef.EF14(ef.PowersOfTwo(4)), table=True),
    ),
    "start": ("give it TopK(k), or Rounded(", partial(hooked, ef.EF21(ef.TopK(3), "gradient"), table=True)),
    "K": ("K has 3 entries, but there are 2 clients", partial(hooked, ef.EF14(ef.TopK((1, 2, 3))))),
    "names": ("nothing is saved for ['weight'], and the model has no ['other']", partial(loaded, renamed="other")),
    "kind": ("method of 'weight' is EF14 in the state and EF21 here", partial(loaded, ef.EF21(ef.TopK(3)))),
    "shape": ("shape of 'weight' is (2, 2) in the state and (3, 3) here", partial(loaded, width=3)),
    "process": ("the state is that of process 5 of 6, and this is process", partial(loaded, rank=5, ranks=6)),
    "format": ("the state has format None; this version reads 1", partial(loaded, format=None)),
}


def test_what_does_not_fit_is_refused_with_a_reason():
    for said in run(refusals, 2, [attempt for _, attempt in REFUSED.values()]):
        for (expected, _), text in zip(REFUSED.values(), said, strict=True):
            assert expected in text


def test_a_mean_needs_the_states_of_all_processes():
    state = {"format": 1, "rank": 0, "ranks": 2, "parameters": {}}
    with pytest.raises(ValueError, match=r"those of processes \[0, 0\] of 2; give those of all, once each"):
        ef.torch.mean_state([state, state])
