"""f_i of the user's own: linear models through `ef.problem` are those of the library, what is wrong is named, and all that
needs no bound on the curvature works.
"""

from __future__ import annotations

import numpy as np
import pytest

import errorfeedback as ef

N, D = 8, 14
FEW = ef.EF21(ef.PowersOfTwo(4), start="compressed")
TOP = ef.EF21(ef.TopK(2))


def rows():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((6 * N, D)) * (rng.random((6 * N, D)) < 0.1)
    A[:, -1] = 0.0  # nobody has it
    A[np.arange(6 * N), np.arange(6 * N) % (D - 1)] = 1.0
    return A, np.where(rng.random(6 * N) < 0.5, 1.0, -1.0), np.repeat(np.arange(N), 6)


def logistic(A, y):
    """The mean of log(1 + exp(-y <a, w>)) over all rows, or some."""

    def f(w, some=slice(None)):
        margins = y[some] * (A[some] @ w)
        slopes = -y[some] / (1 + np.exp(margins)) / len(margins)
        return float(np.mean(np.logaddexp(0.0, -margins))), A[some].T @ slopes

    return f


def parts():
    A, y, clients = rows()
    return [(A[clients == i], y[clients == i]) for i in range(N)]


def supports():
    return [np.flatnonzero(A.any(axis=0)) for A, _ in parts()]


def of_own(**options):
    functions = [logistic(A[:, J], y) for (A, y), J in zip(parts(), supports(), strict=True)]
    return ef.problem(functions, supports(), d=D, **{"lower_bound": 0.0, "rows": [6] * N, **options})


def of_all(**options):
    return ef.problem([logistic(A, y) for A, y in parts()], d=D, **{"lower_bound": 0.0, "rows": [6] * N, **options})


def of_library():
    return ef.logistic(*rows())


def squares(**options):
    """f_i = i x_i^2 + (x_i - x_{i+1})^2 / 2, as functions of two features each."""

    def client(i):
        H = np.array([[2.0 * i + 1.0, -1.0], [-1.0, 1.0]])
        return lambda w: (float(w @ H @ w) / 2, H @ w)

    given = {"x0": np.arange(1.0, N + 2), "lower_bound": 0.0}
    return ef.problem([client(i) for i in range(N)], [[i, i + 1] for i in range(N)], d=N + 1, **given | options)


OPTIONS = {
    "Constant": {"method": TOP, "stepsize": ef.Constant(0.5), "rounds": 60},
    "Automatic": {"method": TOP, "stepsize": ef.Automatic(guess=1.0), "rounds": 60},
    "minibatches, EF21-SGDM": {
        "method": ef.EF21SGDM(ef.TopK(2), batch=2, eta=0.3),
        "stepsize": ef.Constant(0.3),
        "rounds": 90,
    },
    "minibatches, EF14": {"method": ef.EF14(ef.PowersOfTwo(4), batch=2), "stepsize": ef.Constant(0.3), "rounds": 90},
    "two-way few bits": {"method": FEW, "stepsize": ef.Armijo(), "direction": ef.LBFGS(), "downlink": ef.FittedStep()},
}


@pytest.mark.parametrize("make", [of_own, of_all])
@pytest.mark.parametrize("name", OPTIONS)
def test_a_linear_model_has_the_trajectory_of_the_librarys(make, name):
    options = {"rounds": 25, **OPTIONS[name]}
    mine, theirs = (ef.solve(problem, **options) for problem in (make(), of_library()))
    assert np.abs(mine.x - theirs.x).max() < 1e-10
    assert np.abs(mine.history["f"] - theirs.history["f"]).max() < 1e-10
    assert np.array_equal(mine.history["uplink_bits"], theirs.history["uplink_bits"])
    assert mine.history["f"][-1] < 0.9 * mine.history["f"][0]


def test_probing_finds_who_owns_which_feature():
    problem = of_all()
    assert [problem.columns[problem.support.features(i)].tolist() for i in range(N)] == [J.tolist() for J in supports()]
    assert problem.dropped_features == 1


def test_minibatches_are_those_of_the_library():
    """The same rows by (seed, round, client), and the same estimate from them; also in a shard."""
    sample = ef.Sample(3, ef.Round(5, 7))
    x = np.linspace(-1.0, 1.0, D)
    answers = []
    for problem in (of_own(), of_all(), of_library()):
        whole, part = problem, problem.shard(3, 6)
        for each in (whole, part):
            out = np.empty(each.support.size)
            each.gradients(ef.Point(each.restrict(x)), out, rows=sample)
            answers.append(out)
    for own in (answers[:2], answers[2:4]):
        for mine, theirs in zip(own, answers[4:], strict=True):
            assert np.abs(mine - theirs).max() < 1e-14
    assert np.abs(answers[0] - of_own().gradients_at(x)).max() > 0.01


def test_functions_without_rows_say_so():
    with pytest.raises(ValueError, match=r"know of no rows to take a sample of; give ef\.problem"):
        squares().gradients(ef.Point(np.ones(N + 1)), np.empty(2 * N), rows=ef.Sample(1, ef.Round(0, 0)))


def test_it_starts_where_it_is_told():
    assert ef.solve(squares(), TOP, ef.Constant(0.01), rounds=1).history["f"][0] == squares().value(np.arange(1.0, N + 2))
    assert ef.solve(squares(), TOP, ef.Constant(0.01), rounds=1, x0=np.zeros(N + 1)).history["f"][0] == 0.0


@pytest.mark.parametrize("floor", [0.0, -np.inf])
@pytest.mark.parametrize("factor", [1e-3, 1.0, 1e3])
def test_automatic_needs_no_bound_and_no_guess(floor, factor):
    """Polyak's share is the first step, or one of length 1; whatever the scale of f, the run comes down."""

    def scaled(i):
        return lambda w: (factor * float(w @ w) * (i + 1), 2 * factor * (i + 1) * w)

    problem = ef.problem([scaled(i) for i in range(N)], [[i] for i in range(N)], d=N, x0=np.full(N, 3.0), lower_bound=floor)
    result = ef.solve(problem, ef.EF21(ef.TopK(1)), ef.Automatic(), rounds=150)
    assert result.history["f"][-1] < 1e-3 * result.history["f"][0]
    g2 = float(np.sum(problem.gradient(problem.x0) ** 2))
    first = 0.25 * problem.value(problem.x0) / g2 if np.isfinite(floor) else g2**-0.5
    assert result.history["gamma"][1] == pytest.approx(first, rel=1e-6)
    assert result.certificate.verdict == "not applicable"


def test_automatic_needs_no_bound_on_problems_of_the_library_either():
    draw = np.random.default_rng(0)
    problem = ef.autoencoder(draw.standard_normal((24, 4)) @ np.diag([3.0, 1.0, 0.1, 0.1]), clients=4, code=2)
    result = ef.solve(problem, TOP, ef.Automatic(), rounds=300, every=50, x0=0.3 * draw.standard_normal(problem.d))
    assert result.history["f"][-1] < 0.1 * result.history["f"][0]


def test_no_client_tells_a_smoothness_that_it_does_not_know():
    """Before the first upload only who owns what is counted: the L_i of Automatic are 14 bits a client."""
    without, with_bound = (
        ef.solve(problem, TOP, ef.Automatic(), rounds=1).history["uplink_bits"][0]
        for problem in (squares(), squares(smoothness=2.0 * N + 3))
    )
    assert with_bound - without == 14 * N


def barrier(w):
    """-log(1 - w^2) + (w - 2)^2, infinite from |w| = 1 on: without a gradient there."""
    if np.abs(w[0]) >= 1:
        return np.inf, np.full(1, np.nan)
    return float(-np.log(1 - w[0] ** 2) + (w[0] - 2) ** 2), 2 * w / (1 - w**2) + 2 * (w - 2)


@pytest.mark.parametrize("rule", [ef.Armijo(guess=50.0), ef.Automatic(guess=50.0)], ids=str)
def test_a_step_to_where_f_is_infinite_is_taken_back(rule):
    problem = ef.problem([barrier], [[0]], d=1)
    result = ef.solve(problem, ef.EF21(ef.TopK(1)), rule, rounds=120)
    assert np.isinf(result.history["f"]).any()
    assert abs(float(problem.gradient(result.x)[0])) < 1e-3


def hidden(x):
    """Depends on x[2] where x[0] > 3 alone, which no probing near 0 sees."""
    gradient = np.zeros(3)
    gradient[:2] = 2 * (x[:2] - 4.0)
    gradient[2] = 0.25 * (x[0] > 3)
    return float(np.sum((x[:2] - 4.0) ** 2)) + 0.25 * (x[0] > 3) * x[2], gradient


def test_a_gradient_outside_the_probed_support_is_found_in_the_run_and_named():
    problem = ef.problem([hidden], d=3)
    assert problem.support.sizes.tolist() == [2]
    with pytest.raises(ValueError, match=r"client 0: the gradient at coordinate 2 is 0.25, but probing .*; give supports="):
        ef.solve(problem, ef.EF21(ef.TopK(2)), ef.Constant(0.1), rounds=60)


def test_what_lies_outside_is_no_part_of_x():
    """A function that was probed in the wrong place sees random numbers there, so that a dependence comes up at once."""
    dead = [True]

    def f(x):
        gradient = np.zeros(2)
        gradient[0] = 2 * x[0]
        gradient[1] = 0.0 if dead[0] else 2 * x[1]
        return float(x[0] ** 2), gradient

    problem = ef.problem([f], d=2)
    dead[0] = False
    with pytest.raises(ValueError, match="client 0: the gradient at coordinate 1 is"):
        problem.gradients_at(np.zeros(2))


@pytest.mark.parametrize(
    ("error", "dtype"), [(1e-3, np.float64), (0.03, np.float64), (1e3, np.float64), (-0.5, np.float32), (1e3, np.float32)]
)
def test_a_wrong_gradient_is_found_and_its_coordinate_named(error, dtype):
    def f(w):
        gradient = (2 * w).astype(dtype)
        gradient[3] *= 1 + error
        return float(w @ w), gradient

    right = [lambda w: (float(w @ w), 2 * w)] * 2
    options = {"d": 6, "x0": np.linspace(1.0, 2.0, 6), "dtype": dtype}
    functions, owned = [*right, f], [[0, 1], [1, 2], [0, 1, 2, 4, 5]]
    with pytest.raises(ValueError, match=r"client 2: the gradient at coordinate 4 is .* per unit there; mend it, or"):
        ef.problem(functions, owned, **options)
    assert ef.problem(functions, owned, check=False, **options).n == 3


def test_kinks_are_no_wrong_gradients():
    def f(w):
        z = np.maximum(A @ w, 0.0)
        return float(z.sum()), A.T @ (z > 0).astype(float)

    A = np.random.default_rng(1).standard_normal((2000, 5))
    assert ef.problem([f], [np.arange(5)], d=5).d == 5  # at x0 = 0 everything is a kink


GOOD = [lambda w: (float(w @ w), 2 * w)] * 2
BAD = {
    "no pair": (lambda w: 2 * w, "client 1: its function gave .*; it must give a pair"),
    "value": (lambda w: ("much", 2 * w), "client 1: the value is 'much'; it must be one real number"),
    "shape": (lambda w: (0.0, np.zeros(3)), r"client 1: the gradient has shape \(3,\); it needs \(1,\)"),
    "dtype": (
        lambda w: (0.0, np.zeros(1, dtype=np.float32)),
        "client 1: the gradient is of float32, but the problem of float",
    ),
    "nan value": (lambda w: (np.nan, 2 * w), "client 1: its value at x0 is nan; give another x0"),
    "nan gradient": (lambda w: (1.0, w * np.nan), "client 1: the value is 1, but the gradient's entry 0 is nan"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_answer_is_named(name):
    function, words = BAD[name]
    with pytest.raises(ValueError, match=words):
        ef.problem([GOOD[0], function], [[0], [1]], d=2)


WRONG = {
    "no functions": (([],), {"d": 2}, "there are no functions"),
    "not callable": (([GOOD[0], 3],), {"d": 2}, r"functions\[1\] is 3, which cannot be called"),
    "d": ((GOOD,), {"d": 0}, "d = 0; it must be a whole number"),
    "supports": ((GOOD, [[0]]), {"d": 2}, "1 supports for 2 functions"),
    "no feature": ((GOOD, [[0], []]), {"d": 2}, "client 1 owns no feature; drop it"),
    "outside": ((GOOD, [[0], [2]]), {"d": 2}, r"supports\[1\] has the feature 2; they are numbered from 0 to d - 1 = 1"),
    "order": ((GOOD, [[0], [1, 0]]), {"d": 2}, r"supports\[1\] is not in ascending order"),
    "fractions": ((GOOD, [[0], [0.5]]), {"d": 2}, r"supports\[1\] has shape \(1,\) of float64"),
    "rows": ((GOOD, [[0], [1]]), {"d": 2, "rows": [3, 0]}, r"rows\[1\] = 0; every client needs"),
    "x0": ((GOOD, [[0], [1]]), {"d": 2, "x0": [0.0]}, r"x0 has shape \(1,\); it needs one entry per feature"),
    "x0 not finite": ((GOOD, [[0], [1]]), {"d": 2, "x0": [0.0, np.inf]}, r"x0\[1\] is not finite"),
    "constant": (([lambda x: (1.0, 0 * x)],), {"d": 2}, "client 0: its gradient is zero at all 3 probed points"),
    "smoothness": ((GOOD, [[0], [1]]), {"d": 2, "smoothness": [1.0] * 3}, r"smoothness has shape \(3,\)"),
    "infinite": ((GOOD, [[0], [1]]), {"d": 2, "smoothness": [2.0, np.inf]}, r"smoothness\[1\] = inf; an L_i must be finite"),
    "too small": ((GOOD, [[0], [1]]), {"d": 2, "smoothness": [2.0, 1.98]}, r"smoothness\[1\] = 1.98, but .* by 2 per unit"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_is_refused_with_the_value_and_the_fix(name):
    arguments, options, words = WRONG[name]
    with pytest.raises(ValueError, match=words):
        ef.problem(*arguments, **options)


@pytest.mark.parametrize("rule", [ef.RareFeatures(), ef.EF21Standard(), ef.Best()], ids=str)
def test_what_needs_a_bound_says_so_and_what_to_use_instead(rule):
    with pytest.raises(ValueError, match=r"curvature.*use ef.Constant\(gamma\), ef.Automatic\(\) or ef.Armijo\(\)"):
        ef.solve(squares(), TOP, rule, rounds=1)


def test_a_given_bound_gives_a_step_and_a_certificate_and_an_estimated_one_or_none_no_certificate():
    norms = [float(np.linalg.eigvalsh([[2 * i + 1, -1], [-1, 1]]).max()) for i in range(N)]
    given, guessed = squares(smoothness=norms), squares(smoothness=ef.Estimated(steps=40))
    assert np.allclose(guessed.norms, norms, rtol=1e-4)
    runs = [ef.solve(problem, TOP, ef.RareFeatures(), rounds=50) for problem in (given, guessed)]
    assert [run.certificate.verdict for run in runs] == ["held", "not applicable"]
    assert "the L_i were estimated" in str(runs[1].certificate)
    assert ef.verify(runs[0]).verdict == "held"
    assert ef.verify(runs[1]).verdict == "not applicable"
    unknown = ef.verify(ef.solve(squares(), TOP, ef.Constant(0.01), rounds=50))
    assert str(unknown).startswith("not applicable: nothing bounds the curvature of the f_i")
    with pytest.raises(ValueError, match=r"at most every client's L_i is known.*RareFeatures, Weighted"):
        ef.solve(given, TOP, ef.Best(), rounds=1)
    assert "bound (given)" in str(ef.analyse(given, ef.TopK(1)))
    assert "estimated, which bounds nothing" in str(ef.analyse(guessed, ef.TopK(1)))


def test_a_checkpoint_goes_on_with_the_same_functions_and_refuses_others(tmp_path):
    class StopError(Exception):
        pass

    def watch(row):
        if row["round"] == 10:
            raise StopError

    options = {"method": FEW, "stepsize": ef.Armijo(), "direction": ef.LBFGS(), "downlink": ef.FittedStep(), "rounds": 20}
    with pytest.raises(StopError):
        ef.solve(of_own(), **options, watch=watch, checkpoint=ef.Checkpoint(tmp_path, every=4))
    A, y, clients = rows()
    other = [logistic(A[clients == i][:, J], -y[clients == i]) for i, J in enumerate(supports())]
    with pytest.raises(ValueError, match="belongs to another run: data is Functions"):
        ef.resume(tmp_path, problem=ef.problem(other, supports(), d=D, lower_bound=0.0, rows=[6] * N))
    with pytest.raises(ValueError, match="does not hold the problem, which has functions of your own"):
        ef.resume(tmp_path)
    again, whole = ef.resume(tmp_path, problem=of_own()), ef.solve(of_own(), **options)
    assert np.array_equal(again.x, whole.x)


def test_comparisons_take_them_and_leave_out_what_needs_a_bound():
    mine, theirs = (ef.compare(make(), ["EF21"], rounds=5) for make in (of_own, of_library))
    ours, librarys = ({(row["method"], row["rule"]): row["loss"] for row in each.table()} for each in (mine, theirs))
    common = {key: loss for key, loss in librarys.items() if key in ours and "in hindsight" in key[1]}
    assert {key: pytest.approx(ours[key], abs=1e-10) for key in common} == common
    assert len(common) == 2, "TopK and few bits"
    assert not {row["step"] for row in mine.table()} & {"theorem"}
    assert "no known bound on its curvature" in mine.left_out["EF21 TopK(1), Adaptive"]
