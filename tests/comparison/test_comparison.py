"""`ef.compare`: every method with its three kinds of steps, kept, continued, and ready for a paper."""

from __future__ import annotations

import csv
import pickle
import re
from dataclasses import replace
from math import inf, log2

import numpy as np
import pytest

import errorfeedback as ef
from errorfeedback import directions, methods
from errorfeedback.comparison.comparison import Comparison, carry_out_schedule
from errorfeedback.comparison.contest_run import ContestRun, Given, Limits, score
from errorfeedback.comparison.paper_tables import latex_text
from errorfeedback.comparison.schedule import Schedule
from errorfeedback.directions.base import Direction
from errorfeedback.experiments.store import Store
from errorfeedback.methods.base import Method
from errorfeedback.planner.contest import Contest, Contestant
from errorfeedback.planner.field import Entrant, by_theorem, entrants
from errorfeedback.registry import members

METHODS = ["DGD", "EF21", "MARINA", "DCGD"]
LINK = ef.Network(up="1kbit/s", latency="10ms")


@pytest.fixture(scope="module")
def problem():
    return ef.synthetic(n=6, d=15, m=4, c=3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("kept")


@pytest.fixture(scope="module")
def comparison(problem, folder):
    return ef.compare(problem, METHODS, rounds=60, seeds=3, network=LINK, folder=folder)


def rows(comparison, method, step):
    return [row for row in comparison.table() if (row["method"], row["step"]) == (method, step)]


def entry(comparison, label):
    return next(entry for entry in comparison.contest.entries if entry.label == label)


def test_every_method_has_every_kind_of_step_that_there_is_for_it(comparison):
    kinds = {}
    for row in comparison.table():
        kinds.setdefault(row["method"], set()).add(row["step"])
    assert kinds["DGD"] == kinds["EF21 TopK(1)"] == {"theorem", "automatic", "in hindsight"}
    assert kinds["MARINA RandK(1)"] == kinds["MARINA PermK"] == {"theorem", "in hindsight"}
    assert kinds["DCGD TopK(1)"] == {"in hindsight"}  # no theorem, and no rule pretends


def test_the_theorems_step_is_the_largest_that_is_proved(comparison, problem):
    (row,) = rows(comparison, "EF21 TopK(1)", "theorem")
    method = ef.EF21(ef.TopK(1))
    assert row["gamma"] == ef.Best().gamma(ef.analyse(problem, ef.TopK(1)), method)
    assert row["gamma"] > 1.02 * ef.RareFeatures().gamma(ef.analyse(problem, ef.TopK(1)), method)


@pytest.mark.parametrize("name", ["EF21 TopK(1)", "MARINA RandK(1)"])
def test_the_step_in_hindsight_is_a_power_of_two_whose_neighbours_are_worse(comparison, problem, name):
    (row,) = rows(comparison, name, "in hindsight")
    k = round(log2(row["gamma"]))
    assert row["gamma"] == 2.0**k
    method = next(entrant.method for entrant in entrants() if entrant.name == name)

    def run(gamma):
        return score(ef.solve(problem, method, ef.Constant(gamma), rounds=60).history)

    assert run(2.0**k) < min(run(2.0 ** (k - 1)), run(2.0 ** (k + 1)))


def test_a_run_is_that_of_solve(comparison, problem):
    history = ef.solve(problem, ef.DGD(), ef.InverseL(), rounds=60).history
    for column in ("round", "f", "uplink_bits", "downlink_bits", "residual2"):
        np.testing.assert_array_equal(entry(comparison, "DGD, InverseL").history[column], history[column])


def test_seeds_give_bands_to_what_is_random_and_to_nothing_else(comparison, problem):
    assert {row["seeds"] for row in comparison.table()} == {3}
    assert entry(comparison, "EF21 TopK(1), Automatic").band("f") is None
    random = entry(comparison, "MARINA RandK(1), MarinaAB")
    runs = [ef.solve(problem, ef.MARINA(ef.RandK(1)), ef.MarinaAB(), rounds=60, seed=s).history["f"] for s in range(3)]
    np.testing.assert_array_equal(random.band("f"), [np.min(runs, axis=0), np.max(runs, axis=0)])
    assert random.final == np.median([run[-1] for run in runs])


def test_a_second_call_runs_only_what_is_missing(comparison, problem, folder, monkeypatch):
    ran, execute = [], ContestRun.execute
    monkeypatch.setattr(ContestRun, "execute", lambda self, *how: ran.append(self) or execute(self, *how))
    asked = {"rounds": 60, "seeds": 3, "network": LINK, "folder": folder}
    assert ef.compare(problem, METHODS, **asked).table() == comparison.table()
    assert ran == []
    assert ef.compare(problem, METHODS[:2], **asked | {"rounds": 30, "seeds": 1}).table() != comparison.table()
    assert {run.rounds for run in ran} <= {30}  # all of them are steps that are best in 30 rounds, or next to those
    assert all("in hindsight" in run.label for run in ran)
    ran.clear()
    ef.compare(problem, [*METHODS, "EF14"], **asked)
    assert ran
    assert {run.contestant.entrant for run in ran} == {"EF14 TopK(1)"}


def test_more_rounds_go_on_where_the_kept_runs_ended_and_change_no_bit(comparison, problem, folder, tmp_path, monkeypatch):
    """Also those of a search, whose choice is made anew; without what is kept they begin at round 0."""
    seen, execute = [], ContestRun.execute
    monkeypatch.setattr(ContestRun, "execute", lambda self, watch, state: execute(self, seen.append, state))
    asked = {"methods": ["DGD", "DCGD"], "rounds": 81, "seeds": 2}
    longer = ef.compare(problem, **asked, folder=folder)
    assert min(seen) == 60
    seen.clear()
    assert ef.compare(problem, **asked, folder=tmp_path).table() == longer.table()
    assert min(seen) == 0
    assert {round for history in entry(longer, "DGD, InverseL").seeds for round in history["round"]} == set(range(82))


def test_a_job_goes_to_another_process_and_a_problem_of_functions_stays_in_this_one(problem):
    entrant = entrants()[0]
    job = ContestRun(Given.of("p", problem, None), entrant.constant(-3), 1, Limits(), 20)
    sent = pickle.loads(pickle.dumps(job))
    assert sent.fingerprint == job.fingerprint
    np.testing.assert_array_equal(sent.execute(lambda t: None).columns["f"], job.execute(lambda t: None).columns["f"])
    own = ef.problem([lambda x: (float(x @ x), 2 * x), lambda x: (float((x - 1) @ (x - 1)), 2 * (x - 1))], d=3)
    table = ef.compare(own, "DGD", rounds=10).table()
    assert min(row["loss"] for row in table) == pytest.approx(1.5 / 2, rel=0.1)


def test_tables_are_for_papers(comparison, tmp_path):
    with comparison.to_csv(tmp_path / "t.csv").open(newline="") as file:
        read = list(csv.DictReader(file))
    assert [row["method"] for row in read] == [row["method"] for row in comparison.table()]
    assert [float(row["loss"]) for row in read] == [row["loss"] for row in comparison.table()]
    text = comparison.to_latex(tmp_path / "t.tex").read_text()
    body = text.partition("\\midrule\n")[2].partition("\\bottomrule")[0].splitlines()
    assert "\\toprule" in text
    assert len(body) == len(read)
    assert {line.count(" & ") for line in body} == {7}
    marked = sum(row["step"] == "in hindsight" for row in read)
    assert sum("$^\\dagger$" in line for line in body) == marked > 0
    assert "in hindsight" not in "".join(body)


def test_a_table_that_is_longer_than_a_page_may_be_broken(comparison):
    many = Contest(
        [replace(each, label=f"M{k}, 2^0", entrant=f"M{k}") for k, each in enumerate(comparison.contest.entries * 3)], ""
    )
    text = latex_text(many)
    assert "\\begin{longtable}" in text
    assert text.index("\\endhead") < text.index("M0 &")
    assert text.rstrip().endswith("\\end{longtable}")
    assert "longtable" not in latex_text(comparison.contest)


def test_what_train_chooses_has_no_step_in_its_name(comparison):
    entry = replace(comparison.contest.winner, label="EF21 in few bits", entrant="EF21 in few bits", choice="automatic")
    assert Comparison(Contest([entry], "")).table()[0]["rule"] == "automatic"


def test_figures_have_the_width_of_a_column(comparison):
    canvas = comparison.plot(over="time", of="gradient", methods=["DGD, InverseL", "MARINA RandK(1), MarinaAB"])
    assert canvas.get_figwidth() == 3.3
    (axes,) = canvas.axes
    assert [line.get_label() for line in axes.lines] == ["DGD, InverseL", "MARINA RandK(1), MarinaAB"]
    assert len(axes.collections) == 1  # the band of what is random
    with pytest.raises(ValueError, match="over = 'minutes'; it must be one of time, total, up, rounds"):
        comparison.plot(over="minutes")
    with pytest.raises(ValueError, match="'SGD' took no part; there are"):
        comparison.plot(methods=["SGD"])


def test_it_shows_itself(comparison):
    assert comparison.contest.verdict() in repr(comparison)
    assert comparison._repr_html_().count("<tr>") == len(comparison.table()) + 1


def test_names_that_nobody_has_are_refused_with_those_that_there_are(problem):
    with pytest.raises(ValueError, match=r"'adam' is no method; there are all, .*EF21 TopK\(1\)"):
        ef.compare(problem, ["Adam"], rounds=3)
    with pytest.raises(ValueError, match="seeds = 0"):
        ef.compare(problem, "DGD", rounds=3, seeds=0)


def test_everything_registered_is_in_the_field():
    names = [entrant.name for entrant in entrants()]
    assert len(set(names)) == len(names)
    for package, base, attribute in ((methods, Method, "method"), (directions, Direction, "direction")):
        taking_part = {type(getattr(entrant, attribute)) for entrant in entrants()}
        assert set(members(package, base).values()) - {ef.Steepest} <= taking_part


def test_methods_that_are_about_compression_are_compressed():
    """CocktailSGD without it would be FedAvg, twice."""
    assert "CocktailSGD TopK(7)" in {entrant.name for entrant in entrants(7)}


def test_nobody_has_a_k_that_was_not_asked_for():
    for name in (entrant.name for entrant in entrants(7)):
        assert set(re.findall(r"(?:TopK|RandK)\((\d+)\)", name)) <= {"7"}, name
    parts = str(entrants(7))
    assert set(re.findall(r"\(k=(\d+)\)", parts)) == {"7"}


@pytest.mark.parametrize(("method", "turn"), [(ef.GIANT(ridge=1.0, step=0.1), 2), (ef.NewtonCG(inner=6), 7), (ef.DGD(), 1)])
def test_points_where_a_direction_is_shown_are_no_results(problem, method, turn):
    """A round later the method is where no iterate ever was; curves have nothing but iterates."""
    run = ContestRun(Given.of("p", problem, None), Contestant("m", method, ef.Constant(0.01)), 0, Limits(), 130)
    history = run.history(run.execute(lambda t: None))
    whole = ef.solve(problem, method, ef.Constant(0.01), rounds=130).history
    recorded = [t for t in range(131) if t % turn == 0 and (t < 100 or t == 130 or t % (turn * -(-5 // turn)) == 0)]
    assert history["round"].tolist() == recorded
    np.testing.assert_array_equal(history["f"], whole["f"][recorded])


def test_cocoa_is_tuned_by_its_penalty(problem):
    """It minimises f + (l2/2)||x||^2: a smaller l2 ends nearer to the minimum of f, which is what is compared."""
    cocoa = next(entrant for entrant in entrants() if entrant.name == "CoCoAPlus")
    assert cocoa.constant(-4).method.l2 == 2.0**-4
    assert cocoa.constant(-4).rule == ef.Constant(1.0)
    ends = [cocoa.constant(k).run(problem, rounds=200).history["f"][-1] for k in (3, 0, -3)]
    assert ends[0] > 1.01 * ends[1]
    assert ends[1] > 1.01 * ends[2]


def test_a_composition_has_the_theorem_that_is_about_it_and_no_other(problem):
    """Momentum and both ways with the numbers of the direction and of the downlink; none for a step that is rounded."""
    field = {entrant.name: entrant for entrant in entrants()}

    def rules(name):
        return [contestant.rule for contestant in by_theorem(problem, field[name])]

    assert rules("EF21 TopK(1) + HeavyBall") == [ef.RareHeavyBall(field["EF21 TopK(1) + HeavyBall"].direction.eta)]
    two_way = field["EF21 TopK(1), Compressed(TopK(1)) down"]
    assert rules(two_way.name) == [ef.RareTwoWay(two_way.downlink.compressor)]
    assert rules("EF21 TopK(1), RoundedStep down") == rules("DGD + LBFGS") == rules("FedAvg") == []


class Fabricated(Schedule):
    """A search whose scores are known."""

    def __init__(self, known, most=24):
        self.known, self.first, self.climbers = known, 0, ()
        self.grid = {None: {k: k for k in range(-24, most + 1)}}

    def scores(self, entrant):
        return {k: (value, value) for k, value in self.known.items()}


@pytest.mark.parametrize(
    ("known", "best", "to_try"),
    [
        ({}, None, [-1, 0, 1]),
        ({-1: 3.0, 0: 2.0, 1: 5.0}, 0, []),
        ({-1: 3.0, 0: 2.0, 1: 1.0}, None, [2]),
        ({-1: 1.0, 0: 2.0, 1: inf}, None, [-2]),
        ({-1: inf, 0: inf, 1: inf}, None, [-3, -4]),  # every step was too long
        ({-4: 1.0, -3: inf, -1: inf, 0: inf, 1: inf}, None, [-5]),
        ({-1: 1.0, 0: 1.0, 1: 1.0}, None, [-2]),  # of equals the smaller step
    ],
)
def test_the_search_goes_on_until_both_neighbours_are_worse(known, best, to_try):
    schedule = Fabricated(known)
    assert schedule.best(None) == best
    assert schedule._next(None) == to_try


def test_a_method_that_refuses_long_steps_is_tried_with_shorter_ones():
    assert Fabricated({}, most=-4)._next(None) == [-6, -5, -4]
    assert Fabricated({-6: 3.0, -5: 2.0, -4: 1.0}, most=-4).best(None) == -4
    prox = next(entrant for entrant in entrants() if entrant.name == "FedProx")
    with pytest.raises(ValueError, match="mu rate below 1"):
        prox.constant(3)


def test_giant_is_tuned_by_its_own_step():
    """Of a Newton step, a share of at most 1; gamma only says how far off a direction is shown."""
    giant = next(entrant for entrant in entrants() if entrant.name == "GIANT")
    assert [giant.constant(k).method.step for k in (-3, 0)] == [2.0**-3, 1.0]
    assert giant.constant(-3).rule == giant.constant(0).rule
    with pytest.raises(ValueError, match="the share of a Newton step"):
        giant.constant(1)


def test_clients_that_step_by_themselves_are_tuned_by_their_own_step():
    """The server takes the mean of their models; CHOCO's keeps it, with the step 1."""
    contestant = next(entrant for entrant in entrants() if entrant.name == "FedAvg").constant(-4)
    assert contestant.method.rate == 2.0**-4
    assert contestant.rule == ef.Constant(contestant.method.steps * 2.0**-4)
    choco = next(entrant for entrant in entrants() if entrant.name == "Choco TopK(1)").constant(-4)
    assert (choco.method.rate, choco.rule) == (2.0**-4, ef.Constant(1.0))


def test_who_knows_nothing_of_the_server_s_penalty_has_it_within_f(problem):
    """The same objective for everybody, and all go towards its minimum; CoCoA+ has a penalty of its own."""
    prox, field = ef.ElasticNet(l2=np.linspace(0.1, 0.2, 15)), {entrant.name: entrant for entrant in entrants()}
    best = ef.solve(problem, ef.DGD(), ef.InverseL(), rounds=2000, every=2000, prox=prox).history["f"][-1]
    names = ["SCAFFOLD", "Scaffnew", "NewtonCG", "DGD, Compressed(TopK(1)) down", "EF21 TopK(1), Primal(TopK(1)) down"]
    for contestant in (field[name].constant(-9) for name in names):
        assert not contestant.knows(prox)
        run = ContestRun(Given.of("p", problem, prox), contestant, 0, Limits(), 42)
        history = run.history(run.execute(lambda t: None))
        assert history["f"][0] == problem.value(np.zeros(15))
        assert best < history["f"][-1] < history["f"][0]
    with pytest.raises(ValueError, match="CoCoAPlus"):
        ContestRun(Given.of("p", problem, prox), field["CoCoAPlus"].constant(0), 0, Limits(), 3).execute(lambda t: None)


def test_who_cannot_take_part_is_named_with_the_reason(problem, tmp_path):
    refused = Entrant("DGD, Compressed down", ef.DGD(), downlink=ef.Compressed(ef.TopK(1)))
    schedule = Schedule(
        Given.of("p", problem, ef.ElasticNet(l1=0.1)),
        [Contestant("fine", ef.DGD(), ef.InverseL())],
        [refused],
        5,
        [0],
        Limits(),
        Store(tmp_path),
    )
    carry_out_schedule(schedule, 1, lambda job, rounds, finished: None)
    assert [entry.label for entry in schedule.entries(None)] == ["fine"]
    ((who, why),) = schedule.left_out().items()  # and not that every step diverged: none was run
    assert who == "DGD, Compressed down"
    assert "know nothing of ElasticNet" in why
