"""What the sharper rules gain, what the theorems predict, and what a run needs: four tables in Markdown.

    ERRORFEEDBACK_DATA=... python benchmarks/gains.py [--rounds 20000] [--epsilon 0.1] [--only gammas|rounds|few|sketch]

Table 1: gamma of every rule relative to EF21's published step (K/d, L_tilde). Table 2: rounds until the mean of ||grad
f||^2 is
below epsilon ||grad f(0)||^2, predicted by the best rule's theorem and measured; the same goal for ||grad f||^2 itself
with EF21 at
GD's 1/L and with GD; EF21 with the best S0 against GD, in bits. Table 3: every number in few bits
against GD, promised and measured, in bits. Table 4: the sketched c^t against the exact one.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator

import numpy as np

import errorfeedback as ef
from errorfeedback.planner.common import Search, best_common, powers_of_two
from errorfeedback.planner.plan import Option, origin, plan
from errorfeedback.planner.plans import few_bits_for
from errorfeedback.problems.base import Problem
from errorfeedback.runtime.solve import Result
from errorfeedback.stepsizes.best import rules

RULES = ("RareFeatures", "ExactRoot", "Weighted", "Convex", "Spectral")
DATA = ("a9a", "phishing", "mushrooms", "w5a")
CLIENTS, EVERY = 300, 10


def synthetic(c: int, penalty: bool) -> Problem:
    problem = ef.synthetic(n=100, d=500, m=12, c=c)
    if not penalty:
        return problem
    return ef.synthetic(n=100, d=500, m=12, c=c, regularizer=ef.NonconvexPenalty(3 * ef.analyse(problem).L_max))


def data(name: str) -> Problem:
    A, y = ef.load(name)
    return ef.logistic(A, y, ef.Shuffled(CLIENTS), intercept=True)


def problems() -> Iterator[tuple[str, Problem]]:
    for penalty, kind in ((False, "convex"), (True, "non-convex")):
        for c in (5, 50, 90):
            yield f"synthetic c/n = 0.{c:02d}, {kind}", synthetic(c, penalty)
    for name in DATA:
        yield name, data(name)


def table(title: str, head: list[str], rows: Iterator[list[str]]) -> None:
    print(f"\n{title}\n")
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(row) + " |", flush=True)


def gammas(options: argparse.Namespace) -> None:
    def rows() -> Iterator[list[str]]:
        for name, problem in problems():
            theory, method = ef.analyse(problem, ef.TopK(1)), ef.EF21(ef.TopK(1))
            base = ef.EF21Standard().gamma(theory)
            found = {type(rule).__name__: rule for rule in rules(method)}
            cells = ["-" if found[r].missing(theory) else f"{found[r].gamma(theory) / base:.3g}" for r in RULES]
            yield [
                name,
                f"{base:.3g}",
                *cells,
                ef.Best().choose(theory, method).rule.__class__.__name__,
                f"{1 / theory.L / base:.4g}",
            ]

    table("gamma relative to the published EF21 step (Top1)", ["problem", "published", *RULES, "best", "1/L"], rows())


def first(hits: np.ndarray, rounds: np.ndarray) -> str:
    return f"{rounds[np.flatnonzero(hits)[0]]:,}" if hits.any() else f"> {rounds[-1]:,}"


def run(problem: Problem, method: ef.methods.base.Method, rule: ef.StepSize, rounds: int) -> Result:
    return ef.solve(problem, method, rule, rounds=rounds, every=EVERY)


def rounds_table(options: argparse.Namespace) -> None:
    def rows() -> Iterator[list[str]]:
        for name, problem in problems():
            start = origin(problem, options.epsilon)
            option = Option("EF21", ef.EF21(ef.TopK(1), "gradient"))
            theory = ef.analyse(problem, ef.TopK(1))
            promised = plan(theory, option, ef.Best(), start)
            result = run(problem, option.method, ef.Best(), min(promised.rounds, options.rounds))
            grad2, rounds = result.history["grad_norm2"], result.history["round"]
            mean = np.cumsum(grad2) / np.arange(1, len(grad2) + 1)
            bold = run(problem, ef.EF21(ef.TopK(1)), ef.Constant(1 / theory.L), options.short).history
            gd = run(problem, ef.DGD(), ef.InverseL(), options.short).history
            yield [
                name,
                f"{promised.rounds:,}",
                first(mean <= start.epsilon, rounds),
                first(grad2 <= start.epsilon, rounds),
                result.certificate.verdict,
                first(bold["grad_norm2"] <= start.epsilon, bold["round"]),
                first(gd["grad_norm2"] <= start.epsilon, gd["round"]),
            ]

    head = [
        "problem",
        "promised",
        "measured (mean)",
        "measured (first)",
        "certificate",
        "EF21 Top1 at 1/L (first)",
        "GD (first)",
    ]
    table(f"rounds to {options.epsilon:g} of the first ||grad f||^2 (every {EVERY}th round is looked at)", head, rows())
    exact(options)


def exact(options: argparse.Namespace) -> None:
    """EF21 with the best S0 against GD, in bits up per client."""

    def rows() -> Iterator[list[str]]:
        for name in DATA:
            problem = data(name)
            start = origin(problem, options.epsilon)
            levels = powers_of_two(problem.support.r)
            chosen = min(best_common(problem, levels, start, down=0.0), key=lambda p: p.up_bits)
            gd_plan = plan(ef.analyse(problem), Option("DGD", ef.DGD()), ef.InverseL(), start)
            method = Search(problem, start).option(chosen.exact_features, chosen.k or 1).method
            ours, gd = run(problem, method, ef.Best(), options.short), run(problem, ef.DGD(), ef.InverseL(), options.short)
            bits = [_bits_to(r, start.epsilon) / problem.n / 8e6 for r in (ours, gd)]
            yield [
                name,
                chosen.method,
                chosen.rule,
                f"{chosen.up_bits / gd_plan.up_bits:.3f}",
                f"{bits[0]:.3f} MB",
                f"{bits[1]:.3f} MB",
                f"{bits[0] / bits[1]:.3f}",
                ours.certificate.verdict,
            ]

    head = [
        "data",
        "plan",
        "rule",
        "bits / GD's, promised",
        "up per client",
        "GD up per client",
        "bits / GD's, measured",
        "certificate",
    ]
    table(f"exact on common against GD, to {options.epsilon:g} of the first ||grad f||^2", head, rows())


def few(options: argparse.Namespace) -> None:
    """EF21 with every number in few bits against GD."""

    def rows() -> Iterator[list[str]]:
        for name in DATA:
            problem = data(name)
            start = origin(problem, options.epsilon)
            gd_plan = plan(ef.analyse(problem), Option("DGD", ef.DGD()), ef.InverseL(), start)
            gd = ef.solve(problem, ef.DGD(), ef.InverseL(), rounds=options.few_rounds)
            for label, compressor in few_bits_for(problem.support).items():
                method, theory = ef.EF21(compressor, "compressed"), ef.analyse(problem, compressor)
                promised = plan(theory, Option(label, method), ef.Best(), start)
                ours = ef.solve(problem, method, ef.Best(), rounds=options.few_rounds)
                bits = [_bits_to(result, start.epsilon) for result in (gd, ours)]
                yield [
                    name,
                    label,
                    f"{theory.alpha:.4f}",
                    ours.history.notes[0].split(":")[0],
                    f"{promised.rounds / gd_plan.rounds:.3f}",
                    f"{gd_plan.up_bits / promised.up_bits:.2f}",
                    f"{gd_plan.total_bits / promised.total_bits:.2f}",
                    f"{bits[0] / bits[1]:.2f}",
                    ours.certificate.verdict,
                ]

    head = [
        "data",
        "EF21 with",
        "alpha",
        "rule",
        "rounds / GD's, promised",
        "GD's bits up / ours, promised",
        "up and down, promised",
        "up, measured",
        "certificate",
    ]
    table(f"few bits against GD, to {options.epsilon:g} of the first ||grad f||^2", head, rows())


def _bits_to(result: Result, epsilon: float) -> float:
    h = result.history
    hit = np.flatnonzero(h["grad_norm2"] <= epsilon)
    return float(h["payload_bits"][hit[0]]) if len(hit) else float("nan")


def seen_c(gamma: np.ndarray, theory: ef.Theory) -> np.ndarray:
    """The c^t that a gamma of the adaptive rule was made from."""
    q = (1 / gamma - theory.L) / theory.xi
    small = np.sqrt(np.maximum(q, 0) / theory.L_max)
    root = np.where(small * theory.L_max <= theory.L_tilde, small, q / theory.L_tilde)
    return theory.n * root**2


def sketch(options: argparse.Namespace) -> None:
    def rows() -> Iterator[list[str]]:
        for name in DATA:
            problem = data(name)
            theory = ef.analyse(problem, ef.TopK(1))
            for size in (0, 4, 16, 64):
                rule = ef.Adaptive(sketch=size)
                h = ef.solve(problem, ef.EF21(ef.TopK(1)), rule, rounds=options.sketch_rounds).history
                estimate, truth = seen_c(h["gamma"][2:], theory), h["c_t"][1:-1]
                error = np.abs(estimate / truth - 1)
                yield [
                    name,
                    str(size) if size else "exact",
                    f"{np.median(error):.1%}" if size else "-",
                    f"{np.quantile(error, 0.9):.1%}" if size else "-",
                    f"{np.exp(np.mean(np.log(h['gamma'][2:]))):.4g}",
                    f"{h['f'][-1]:.5f}",
                    f"{h['grad_norm2'][-1]:.3g}",
                    f"{h['payload_bits'][-1] / problem.n / options.sketch_rounds / 8:.1f}",
                ]

    head = [
        "data",
        "s",
        "median error of c^t",
        "90% error",
        "mean gamma",
        "f at the end",
        "squared gradient norm",
        "bytes up per client and round",
    ]
    table(f"the sketched c^t, {options.sketch_rounds:,} rounds of EF21 + Top1", head, rows())


TABLES: dict[str, Callable[[argparse.Namespace], None]] = {
    "gammas": gammas,
    "rounds": rounds_table,
    "few": few,
    "sketch": sketch,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20_000, help="rounds of a measured run, at most")
    parser.add_argument("--short", type=int, default=2_000, help="rounds of runs with steps near 1/L")
    parser.add_argument("--few-rounds", type=int, default=200, help="rounds of the measured runs in few bits")
    parser.add_argument("--sketch-rounds", type=int, default=5_000)
    parser.add_argument("--epsilon", type=float, default=1e-1)
    parser.add_argument("--only", choices=TABLES)
    options = parser.parse_args()
    for name, make in TABLES.items():
        if options.only in (None, name):
            make(options)


if __name__ == "__main__":
    main()
