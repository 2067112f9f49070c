"""Jobs are stored whole, found again only if nothing changed, and run in processes that can be stopped."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

import numpy as np
import pytest

from errorfeedback import api as ef
from errorfeedback.experiments.jobs import Constants, Pattern, Run
from errorfeedback.experiments.recipes import ProblemRecipe, Synthetic
from errorfeedback.experiments.runner import distinct, run_here, run_jobs, without_data
from errorfeedback.experiments.store import Store

SMALL = Synthetic(4, 0, 10, 20, 3)
RUN = Run(SMALL, "EF21, Theorem 1", ef.EF21(ef.TopK(1)), ef.RareFeatures(), rounds=20, seed=0, points=10)


def silent(rounds: int) -> None:
    pass


def told(job, rounds: int, finished: bool) -> None:
    pass


def test_a_stored_curve_comes_back_as_it_was(tmp_path):
    store = Store(tmp_path)
    record = RUN.execute(silent)
    store.save(RUN, record, seconds=1.5)
    found = store.load(RUN)
    assert list(found.columns) == list(record.columns)
    for name, column in record.columns.items():
        np.testing.assert_array_equal(found.columns[name], column)
    assert found.facts["seconds"] == 1.5
    assert found.facts["gamma"] == record.facts["gamma"]
    assert found.facts["theorem_1"]["holds"] is True


@pytest.mark.parametrize(
    "change",
    [
        {"rounds": 21},
        {"seed": 1},
        {"points": 5},
        {"problem": replace(SMALL, c=5)},
        {"rule": ef.RareFeatures(alpha="K/d")},
        {"method": ef.EF21(ef.TopK(2))},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_changed_setting_is_another_job(tmp_path, change):
    store = Store(tmp_path)
    store.save(RUN, RUN.execute(silent), 0.0)
    assert store.has(RUN)
    assert not store.has(replace(RUN, **change))
    assert store.load(replace(RUN, **change)) is None


def test_the_curve_gets_its_name_last(tmp_path, monkeypatch):
    """What an interrupted program leaves is not taken for a result."""
    store = Store(tmp_path)
    monkeypatch.setattr("errorfeedback.experiments.store._replace", lambda path, text: None)
    store.save(RUN, RUN.execute(silent), 0.0)
    assert not store.has(RUN)


def test_recorded_rounds_follow_the_points():
    assert RUN.every == 2
    assert replace(RUN, rounds=5, points=10).every == 1
    np.testing.assert_array_equal(RUN.execute(silent).columns["round"], np.arange(0, 21, 2))


def test_a_watcher_can_stop_a_run():
    def stop(rounds: int) -> None:
        if rounds >= 10:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        RUN.execute(stop)


def test_patterns_and_constants():
    problem = SMALL.make()
    pattern = Pattern(SMALL).execute(silent)
    filled = set(zip(pattern.columns["client"], pattern.columns["feature"], strict=True))
    assert filled == {(i, j) for i in range(problem.n) for j in problem.support.features(i)}
    constants = Constants(SMALL).execute(silent)
    theory = ef.analyse(problem, ef.TopK(1))
    assert constants.facts["L_plus"] == theory.L_plus
    np.testing.assert_array_equal(constants.columns["L_i"], theory.L_i)


@dataclass(frozen=True)
class Broken(ProblemRecipe):
    """A problem that cannot be made."""

    @property
    def slug(self) -> str:
        return "broken"

    def make(self):
        raise ValueError("no such problem")

    def check(self) -> None:
        raise FileNotFoundError("broken.txt is expected in /nowhere")


def test_jobs_run_in_processes_once_and_failures_do_not_stop_the_rest(tmp_path):
    store, news = Store(tmp_path), []
    runs = [replace(RUN, seed=seed) for seed in range(3)]
    jobs = [*runs[:2], runs[0], Pattern(Broken())]

    def then(job):
        """The second run makes the third one necessary, and itself again."""
        return runs[1:] if job == runs[1] else ()

    failed = run_jobs(jobs, store, workers=2, display=lambda job, rounds, finished: news.append((job, finished)), then=then)
    assert list(failed.values()) == ["no such problem"]
    assert all(store.has(run) for run in runs)
    assert len([job for job, finished in news if finished]) == 4
    np.testing.assert_array_equal(store.load(runs[1]).columns["f"], runs[1].execute(silent).columns["f"])


def test_jobs_run_here_as_they_do_elsewhere(tmp_path):
    store, runs, news = Store(tmp_path), [replace(RUN, seed=seed) for seed in range(2)], []
    failed = run_here(
        [runs[0], Pattern(Broken())],
        store,
        display=lambda job, rounds, finished: news.append(job) if finished else None,
        then=lambda job: runs[1:],
    )
    assert failed == {Pattern(Broken()): "no such problem"}
    assert all(map(store.has, runs))
    assert len(news) == 3


@dataclass(frozen=True)
class Deadly(Broken):
    """A problem that takes its process down, as one that is too large for the memory does."""

    def make(self):
        os._exit(7)


def test_a_process_that_dies_costs_its_job_only(tmp_path):
    store = Store(tmp_path)
    failed = run_jobs([RUN, Pattern(Deadly())], store, workers=1, display=told)
    assert failed == {Pattern(Deadly()): "its process ended with exit code 7"}
    assert store.has(RUN)


def test_stored_jobs_are_not_run_again(tmp_path, monkeypatch):
    store = Store(tmp_path)
    store.save(RUN, RUN.execute(silent), 0.0)
    monkeypatch.setattr("errorfeedback.experiments.runner._work", None)
    assert run_jobs([RUN], store, workers=2, display=told) == {}


def test_an_interrupt_keeps_what_is_finished_and_the_next_call_continues(tmp_path):
    store = Store(tmp_path)
    runs = [replace(RUN, seed=seed) for seed in range(2)]

    def interrupt(job, rounds: int, finished: bool) -> None:
        if finished:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_jobs(runs, store, workers=1, display=interrupt)
    done = [run for run in runs if store.has(run)]
    assert done
    assert run_jobs(runs, store, workers=1, display=told) == {}
    assert all(store.has(run) for run in runs)


def test_missing_data_is_found_before_anything_runs():
    job = Pattern(Broken())
    assert without_data([RUN, job]) == {job: "broken.txt is expected in /nowhere"}


def test_shared_curves_are_computed_once():
    assert distinct([RUN, replace(RUN), replace(RUN, seed=1)]) == [RUN, replace(RUN, seed=1)]
