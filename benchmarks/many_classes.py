"""Many classes: news20 with 20 of them (or any LIBSVM file), `EF21Classifier` against scikit-learn's LogisticRegression with
the same penalty: one gradient of all clients, then accuracy, log loss, processor time and memory of a fit.

    ERRORFEEDBACK_DATA=folder python benchmarks/many_classes.py [--file news20.bz2] [--clients 100] [--l2 1e-4]

Every fit has a process of its own, so that its memory is its own; BLAS gets one core in all of them, as what its idle
threads burn is nobody's work.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn._loss import HalfMultinomialLoss
from sklearn.datasets import load_svmlight_file
from sklearn.linear_model import LogisticRegression
from sklearn.linear_model._linear_loss import LinearModelLoss
from sklearn.metrics import log_loss

import errorfeedback as ef
from errorfeedback.core import Lifted, Model, PerClient, Point

REPEATS, HELD_OUT = 15, 0.2


def rows(file: str) -> tuple[Any, Any]:
    found = sorted(Path(os.environ.get("ERRORFEEDBACK_DATA", ".")).rglob(file))
    if not found:
        raise FileNotFoundError(f"{file} is not in the folder that ERRORFEEDBACK_DATA names")
    return load_svmlight_file(str(found[0]))


def gradient(file: str, clients: int, l2: float) -> dict[str, Any]:
    """Milliseconds of processor time, the least of a few; and how far apart the two are."""
    A, y = rows(file)
    m, d, q = *A.shape, len(np.unique(y))
    X = 0.1 * np.random.default_rng(0).standard_normal((d + 1, q))
    loss = LinearModelLoss(base_loss=HalfMultinomialLoss(n_classes=q), fit_intercept=True)
    code, coef, weights = np.unique(y, return_inverse=True)[1].astype(np.float64), np.asfortranarray(X.T), np.ones(m)
    problem = ef.softmax(A, y, np.arange(m) % clients, intercept=True, sample_weight=weights)
    x, out = Model(X.ravel()[problem.columns]), Lifted(np.empty(problem.support.size))
    values = PerClient(np.empty(clients))
    theirs = least(lambda: loss.loss_gradient(coef, A, code, sample_weight=weights, n_threads=1))
    ours = least(lambda: problem.gradients(Point(x), out, values=values))
    slopes = loss.gradient(coef, A, code, sample_weight=weights).T.ravel()[problem.columns]
    apart = float(np.abs(problem.gradient(x) - slopes).max())
    return {"scikit-learn (ms)": theirs, "all clients (ms)": ours, "ratio": ours / theirs, "largest difference": apart}


def least(call: Callable[[], Any]) -> float:
    call()
    times = []
    for _ in range(REPEATS):
        begin = time.process_time()
        call()
        times.append(1e3 * (time.process_time() - begin))
    return min(times)


def fit(who: str, file: str, clients: int, l2: float) -> dict[str, Any]:
    A, y = rows(file)
    held = np.random.default_rng(0).random(len(y)) < HELD_OUT
    penalty = {"C": 1 / (l2 * np.sum(~held)), "max_iter": 2000}
    model = LogisticRegression(**penalty) if who == "scikit-learn" else ef.EF21Classifier(n_clients=clients, l2=l2)
    begin = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(A[~held], y[~held])
    p = model.predict_proba(A[held])
    return {
        "accuracy": float(np.mean(model.classes_[p.argmax(axis=1)] == y[held])),
        "log loss": float(log_loss(y[held], p, labels=model.classes_)),
        "processor seconds": time.process_time() - begin,
        "peak MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "rounds": int(np.max(model.n_iter_)),
    }


def apart(job: str, options: list[str]) -> dict[str, Any]:
    """In a process of its own."""
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, __file__, "--job", job, *options]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--file", default="news20.bz2")
    words.add_argument("--clients", type=int, default=100)
    words.add_argument("--l2", type=float, default=1e-4)
    words.add_argument("--job", choices=["gradient", "scikit-learn", "ours"], help=argparse.SUPPRESS)
    asked = words.parse_args()
    given = (asked.file, asked.clients, asked.l2)
    if asked.job:
        print(json.dumps(gradient(*given) if asked.job == "gradient" else fit(asked.job, *given)))
        return
    options = ["--file", asked.file, "--clients", str(asked.clients), "--l2", str(asked.l2)]
    print("gradient", apart("gradient", options))
    theirs, ours = apart("scikit-learn", options), apart("ours", options)
    for name, value in theirs.items():
        print(f"{name}: {ours[name]:.5g}, scikit-learn {value:.5g}, ratio {ours[name] / value:.3g}")


if __name__ == "__main__":
    main()
