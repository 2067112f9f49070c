"""Every experiment is found, copes with an empty folder, and comes out whole on tiny horizons."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import pytest

from errorfeedback.experiments.base import Experiment, Options
from errorfeedback.experiments.catalogue import catalogue, chosen
from errorfeedback.experiments.jobs import Run
from errorfeedback.experiments.recipes import Libsvm, LibsvmFP32
from errorfeedback.experiments.reproduction_page import reproduction_page
from errorfeedback.experiments.results import collect, reload, write
from errorfeedback.experiments.store import Store

EXPERIMENTS = catalogue()
NO_DATA = {name for name, e in EXPERIMENTS.items() if e.needs.startswith("nothing")}
every_experiment = pytest.mark.parametrize("experiment", EXPERIMENTS.values(), ids=list(EXPERIMENTS))
TINY = Options(rounds=3)
PAPERS_CURVES = {f"figure-{k}" for k in range(2, 8)}


def test_the_papers_eight_come_first_and_six_of_all_need_no_data():
    others = ["ef21-steps", "marina-diana", "permk-quadratics"]
    assert list(EXPERIMENTS) == ["table-1", *(f"figure-{k}" for k in range(1, 8)), *others]
    assert {"table-1", "figure-1", "figure-2", "figure-6", "figure-7", "permk-quadratics"} == NO_DATA
    assert all(EXPERIMENTS[name].differs and EXPERIMENTS[name].source for name in others)


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
    text = reproduction_page([again]).html()
    for claim in result.findings.claims:
        assert claim.html() in text


@every_experiment
def test_the_authors_settings_are_theirs(experiment: Experiment):
    """K/d in every rule of EF21, their start; nothing of ours among the curves."""
    for job in experiment.jobs(Options(authors=True)):
        if isinstance(job, Run) and type(job.method).__name__ == "EF21" and experiment.name in PAPERS_CURVES:
            assert job.method.start.name == "authors"
            assert "K/|J_i|" not in repr(job.rule)


@pytest.mark.parametrize("name", ["figure-3", "figure-4"])
def test_the_authors_curves_on_data_sets_are_jobs_in_their_precision(name: str):
    single, double = (EXPERIMENTS[name].jobs(Options(authors=authors)) for authors in (True, False))
    assert {job.problem.dtype for job in single} == {np.float32}
    assert {job.problem.dtype for job in double} == {np.float64}
    assert not {job.file for job in single} & {job.file for job in double}


@pytest.mark.skipif("ERRORFEEDBACK_DATA" not in os.environ, reason="ERRORFEEDBACK_DATA names no folder with the data")
@pytest.mark.parametrize(("name", "authors"), [("figure-3", True), ("figure-3", False), ("figure-4", True)])
def test_a_curve_is_computed_in_the_precision_that_the_caption_names(name: str, authors: bool, tmp_path):
    options = Options(rounds=20, authors=authors)
    job = next(job for job in EXPERIMENTS[name].jobs(options) if job.problem.name == "phishing")
    record = job.execute(lambda rounds: None)
    other = replace(job, problem=(Libsvm if authors else LibsvmFP32)("phishing", 0)).execute(lambda rounds: None)
    assert np.allclose(record.columns["f"], other.columns["f"], rtol=1e-4, atol=0.0)
    assert not np.allclose(record.columns["f"], other.columns["f"], rtol=1e-10, atol=0.0)
    assert job.problem.make().dtype == (np.float32 if authors else np.float64)
    store = Store(tmp_path)
    store.save(job, record, 0.0)
    (figure,) = EXPERIMENTS[name].findings(options, store).figures
    assert ("single precision (FP32), as in the paper" in figure.caption) == authors
    assert ("double precision; the paper used FP32" in figure.caption) != authors


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
