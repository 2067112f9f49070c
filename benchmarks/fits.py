"""Fits of two classes with everything by default: `EF21Classifier` against scikit-learn's LogisticRegression (lbfgs) with
the same penalty, on the same rows: processor time, in turns, and what both say of rows that were held out.

    ERRORFEEDBACK_DATA=... OPENBLAS_NUM_THREADS=1 python benchmarks/fits.py [--data a9a w5a] [--clients 300] [--turns 9]
        [--seeds 0 1 2]

Times are ratios of the least and of the medians, over the turns of the first seed, everything by default. Scores are
differences in points (log loss: hundredths) to scikit-learn's minimum (tol=1e-8), the largest over the seeds, which hold
out other fifths.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np
from racing.data import DATA
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score

import errorfeedback as ef

HELD_OUT = 0.2
SETS = ("phishing", "a9a", "mushrooms", "w5a", "rcv1", "news20")


def models(clients: int, rows: int) -> tuple[ef.EF21Classifier, LogisticRegression]:
    ours = ef.EF21Classifier(n_clients=min(clients, rows))
    return ours, LogisticRegression(C=1 / (ours.l2 * rows), max_iter=10_000)


def fitted(model: Any, A: sparse.csr_array, y: np.ndarray) -> float:
    """Seconds of processor time."""
    begin = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(A, y)
    return time.process_time() - begin


def scores(model: Any, A: sparse.csr_array, y: np.ndarray) -> np.ndarray:
    """Accuracy, AUC and log loss, in hundredths."""
    p = model.predict_proba(A)[:, 1]
    second = y == model.classes_[1]
    return 100 * np.array([np.mean((p > 0.5) == second), roc_auc_score(second, p), log_loss(second, p)])


def compared(name: str, clients: int, turns: int, seeds: list[int]) -> list[str]:
    A, y, _ = DATA[name].load(0)
    apart, seconds, rounds = [], [], 0
    for seed in seeds:
        held = np.random.default_rng(seed).random(len(y)) < HELD_OUT
        train, test = (A[~held], y[~held]), (A[held], y[held])
        both = models(clients, int((~held).sum()))
        for turn in range(1 + turns if seed == seeds[0] else 1):
            taken = [fitted(model, *train) for model in both]
            seconds += [taken] if turn else []  # the first one compiles kernels
        rounds = max(rounds, int(both[0].n_iter_))
        fitted(both[1].set_params(tol=1e-8), *train)
        ours, theirs = (scores(model, *test) for model in both)
        apart.append(ours - theirs)
    far = np.array(apart)[np.abs(apart).argmax(axis=0), range(3)]
    (least, lowest), (middle, median) = np.min(seconds, axis=0), np.median(seconds, axis=0)
    times = [f"{1e3 * middle:,.0f}", f"{1e3 * median:,.0f}", f"{least / lowest:.2f}", f"{middle / median:.2f}"]
    return [name, str(rounds), *times, *(f"{each:+.3f}" for each in far)]


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--data", nargs="+", choices=SETS, default=list(SETS))
    words.add_argument("--clients", type=int, default=300)
    words.add_argument("--turns", type=int, default=9)
    words.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    asked = words.parse_args()
    print("| data | rounds | ours, ms | lbfgs, ms | ratio: least | medians | accuracy | AUC | log loss |")
    print("|---" * 9 + "|", flush=True)
    for name in asked.data:
        print(f"| {' | '.join(compared(name, asked.clients, asked.turns, asked.seeds))} |", flush=True)


if __name__ == "__main__":
    main()
