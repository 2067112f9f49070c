"""The library equals the literal reference, for every method x compressor, to 1e-12 over hundreds of rounds."""

from __future__ import annotations

import numpy as np
import pytest
import reference
from discovery import COMPRESSORS, METHODS, covering, fits
from problem_pairs import pair

import errorfeedback as ef

SEED = 7
ROUNDS = 300
PROBLEMS = {
    "sparse least squares": {"loss": "squared"},
    "non-convex penalty": {"loss": "squared", "lam": 0.3, "seed": 1},
    "logistic": {"loss": "logistic", "seed": 2, "m": 4},
    "softmax": {"loss": "softmax", "d": 6, "seed": 6, "m": 4},
    "dense, n > d": {"loss": "squared", "n": 7, "d": 3, "fill": 1.0, "seed": 3},
    "dense, d > n": {"loss": "logistic", "n": 3, "d": 7, "fill": 1.0, "seed": 4, "m": 5},
}

COMPRESS = {
    "TopK": lambda c, problem: reference.top_k(problem, c.k),
    "TopShare": lambda c, problem: reference.top_share(problem, c.share),
    "RandK": lambda c, problem: reference.rand_k(problem, c.k, SEED, scaled=True),
    "ContractiveRandK": lambda c, problem: reference.rand_k(problem, c.k, SEED, scaled=False),
    "PermK": lambda c, problem: reference.perm_k(problem, SEED),
    "ExactOnCommon": lambda c, problem: reference.exact_on_common(problem, c.common, c.k),
    "Participating": lambda c, problem: reference.participating(compressor_of(c.compressor, problem), c.p, SEED),
    "Rounded": lambda c, problem: rounded_of(c, compressor_of(c.compressor, problem), problem),
    "PowersOfTwo": lambda c, problem: reference.few_bits(problem, reference.powers_of_two(c.bits), c.block),
    "FittedAnswer": lambda c, problem: reference.few_bits(problem, reference.powers_of_two(4), c.block),  # to whole steps
    "Uniform": lambda c, problem: reference.few_bits(problem, reference.equally_spaced(c.bits), c.block),
    "QSGD": lambda c, problem: reference.drawn(
        problem, reference.equally_spaced(c.coding.each), c.levels, True, SEED, c.block
    ),
    "Natural": lambda c, problem: reference.drawn(
        problem, reference.powers_of_two(c.bits), reference.powers_of_two(c.bits)[-1], False, SEED, c.block
    ),
    "SmallFloat": lambda c, problem: reference.few_bits(
        problem, reference.small_floats(c.exponent_bits, c.mantissa_bits), c.block
    ),
    "TernGrad": lambda c, problem: reference.drawn(problem, [0, 1], 1, False, SEED, c.block),
    "SomeClients": lambda c, problem: reference.some_clients(compressor_of(c.compressor, problem), c.p, SEED),
    "Identity": lambda c, problem: reference.identity,
}
METHOD = {
    "DGD": lambda m, p, x, gamma, C: reference.dgd(p, x, gamma, ROUNDS),
    "DCGD": lambda m, p, x, gamma, C: reference.dcgd(p, x, gamma, ROUNDS, C),
    "EF14": lambda m, p, x, gamma, C: reference.ef14(
        p, x, gamma, ROUNDS, lambda u, i, t: gamma * C(u / gamma, i, t), m.batch, SEED
    ),
    "EF21SGDM": lambda m, p, x, gamma, C: reference.ef21_sgdm(p, x, gamma, ROUNDS, C, m.eta, m.batch, SEED),
    "EF21": lambda m, p, x, gamma, C: reference.ef21(p, x, gamma, ROUNDS, C, m.start.name),
    "MARINA": lambda m, p, x, gamma, C: reference.marina(p, x, gamma, ROUNDS, C, m.p, SEED),
    "EF21PAGE": lambda m, p, x, gamma, C: reference.ef21_page(p, x, gamma, ROUNDS, C, m.p, m.batch, SEED),
    "EF14Momentum": lambda m, p, x, gamma, C: reference.ef14_momentum(
        p, x, gamma, ROUNDS, lambda u, i, t: gamma * C(u / gamma, i, t), m.eta, m.batch, SEED
    ),
    "EControl": lambda m, p, x, gamma, C: reference.e_control(p, x, gamma, ROUNDS, C, m.eta, m.batch, SEED),
    "Choco": lambda m, p, x, gamma, C: reference.choco(p, x, gamma, ROUNDS, C, m.rate, m.pull, m.batch, SEED),
    "VRMARINA": lambda m, p, x, gamma, C: reference.vr_marina(p, x, gamma, ROUNDS, C, m.p, m.batch, SEED),
    "DIANA": lambda m, p, x, gamma, C: reference.diana(p, x, gamma, ROUNDS, C, m.rate, m.batch, SEED),
    "DASHA": lambda m, p, x, gamma, C: reference.dasha(p, x, gamma, ROUNDS, C, m.a),
    "DASHAPP": lambda m, p, x, gamma, C: reference.dasha_pp(
        p, x, gamma, ROUNDS, compressor_of(m.some.compressor, p), m.p, m.a, SEED
    ),
    "FedAvg": lambda m, p, x, gamma, C: reference.fed_avg(p, x, gamma, ROUNDS, C, m.steps, m.rate, m.batch, SEED),
    "FedProx": lambda m, p, x, gamma, C: reference.fed_prox(p, x, gamma, ROUNDS, C, m.steps, m.rate, m.mu),
    "CocktailSGD": lambda m, p, x, gamma, C: reference.cocktail(p, x, gamma, ROUNDS, C, m.steps, m.rate),
    "SCAFFOLD": lambda m, p, x, gamma, C: reference.scaffold(p, x, gamma, ROUNDS, m.steps, m.rate),
    "CoCoAPlus": lambda m, p, x, gamma, C: reference.cocoa(
        p, x, gamma, ROUNDS, m.l2, m.epochs, gamma * most_owners(p), SEED
    ),
    "NewtonCG": lambda m, p, x, gamma, C: reference.newton_cg(p, x, gamma, ROUNDS, m.inner, m.ridge),
    "GIANT": lambda m, p, x, gamma, C: reference.giant(p, x, gamma, ROUNDS, m.inner, m.ridge, m.step),
    "Scaffnew": lambda m, p, x, gamma, C: reference.scaffnew(p, x, gamma, ROUNDS, m.rate, m.p, SEED),
}
THREE_POINT = {
    "CLAG": lambda m, p, C: reference.clag(C, m.zeta),
    "EF21Plus": lambda m, p, C: reference.plus(C),
    "ThreePointV1": lambda m, p, C: reference.v1(C),
    "ThreePointV2": lambda m, p, C: reference.v2(C, compressor_of(m.follower, p)),
    "ThreePointV3": lambda m, p, C: reference.v3(C, three_point_of(m.inner, p)),
    "ThreePointV4": lambda m, p, C: reference.v4(C, compressor_of(m.first, p)),
    "ThreePointV5": lambda m, p, C: reference.v5(C, m.p, SEED),
}
METHOD |= {
    name: lambda m, p, x, gamma, C: reference.three_point(p, x, gamma, ROUNDS, three_point_of(m, p)) for name in THREE_POINT
}


def three_point_of(method, literal):
    return THREE_POINT[type(method).__name__](method, literal, compressor_of(method.compressor, literal))


def most_owners(problem):
    return max(sum(j in client.J for client in problem.clients) for j in range(problem.d))


def rounded_of(c, compress, problem):
    if isinstance(c.values, int):
        return reference.rounded(compress, c.values)
    return reference.one_after_the_other(compress, compressor_of(c.values, problem))


def compressor_of(compressor, literal):
    assert type(compressor).__name__ in COMPRESS, f"tests/reference does not have {compressor} yet: add it there"
    return COMPRESS[type(compressor).__name__](compressor, literal)


def trajectory(method, literal, x0, gamma):
    assert type(method).__name__ in METHOD, f"tests/reference does not have {method} yet: add it there"
    C = compressor_of(method.compressor, literal)
    return np.array(list(METHOD[type(method).__name__](method, literal, x0, gamma, C)))


@pytest.mark.parametrize(("method", "name"), covering(METHODS, PROBLEMS), ids=str)
def test_the_library_equals_the_reference(method, name):
    ours, literal = pair(**PROBLEMS[name])
    if not fits(method, ours):
        return
    x0 = np.random.default_rng(5).standard_normal(ours.d)
    gamma = 0.05 / ef.analyse(ours).L
    expected = trajectory(method.bind(ours.support), literal, x0, gamma)
    scale = np.abs(expected).max()
    for rounds in (1, 2, 50, ROUNDS):
        got = ef.solve(ours, method, ef.Constant(gamma), rounds=rounds, x0=x0, seed=SEED, every=rounds)
        assert np.abs(got.x - expected[rounds]).max() <= 1e-12 * scale
        assert got.history["f"][-1] == pytest.approx(literal.value(expected[rounds]), rel=1e-11)
        g = literal.gradient(expected[rounds])
        assert got.history["grad_norm2"][-1] == pytest.approx(g @ g, rel=1e-9)


@pytest.mark.parametrize("compressor", COMPRESSORS, ids=str)
def test_one_message_equals_the_reference_bit_for_bit(compressor):
    ours, literal = pair(n=6, d=9, fill=0.5)
    C, operator = compressor_of(compressor, literal), compressor.on(ours.support)
    rng = np.random.default_rng(0)
    for t in range(20):
        u = rng.standard_normal(ours.support.size)
        sent = operator(u, ef.core.Round(t, SEED)).lifted()
        for i, J in enumerate(np.split(ours.support.indices, ours.support.indptr[1:-1])):
            dense = np.zeros(ours.d)
            dense[J] = u[ours.support.indptr[i] : ours.support.indptr[i + 1]]
            assert np.array_equal(sent[ours.support.indptr[i] : ours.support.indptr[i + 1]], C(dense, i, t)[J])


def test_the_comparison_notices_a_wrong_step_size():
    """Negative control: one part in a million of gamma is far outside the tolerance."""
    ours, literal = pair()
    method, gamma = ef.EF21(ef.TopK(1)), 0.05 / ef.analyse(ours).L
    expected = trajectory(method, literal, np.ones(ours.d), gamma)[ROUNDS]
    got = ef.solve(ours, method, ef.Constant(gamma * (1 + 1e-6)), rounds=ROUNDS, x0=np.ones(ours.d), every=ROUNDS)
    assert np.abs(got.x - expected).max() > 1e-9


def test_every_recorded_round_of_a_trajectory_equals_algorithm_1():
    """500 rounds of EF21 + Top1 on arrays: f along the whole way, and x at the end, to 1e-12."""
    ours, literal = pair(n=8, d=30, m=4, seed=9)
    gamma = ef.RareFeatures().gamma(ef.analyse(ours, ef.TopK(1)))
    xs = list(reference.ef21(literal, np.zeros(30), gamma, 500, reference.top_k(literal, 1), "zero"))
    got = ef.solve(ours, ef.EF21(ef.TopK(1)), ef.RareFeatures(), rounds=500)
    assert np.abs(got.x - xs[-1]).max() <= 1e-12
    np.testing.assert_allclose(got.history["f"], [literal.value(x) for x in xs], rtol=1e-12)


def test_unequal_levels_equal_algorithm_1():
    ours, literal = pair(n=5, d=12, fill=0.6)
    levels = (1, 3, 2, 100, 4)
    xs = list(reference.ef21(literal, np.ones(12), 0.01, 200, reference.top_k(literal, levels), "zero"))
    got = ef.solve(ours, ef.EF21(ef.TopK(levels)), ef.Constant(0.01), rounds=200, x0=np.ones(12))
    assert np.abs(got.x - xs[-1]).max() <= 1e-12


@pytest.mark.parametrize("m", [1, 4, 12])
def test_a_compressed_downlink_is_ef21_bc(m):
    ours, literal = pair(n=5, d=12, fill=0.6)
    xs = list(reference.ef21_bc(literal, np.ones(12), 0.02, ROUNDS, reference.top_k(literal, 2), m))
    options = {"rounds": ROUNDS, "x0": np.ones(12), "downlink": ef.Compressed(ef.TopK(m))}
    got = ef.solve(ours, ef.EF21(ef.TopK(2)), ef.Constant(0.02), **options)
    assert np.abs(got.x - xs[-1]).max() <= 1e-12
    np.testing.assert_allclose(got.history["f"], [literal.value(x) for x in xs], rtol=1e-12)
