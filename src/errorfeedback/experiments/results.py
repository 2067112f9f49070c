"""What a reproduction leaves in its folder: figures (PNG, SVG), one JSON per experiment and the page.

`written` needs the stored curves only, so `errorfeedback report DIR` makes everything again without running anything.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from errorfeedback import __version__
from errorfeedback.experiments.base import Experiment, Findings, Options
from errorfeedback.experiments.catalogue import catalogue
from errorfeedback.experiments.jobs import Job
from errorfeedback.experiments.store import Store

PACKAGES = ("numpy", "scipy", "numba", "scikit-learn", "matplotlib", "plotly")


@dataclass(frozen=True, eq=False)
class ExperimentResult:
    """One experiment with what was found and what is missing."""

    experiment: Experiment
    options: Options
    command: str
    findings: Findings
    missing: Mapping[str, str] = field(default_factory=dict)
    """Jobs that are not stored, with the reason."""
    seconds: float = 0.0
    """The processor time of its jobs; experiments that share a curve all count it."""
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        return not self.missing


def versions() -> dict[str, str]:
    """What made the numbers."""
    return {"errorfeedback": __version__, "python": platform.python_version()} | {name: _version(name) for name in PACKAGES}


def collect(
    experiment: Experiment, options: Options, store: Store, command: str, reasons: Mapping[Job, str]
) -> ExperimentResult:
    """Look at what is stored."""
    jobs = experiment.jobs(options)
    missing = {job.file: reasons.get(job, "not run yet") for job in jobs if not store.has(job)}
    facts = [record.facts for record in map(store.load, jobs) if record is not None]
    seconds = sum(fact["seconds"] for fact in facts)
    return ExperimentResult(experiment, options, command, experiment.findings(options, store), missing, seconds, versions())


def write(result: ExperimentResult, store: Store) -> None:
    """The experiment's figures and its JSON."""
    store.folder.mkdir(parents=True, exist_ok=True)
    draw = import_module("errorfeedback.plots.draw")  # matplotlib takes its time to import: only where it is used
    for figure in result.findings.figures:
        draw.save(figure, store.folder)
    path = store.folder / f"{result.experiment.name}.json"
    path.write_text(json.dumps(summary(result, store), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def summary(result: ExperimentResult, store: Store) -> dict[str, Any]:
    """The experiment for programs: how it was made, what it found, and where its curves are."""
    jobs = [job for job in result.experiment.jobs(result.options) if store.has(job)]
    return {
        "name": result.experiment.name,
        "title": result.experiment.title,
        "command": result.command,
        "options": asdict(result.options),
        "seed": result.options.seed,
        "versions": dict(result.versions),
        "seconds": round(result.seconds, 3),
        "complete": result.complete,
        "missing": dict(result.missing),
        "claims": [{"claim": c.statement, "holds": c.holds, "figures": c.figures} for c in result.findings.claims],
        "problems": _problems(jobs, store),
        "curves": {f"{job.problem.slug}: {job.label}": f"curves/{job.file}.csv" for job in jobs},
    }


def reload(folder: Path) -> list[ExperimentResult]:
    """The results of a folder, looked at again from its stored curves, as they were asked for."""
    store, known = Store(folder), catalogue()
    collected = []
    for name, experiment in known.items():
        path = folder / f"{name}.json"
        if path.is_file():
            options, command, reasons = _asked(path, experiment)
            collected.append(collect(experiment, options, store, command, reasons))
    return collected


def _asked(path: Path, experiment: Experiment) -> tuple[Options, str, dict[Job, str]]:
    """What was asked for, by which command, and why parts of it are missing."""
    try:
        old = json.loads(path.read_text(encoding="utf-8"))
        options = Options(**{**old["options"], "images": tuple(old["options"]["images"])})
        reasons = {job: str(old["missing"][job.file]) for job in experiment.jobs(options) if job.file in old["missing"]}
        return options, str(old["command"]), reasons
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(
            f"{path} is damaged ({type(error).__name__}: {error}); delete it, and `errorfeedback reproduce "
            f"{experiment.name} --out {path.parent}` writes it again from what is stored"
        ) from error


def _problems(jobs: Sequence[Job], store: Store) -> dict[str, Any]:
    """The constants of every problem, once."""
    names = ("problem", "n", "d", "c", "r", "fill", "L", "L_max", "L_tilde", "L_plus", "how")
    loaded = {job.problem.slug: store.load(job) for job in jobs}
    return {slug: {name: record.facts.get(name) for name in names} for slug, record in loaded.items() if record is not None}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
