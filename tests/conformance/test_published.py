"""Published methods that are compositions here: the composition *is* the method, to rounding, by its literal pseudo-code."""

from __future__ import annotations

import numpy as np
import pytest
import reference
from bytewise import Bytewise
from problem_pairs import pair

import errorfeedback as ef

ROUNDS, SEED, GAMMA = 200, 7, 0.02
OURS, LITERAL = pair(n=5, d=12, fill=0.6)
X = np.ones(12)
L_I = ef.analyse(OURS).L_i
TOP = reference.top_k(LITERAL, 2)
EF21, PLAIN = ef.EF21(ef.TopK(2)), (LITERAL, X, GAMMA, ROUNDS)


def momentum_both_ways(problem, x, gamma, rounds, C, eta, m):
    """Zheng, Huang, Kwok 2019, with the m largest entries down."""
    moments, e = ([np.zeros_like(x) for _ in range(problem.n)] for _ in range(2))
    of_server = np.zeros_like(x)
    yield x
    for t in range(rounds):
        grads = [problem.gradient_i(i, x) for i in range(problem.n)]
        moments = [eta * moments[i] + grads[i] for i in range(problem.n)]
        wanted = [gamma * (eta * moments[i] + grads[i]) + e[i] for i in range(problem.n)]
        sent = [C(u, i, t) for i, u in enumerate(wanted)]
        e = [u - v for u, v in zip(wanted, sent, strict=True)]
        total = sum(sent) / problem.n + of_server
        largest = sorted(range(len(x)), key=lambda j: (-abs(total[j]), j))[:m]
        told = np.array([total[j] if j in largest else 0.0 for j in range(len(x))])
        of_server = total - told
        x = x - told
        yield x


COMPOSED = {
    "EF21-PP": (ef.EF21(ef.Participating(ef.TopK(2), 0.4)), {}, reference.ef21_pp(*PLAIN, TOP, 0.4, SEED)),
    "EF21-W": (EF21, {}, reference.ef21_w(*PLAIN, TOP, L_I)),
    "EF21-Prox": (EF21, {"prox": ef.ElasticNet(l1=0.3)}, reference.ef21_prox(*PLAIN, TOP, 0.3)),
    "EF21-HB": (
        ef.EF21(ef.TopK(2), start="compressed"),
        {"direction": ef.HeavyBall(0.7)},
        reference.ef21_hb(*PLAIN, TOP, 0.7),
    ),
    "EF21-BC": (EF21, {"downlink": ef.Compressed(ef.TopK(4))}, reference.ef21_bc(*PLAIN, TOP, 4)),
    "EF21-P": (ef.DGD(), {"downlink": ef.Primal(ef.TopK(3))}, reference.ef21_p(*PLAIN, None, 3)),
    "EF21-P and EF21": (
        ef.EF21(ef.TopK(2), start="compressed"),
        {"downlink": ef.Primal(ef.TopK(3))},
        reference.ef21_p(*PLAIN, None, 3, up=TOP),
    ),
    "dist-EF-SGDM": (
        ef.EF14Momentum(ef.TopK(2), eta=0.5),
        {"downlink": ef.Primal(ef.TopK(3))},
        momentum_both_ways(*PLAIN, TOP, 0.5, 3),
    ),
    "LAG": (ef.CLAG(ef.Identity(), 2.0), {}, reference.three_point(*PLAIN, reference.lag(2.0))),
    "EF21 as a three point compressor": (
        ef.EF21(ef.TopK(2), start="gradient"),
        {},
        reference.three_point(*PLAIN, reference.markov(TOP)),
    ),
    "EControl without control": (
        ef.EF21(ef.TopK(2), start="compressed"),
        {},
        reference.e_control(*PLAIN, TOP, 0.0, None, SEED),
    ),
}


@pytest.mark.parametrize("name", COMPOSED)
def test_the_composition_is_the_published_method(name):
    method, options, literal = COMPOSED[name]
    xs = list(literal)
    run = ef.solve(OURS, method, ef.Constant(GAMMA), rounds=ROUNDS, x0=X, seed=SEED, **options)
    l1 = 0.3 if "prox" in options else 0.0
    np.testing.assert_allclose(run.history["f"], [LITERAL.value(x) + l1 * np.abs(x).sum() for x in xs], rtol=1e-11)
    assert np.abs(run.x - xs[-1]).max() <= 1e-12
    assert np.abs(run.x - X).max() > 0.1


def test_choco_pulls_to_the_mean_of_all_estimates():
    """With the step size 1 the server's x is the mean of the z_i over the owners of a feature, in every round."""
    method, seen = ef.Choco(ef.TopK(2), rate=0.02), []

    class Spied(ef.Choco):
        def client(self, state, node, ctx):
            s = node.support
            seen.append(np.abs(s.scatter(state[1]) / s.counts - node.at.shared).max() if ctx.t else 0.0)
            return super().client(state, node, ctx)

    run = ef.solve(OURS, Spied(method.compressor, rate=0.02), ef.Constant(1.0), rounds=100, x0=X)
    assert len(seen) >= 100
    assert max(seen[-100:]) < 1e-12
    xs = list(reference.choco(LITERAL, X, 1.0, 100, TOP, 0.02, 0.1, None, 0))
    assert np.abs(run.x - xs[-1]).max() <= 1e-12


def test_momentum_and_what_is_behind_on_the_way_down_survive_a_checkpoint_on_every_engine(tmp_path):
    def run(**options):
        options |= {"direction": ef.HeavyBall(0.7), "downlink": ef.Primal(ef.TopK(3)), "x0": X}
        return ef.solve(OURS, ef.CLAG(ef.TopK(2)), ef.Constant(GAMMA), rounds=40, **options)

    def watch(row):
        if row["round"] == 25:
            raise KeyError

    whole = run()
    with pytest.raises(KeyError):
        run(watch=watch, checkpoint=ef.Checkpoint(tmp_path, every=10), engine=ef.Threads(2))
    for other in (ef.resume(tmp_path, engine=ef.Local(3)), run(engine=Bytewise(2))):
        assert np.array_equal(whole.x, other.x)
        assert np.array_equal(whole.history["uplink_bits"], other.history["uplink_bits"])
        assert np.array_equal(whole.history["downlink_bits"], other.history["downlink_bits"])


def test_the_comparison_notices_another_constant():
    """Negative control: momentum that is off by one part in a million."""
    xs = list(reference.ef21_hb(*PLAIN, TOP, 0.7 * (1 + 1e-6)))
    method, options, _ = COMPOSED["EF21-HB"]
    run = ef.solve(OURS, method, ef.Constant(GAMMA), rounds=ROUNDS, x0=X, seed=SEED, **options)
    assert np.abs(run.x - xs[-1]).max() > 1e-9
