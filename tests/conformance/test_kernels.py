"""Every compiled kernel of a round against its twin in numpy: the same numbers, on shapes that reach every loop's ends."""

from __future__ import annotations

import importlib
import pkgutil
from itertools import pairwise

import numpy as np
import pytest
from numba.core.registry import CPUDispatcher
from scipy import sparse

from errorfeedback import keyed
from errorfeedback.compressors import few_bits, random_levels, top_k
from errorfeedback.keyed import mix, uniform, uniforms, unit
from errorfeedback.problems import scaling
from errorfeedback.problems.blocks import base, csr, dense, many_outputs
from errorfeedback.problems.blocks import uniform as one_hot
from errorfeedback.problems.blocks.base import local_positions, narrow
from errorfeedback.sparsity import support as sparsity
from errorfeedback.sparsity.support import support_of
from errorfeedback.wire.codebook import LEAST, Codebook

KINDS = [np.float64, np.float32]
EXACT = {np.float64: 1e-13, np.float32: 2e-5}
WORD = 2**64


def problem(dtype, fill=0.4, seed=0, ones=False):
    """Rows of 1 to 9 clients with 1 to 11 rows of 1 to 70 features; the blocks, a support, x, and rows' numbers."""
    rng = np.random.default_rng(seed)
    rows = np.concatenate([[0], np.cumsum(rng.integers(1, 12, 9))])
    A = rng.standard_normal((rows[-1], 70)) * (rng.random((rows[-1], 70)) < fill)
    A[np.arange(rows[-1]), rng.integers(0, 70, rows[-1])] = 1.0
    matrix = sparse.csr_array((A != 0).astype(dtype) if ones else A.astype(dtype))
    support, positions = support_of(matrix.indptr[rows], matrix.indices, 70)
    lifted = sparse.csr_array((matrix.data, positions, matrix.indptr), shape=(rows[-1], support.size))
    x, s = rng.standard_normal(70).astype(dtype), rng.standard_normal(rows[-1]).astype(dtype)
    return matrix, lifted, support, rows, x, s


def near(found, twin, dtype):
    np.testing.assert_allclose(found, twin, rtol=0, atol=EXACT[dtype] * max(1.0, np.abs(twin).max(initial=0.0)))


LAYOUTS = [(dense.Dense, False), (csr.CSR, False), (one_hot.EqualEntries, True)]


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize(("layout", "ones"), LAYOUTS)
@pytest.mark.parametrize("fill", [0.02, 0.4, 1.0])
@pytest.mark.parametrize("shared", [0.0, np.inf])
def test_both_products_are_scipys(layout, ones, fill, dtype, shared, monkeypatch):
    """Whether x is read through a client's copy of its coordinates or through the entries' features changes no bit."""
    matrix, lifted, support, rows, x, s = problem(dtype, fill, ones=ones)
    monkeypatch.setattr(base, "SHARED", shared)
    blocks = layout.make(lifted, support, rows)
    assert layout is dense.Dense or len(blocks.direct) == (lifted.nnz if shared else 0)
    z, out = np.empty(rows[-1], dtype=dtype), np.full(support.size, np.nan, dtype=dtype)
    blocks.forward(x, z, np.empty_like(out))
    near(z, matrix.astype(np.float64) @ x, dtype)
    monkeypatch.setattr(base, "SHARED", np.inf if shared == 0 else 0.0)
    again = np.empty_like(z)
    layout.make(lifted, support, rows).forward(x, again, np.empty_like(out))
    assert np.array_equal(z, again)
    for module in (csr, one_hot):
        monkeypatch.setattr(module, "FAR", 0)  # ask for x ahead, up to the last entry
    blocks.forward(x, again, np.empty_like(out))
    assert np.array_equal(z, again)
    blocks.backward(s, out)
    near(out, lifted.astype(np.float64).T @ s, dtype)


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize(("layout", "ones"), LAYOUTS)
def test_the_fused_gradient_of_a_square_is_two_products(layout, ones, dtype):
    matrix, lifted, support, rows, x, b = problem(dtype, ones=ones)
    weights = np.random.default_rng(1).random(rows[-1]).astype(dtype)
    out, squares = np.full(support.size, np.nan, dtype=dtype), np.full(rows[-1], np.nan, dtype=dtype)
    residual = matrix.astype(np.float64) @ x - b
    layout.make(lifted, support, rows).residual(x, weights, b, out, squares)
    near(out, lifted.astype(np.float64).T @ (2 * weights * residual), dtype)
    near(squares, residual**2, dtype)
    again = np.full(support.size, np.nan, dtype=dtype)
    layout.make(lifted, support, rows).residual(x, weights, b, again)
    assert np.array_equal(out, again)  # asking for the squares changes no bit of the gradient


@pytest.mark.parametrize("dtype", KINDS)
def test_gather_is_indexing(dtype):
    _, _, support, _, x, _ = problem(dtype)
    out = np.empty(support.size, dtype=dtype)
    base.gather(narrow(support.indices, support.d), x, out)
    assert np.array_equal(out, x[support.indices])


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("ones", [False, True])
@pytest.mark.parametrize("fill", [0.02, 0.4, 1.0])
@pytest.mark.parametrize("outputs", [2, 3, 20])
def test_both_products_of_many_outputs_are_scipys(outputs, fill, ones, dtype):
    matrix, lifted, support, rows, _, _ = problem(dtype, fill, ones=ones)
    rng = np.random.default_rng(1)
    x, s = (rng.standard_normal((length, outputs)).astype(dtype) for length in (70, rows[-1]))
    blocks = many_outputs.ManyOutputs.make(lifted, support.times(outputs), rows)
    z, out = np.empty((rows[-1], outputs), dtype=dtype), np.full(support.size * outputs, np.nan, dtype=dtype)
    blocks.forward(x.ravel(), z, np.empty_like(out))
    near(z, matrix.astype(np.float64) @ x, dtype)
    blocks.backward(s, out)
    near(out, (lifted.astype(np.float64).T @ s).ravel(), dtype)
    own = rng.standard_normal((support.size, outputs)).astype(dtype)
    blocks.separate().forward(own.ravel(), z, np.empty_like(out))
    near(z, lifted.astype(np.float64) @ own, dtype)


def segments(seed):
    """Segments of 1 to 130 numbers (below, at and above a vector register's), with ties, zeros and signs."""
    rng = np.random.default_rng(seed)
    sizes = np.concatenate([[1, 2, 31, 32, 33, 64, 65], rng.integers(1, 130, 40)])
    indptr = np.concatenate([[0], np.cumsum(sizes)])
    return indptr, rng.integers(-9, 10, indptr[-1]) * rng.choice([1.0, 0.25], indptr[-1])


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("k", [1, 2, 7, 40])
def test_the_selection_is_a_stable_sort(k, seed, dtype):
    indptr, u = segments(seed)
    u = u.astype(dtype)
    levels = np.minimum(k, np.diff(indptr))
    ends = np.concatenate([[0], np.cumsum(levels)])
    twin = np.concatenate([lo + np.sort(np.argsort(-np.abs(u[lo:hi]), kind="stable")[:k]) for lo, hi in pairwise(indptr)])
    for kernel in [top_k.select_largest] + [top_k._largest] * (k == 1):
        positions, values = np.full(ends[-1], -1), np.full(ends[-1], np.nan, dtype=dtype)
        kernel(u, indptr, ends, positions, values)
        assert np.array_equal(positions, twin)
        assert np.array_equal(values, u[twin])


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("zeros", [0.0, 0.9, 0.999, 1.0])
def test_the_kth_largest_is_that_of_a_sorted_array(zeros, dtype):
    """Few of many, where blocks are left out, and many of few; also where entries are equal or not finite."""
    rng = np.random.default_rng(0)
    for n, k in [(1, 1), (63, 1), (64, 1), (640, 10), (659, 10), (5000, 3), (5000, 2000), (5000, 5000)]:
        u = np.abs(rng.standard_normal(n)).round(2).astype(dtype) * (rng.random(n) >= zeros)
        assert top_k._kth_largest(u.astype(dtype), k) == np.sort(u)[n - k]
    spoiled = np.full(5000, np.nan, dtype=dtype)
    spoiled[:3] = 1.0
    positions, values = np.full(9, -1), np.empty(9, dtype=dtype)
    top_k.select_largest(spoiled, np.array([0, 5000]), np.array([0, 9]), positions, values)
    assert len(set(positions.tolist())) == 9
    assert positions.min() >= 0


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("seed", range(5))
def test_tracking_is_a_selection_and_an_addition(seed, dtype):
    """g += C(grads - g) in one pass is the difference, the selection of its largest, and the sum; also where it is not
    finite, where any position of the segment will do."""
    indptr, grads = segments(seed)
    grads, g = grads.astype(dtype), segments(seed + 9)[1][: len(grads)].astype(dtype)
    g = np.resize(g, len(grads))
    u = grads - g
    twin, chosen = np.empty(len(indptr) - 1, dtype=np.int64), np.empty(len(indptr) - 1, dtype=dtype)
    top_k._largest(u, indptr, indptr, twin, chosen)
    positions, values, there = np.full_like(twin, -1), np.full_like(chosen, np.nan), g.copy()
    top_k._track(there, grads, indptr, positions, values)
    assert np.array_equal(positions, twin)
    assert np.array_equal(values, chosen)
    g[twin] += chosen
    assert np.array_equal(there, g)
    grads[indptr[3] : indptr[4]] = np.nan
    grads[indptr[5]] = np.inf
    for kernel in (
        lambda: top_k._track(there, grads, indptr, positions, values),
        lambda: top_k._largest(grads, indptr, indptr, positions, values),
    ):
        positions[:] = -1
        kernel()
        assert ((indptr[:-1] <= positions) & (positions < indptr[1:])).all()


def few_bits_twin(u, indptr, coding):
    """The nearest of all levels, block by block; and the units."""
    sent, units = np.zeros_like(u), []
    for first, last in pairwise(indptr):
        for lo in range(first, last, coding.length):
            hi = min(lo + coding.length, last)
            digits, exponent = np.frexp(np.abs(u[lo:hi].astype(np.float64)).max() / coding.top)
            units.append(np.ldexp(np.ceil(digits * 64) / 64, exponent))
            q = np.abs(u[lo:hi].astype(np.float64)) / units[-1] if units[-1] else np.zeros(hi - lo)
            level = coding.levels[np.searchsorted((coding.levels[1:] + coding.levels[:-1]) / 2, q, side="right")]
            sent[lo:hi] = np.copysign(level * units[-1], u[lo:hi])
    return sent, np.array(units)


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("coding", [Codebook(4, 0), Codebook(8, 6), Codebook(8, 3, 5), Codebook(2, 0, 1), Codebook(16, 14)])
def test_tracking_in_few_bits_is_a_difference_the_nearest_level_and_an_addition(coding, seed, dtype):
    indptr, grads = segments(seed)
    rng = np.random.default_rng(seed)
    grads = (grads * rng.standard_normal(len(grads))).astype(dtype)
    g = rng.standard_normal(len(grads)).astype(dtype)
    grads[indptr[3] : indptr[4]] = g[indptr[3] : indptr[4]]  # nothing to say
    twin, units = few_bits_twin(grads - g, indptr, coding)
    there, values, found = g.copy(), np.empty_like(g), np.empty(len(units))
    few_bits._track(there, grads, indptr, coding.length, coding.top, coding.digits, LEAST[np.dtype(dtype)], values, found)
    assert np.array_equal(values, twin)
    assert np.array_equal(found, units)
    assert np.array_equal(there, g + twin)


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("coding", "by_norm", "reach"), [(Codebook(4, 2), True, 6.0), (Codebook(5, 0, 7), False, 2.0**14)])
def test_random_levels_are_those_below_and_above_by_a_keyed_draw(coding, by_norm, reach, seed, dtype):
    indptr, u = segments(seed)
    u = (u * np.random.default_rng(seed).standard_normal(len(u))).astype(dtype)
    u[indptr[3] : indptr[4]] = 0.0
    twin, units = [], []
    for i, (first, last) in enumerate(pairwise(indptr)):
        draws = np.array(drawn(5, 2, 3 + i, last - first))
        for lo in range(first, last, coding.length):
            block = u[lo : min(lo + coding.length, last)].astype(np.float64)
            largest = np.abs(block).max()
            size = random_levels._length(block.astype(dtype), by_norm)
            assert size == pytest.approx(np.linalg.norm(block) if by_norm else largest, rel=1e-14)
            digits, exponent = np.frexp(size / reach)
            units.append(np.ldexp(np.ceil(digits * 64) / 64, exponent))
            q = np.abs(block) / units[-1] if units[-1] else np.zeros(len(block))
            k = np.searchsorted(coding.levels, q, side="right") - 1
            below, above = coding.levels[k], coding.levels[np.minimum(k + 1, len(coding.levels) - 1)]
            level = np.where(draws[lo - first : lo - first + len(block)] * (above - below) < q - below, above, below)
            twin += (np.copysign(level, block) * units[-1]).tolist()
    values, found = np.empty_like(u), np.empty(len(units))
    keys, scale = (5, 2, 3), (by_norm, reach, LEAST[np.dtype(dtype)])
    random_levels._draw(u, indptr, keys, coding.length, scale, coding.digits, values, found)
    assert np.array_equal(found, units)
    assert np.array_equal(values, np.array(twin, dtype=dtype))


@pytest.mark.parametrize("count", [80, sparsity.FEW + 3])
def test_sums_over_places_are_numpys(count):
    rng = np.random.default_rng(0)
    indices, places, values = rng.integers(0, 9, 50), rng.integers(0, 50, count), rng.standard_normal(count)
    total, twin = np.ones(9), np.ones(9)
    sparsity.add_at(total, indices[places], values)
    np.add.at(twin, indices[places], values)
    assert np.array_equal(total, twin)
    rows, twin = np.ones((9, 3)), np.ones((9, 3))
    sparsity.add_rows_at(rows, indices[places], np.outer(values, [1.0, -2.0, 0.5]))
    for k, factor in enumerate((1.0, -2.0, 0.5)):
        np.add.at(twin[:, k], indices[places], values * factor)
    assert np.array_equal(rows, twin)
    for fresh, n in ((False, 0), (False, 7), (True, 0), (True, 7)):
        total, twin = np.ones(9), np.zeros(9) if fresh else np.ones(9)
        sparsity.add_through(total, indices, places, values, fresh, n)
        np.add.at(twin, indices[places], values)
        assert np.array_equal(total, twin / n if n else twin)


@pytest.mark.parametrize("dtype", KINDS)
def test_a_step_is_two_lines_of_numpy(dtype):
    x, g = np.random.default_rng(0).standard_normal((2, 33)).astype(dtype)
    step, there = np.empty(33, dtype=dtype), x.copy()
    sparsity.descend(there, g, 0.3, step)
    near(step, -0.3 * g, dtype)
    assert np.array_equal(there, x + step)
    again = x.copy()
    sparsity.descend(again, g, 0.3, step[:0])
    assert np.array_equal(there, again)


def test_counts_are_numpys():
    places = np.random.default_rng(0).integers(0, 30, 200).astype(np.int32)
    assert sparsity.counted(places, 40).tolist() == np.bincount(places, minlength=40).tolist()


def test_medians_are_numpys():
    rng = np.random.default_rng(3)
    sizes = rng.integers(1, 9, 30)
    starts, u = np.concatenate([[0], np.cumsum(sizes)]), rng.standard_normal(sizes.sum())
    assert scaling._medians(starts, u).tolist() == [np.median(u[lo:hi]) for lo, hi in pairwise(starts)]


def test_segments_are_the_sorted_sets_of_features_and_ranks_count_earlier_owners():
    matrix, lifted, support, rows, _, _ = problem(np.float64)
    sets = [np.unique(matrix[lo:hi].indices) for lo, hi in pairwise(rows)]
    assert np.array_equal(support.indices, np.concatenate(sets))
    assert np.array_equal(support.indptr, np.concatenate([[0], np.cumsum([len(J) for J in sets])]))
    assert np.array_equal(support.indices[lifted.indices], matrix.indices)
    flat = support.indices.tolist()
    assert support.ranks.tolist() == [flat[:p].count(j) for p, j in enumerate(flat)]
    own = local_positions(lifted, support, rows)
    assert own.max() == max(len(J) for J in sets) - 1
    assert own.tolist() == (lifted.indices - np.repeat(support.indptr[:-1], np.diff(lifted.indptr[rows]))).tolist()


def split_mix(z):
    """Steele, Lea, Flood (2014), with Python's own whole numbers."""
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % WORD
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % WORD
    return z ^ (z >> 31)


def drawn(seed, t, number, count):
    """The first uniform numbers of a stream."""
    golden, state = 0x9E3779B97F4A7C15, 0
    for k, key in enumerate((seed, t, number)):
        state = split_mix((key + golden) % WORD if k == 0 else state ^ (key + golden) % WORD)
    return [(split_mix((state + (k + 1) * golden) % WORD) >> 11) / 2**53 for k in range(count)]


@pytest.mark.parametrize("keys", [(0, 0, 0), (5, 7, 11), (2**63 - 1, 10**9, -3)])
def test_keyed_draws_are_split_mix_in_whole_numbers(keys):
    for z in (0, 1, 12345678901234567890, WORD - 1):
        assert int(mix(np.uint64(z))) == split_mix(z)
        assert unit(np.uint64(z)) == (split_mix(z) >> 11) / 2**53
    out = np.empty(6)
    uniforms(*keys, out)
    assert out.tolist() == drawn(*keys, 6)
    assert uniform(*keys) == out[0]


def test_rand_k_is_selection_sampling_and_participation_compares_a_draw():
    _, _, support, _, _, _ = problem(np.float64)
    ends = np.concatenate([[0], np.cumsum(np.minimum(3, support.sizes))])
    positions, twin = np.empty(ends[-1], dtype=np.int64), []
    keyed.choose(1, 2, 4, support.indptr, ends, positions)
    for i, size in enumerate(support.sizes.tolist()):
        left = min(3, size)
        for p, u in enumerate(drawn(1, 2, 4 + i, size)):
            if u * (size - p) < left:
                twin.append(support.indptr[i] + p)
                left -= 1
    assert positions.tolist() == twin
    p, answers = np.linspace(0, 1, 9), np.zeros(9, dtype=bool)
    keyed.toss(1, 2, 4, p, answers)
    assert answers.tolist() == [drawn(1, 2, 4 - i, 1)[0] < p[i] for i in range(9)]


TESTED = {
    *(f"{m.__name__}.{name}" for m in (csr, dense, one_hot) for name in ("_forward", "_backward")),
    "errorfeedback.problems.blocks.csr.row_products",
    "errorfeedback.problems.blocks.uniform.row_sums",
    *(f"errorfeedback.problems.blocks.dense.{name}" for name in ("_residual", "_fill")),
    *(f"errorfeedback.problems.blocks.base.{name}" for name in ("gather", "_subtract_firsts")),
    *(f"errorfeedback.problems.blocks.many_outputs.{name}" for name in ("_forward", "_backward")),
    *(f"errorfeedback.problems.losses.{loss}._slopes" for loss in ("logistic", "softmax", "one_against_rest", "poisson")),
    *(f"errorfeedback.problems.losses.{loss}._values" for loss in ("logistic", "softmax", "poisson")),  # test_loss_kernels
    *(f"errorfeedback.problems.losses.dual.{name}" for name in ("first_draw", "row_product", "add_row")),
    *(f"errorfeedback.problems.losses.{name}" for name in ("squared._ascend", "logistic._ascend", "logistic._share")),
    *(f"errorfeedback.compressors.random_levels.{name}" for name in ("_length", "_draw")),
    *(
        f"errorfeedback.compressors.{name}"
        for name in (
            "top_k._largest",
            "top_k._track",
            "top_k.select_largest",
            "top_k._kth_largest",
            "top_share._fewest",
            "few_bits._track",
        )
    ),
    *(
        f"errorfeedback.sparsity.support.{name}"
        for name in ("add_at", "add_rows_at", "add_through", "counted", "descend", "_segments", "_ranks")
    ),
    *(
        f"errorfeedback.problems.hessians.{name}" for name in ("add_rows", "diagonals", "times_outer")
    ),  # test_curvature_kernels
    "errorfeedback.compressors.low_rank._multiply_out",  # directions/test_second_order
    "errorfeedback.sparsity.pairs._number",
    "errorfeedback.directions.quasi_newton._unlike",  # directions/test_new_length
    "errorfeedback.directions.hessians_apart.add_products",  # directions/test_hessians_apart
    *(
        f"errorfeedback.directions.coordinate_descent.{name}"
        for name in ("sweep", "product", "spread", "narrowed", "solved_whole")
    ),  # directions/test_coordinate_descent
    "errorfeedback.problems.scaling._medians",
    *(f"errorfeedback.problems.local_fits.{name}" for name in ("_newton_steps", "newton_step", "_times_hessian")),
    *(f"errorfeedback.problems.schur.{name}" for name in ("_fill", "_eliminate", "_add_squares")),  # problems/test_reduced
    *(f"errorfeedback.sums.{name}" for name in ("dot", "_four_products", "_add_four")),
}


def test_no_kernel_of_a_round_is_without_its_twin():
    found, names = set(), ["errorfeedback.sums"]
    for part in ("problems", "compressors", "sparsity", "methods", "directions", "estimators"):
        package = importlib.import_module(f"errorfeedback.{part}")
        names += [name for _, name, _ in pkgutil.walk_packages(package.__path__, f"errorfeedback.{part}.")]
    for name in names:
        module = importlib.import_module(name)
        kernels = [k for k, v in vars(module).items() if isinstance(v, CPUDispatcher) and v.py_func.__module__ == name]
        found |= {f"{name}.{kernel}" for kernel in kernels}
    assert found == TESTED
