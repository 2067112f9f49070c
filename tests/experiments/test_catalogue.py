"""Every experiment is found, copes with an empty folder, and comes out whole on tiny horizons."""

from __future__ import annotations

import os

import pytest

from errorfeedback.experiments.base import Experiment, Options
from errorfeedback.experiments.catalogue import catalogue, chosen
from errorfeedback.experiments.jobs import Run
from errorfeedback.experiments.page import page
from errorfeedback.experiments.results import collect, reload, write
from errorfeedback.experiments.store import Store

EXPERIMENTS = catalogue()
NO_DATA = {name for name, e in EXPERIMENTS.items() if e.needs.startswith("nothing")}
every_experiment = pytest.mark.parametrize("experiment", EXPERIMENTS.values(), ids=list(EXPERIMENTS))
TINY = Options(rounds=3)


def test_all_eight_are_there_and_five_need_no_data():
    assert list(EXPERIMENTS) == ["table-1", *(f"figure-{k}" for k in range(1, 8))]
    assert {"table-1", "figure-1", "figure-2", "figure-6", "figure-7"} == NO_DATA


def test_an_unknown_name_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match="'figure-9' is no experiment; there are table-1, figure-1"):
        chosen(["figure-9"])
    assert [e.name for e in chosen(["figure-7", "table-1"])] == ["table-1", "figure-7"]


@every_experiment
def test_an_empty_folder_leaves_every_claim_open(experiment: Experiment, tmp_path):
    findings = experiment.findings(TINY, Store(tmp_path))
    assert findings.claims
    assert {claim.holds for claim in findings.claims} == {None}
    assert not findings.figures


@every_experiment
def test_tiny_horizons_make_a_whole_experiment(experiment: Experiment, tmp_path):
    if experiment.name not in NO_DATA and "ERRORFEEDBACK_DATA" not in os.environ:
        pytest.skip("ERRORFEEDBACK_DATA names no folder with the data")
    store = Store(tmp_path)
    for job in experiment.jobs(TINY):
        store.save(job, job.execute(lambda rounds: None), 0.0)
    result = collect(experiment, TINY, store, "errorfeedback reproduce", {})
    assert result.complete
    assert None not in {claim.holds for claim in result.findings.claims} or experiment.name == "table-1"
    write(result, store)
    assert (tmp_path / f"{experiment.name}.png").stat().st_size > 10_000
    (again,) = reload(tmp_path)
    assert again.findings.claims == result.findings.claims
    text = page([again]).html()
    for claim in result.findings.claims:
        assert claim.html() in text


@every_experiment
def test_the_authors_settings_are_theirs(experiment: Experiment):
    """K/d in every rule of EF21, their start; nothing of ours among the curves."""
    for job in experiment.jobs(Options(authors=True)):
        if isinstance(job, Run) and type(job.method).__name__ == "EF21" and experiment.name not in {"figure-1", "table-1"}:
            assert job.method.start == "authors"
            assert "K/|J_i|" not in repr(job.rule)


def test_horizons():
    assert Options().horizon(100, 10) == 100
    assert Options(quick=True).horizon(100, 10) == 10
    assert Options(quick=True, rounds=7).horizon(100, 10) == 7
    with pytest.raises(ValueError, match="rounds = 0"):
        Options(rounds=0)


def test_the_paper_horizons():
    rounds = {name: {job.rounds for job in e.jobs(Options()) if isinstance(job, Run)} for name, e in EXPERIMENTS.items()}
    assert 100_000 in rounds["figure-2"]
    assert {100_000, 2_000} == rounds["figure-7"]
    assert 10_000 in rounds["figure-6"]
    assert 100_000 in rounds["figure-3"] & rounds["figure-4"]
