"""What a live page costs a run that it follows: processor time of a round with it over that without. Promise: at most 1.01.

A run pays twice: for handing over every row, and, once a second, for the thread that answers the page's question.

- Rows: within one run, blocks of some 25 ms alternate: none, page, page, none. Neighbours make a pair, and the ratio is the
  median over all pairs, with the interval of order statistics, in which the median lies with 95% however times are spread.
- Questions: another process asks for the rows of a second, as an open page does, while the run stands; what this process
  spends on an answer, it takes from every second of a run.

Time is that of this process's processor, so that other programs on the machine disturb but are not counted; short blocks see
the same disturbance on both sides.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time

import numpy as np
from scipy.stats import binom

import errorfeedback as ef

PROMISE = 1.01
BLOCK, BLOCKS = 500, 40
"""Rounds of a block, and blocks of a run."""
QUESTIONS = 20
ASKING = """if True:
    import sys
    from urllib.request import urlopen
    for _ in range(int(sys.argv[2])):
        urlopen(sys.argv[1]).read()
"""


class Alternating:
    """A watcher that is a live page in every second pair of blocks, and keeps the processor time of each block."""

    def __init__(self, live):
        self.watchers, self.seconds = [ignore, live, live, ignore] * (BLOCKS // 4), []
        self.turn()

    def __call__(self, row):
        self.watch(row)
        self.left -= 1
        if not self.left:
            self.seconds.append(time.process_time() - self.begin)
            self.turn()

    def turn(self):
        self.watch = self.watchers.pop(0) if self.watchers else ignore
        self.left, self.begin = BLOCK, time.process_time()

    def pairs(self):
        """(without, with) a page."""
        first, page, again, last = np.reshape(self.seconds, (-1, 4)).T
        return np.concatenate([np.column_stack([first, page]), np.column_stack([last, again])])


def ignore(row):
    pass


def run(problem, rounds, watch):
    return ef.solve(problem, ef.EF21(ef.TopK(1)), ef.RareFeatures(), rounds=rounds, metrics=False, watch=watch)


def interval(ratios):
    """Order statistics between which the median lies with at least 95%."""
    below = int(binom.ppf(0.025, len(ratios), 0.5))
    ordered = np.sort(ratios)
    return ordered[max(below - 1, 0)], ordered[min(len(ratios) - below, len(ratios) - 1)]


def seconds_of_an_answer(live, rows):
    """Processor time of this process for one question after that many rows."""
    since = len(live.rows) - rows
    begin = time.process_time()
    subprocess.run([sys.executable, "-c", ASKING, f"{live.url}rows?since={since}", str(QUESTIONS)], check=True)
    return (time.process_time() - begin) / QUESTIONS


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--runs", type=int, default=60, help=f"Of {BLOCKS // 2} pairs each.")
    given = words.parse_args()
    problem = ef.synthetic(n=300, d=1000, m=12, c=5)
    run(problem, 10, ignore)
    pairs = []
    with ef.LivePage(clients=problem.n) as live:
        for _ in range(given.runs):
            live.rows.clear()
            watch = Alternating(live)
            run(problem, BLOCKS * BLOCK, watch)
            pairs.append(watch.pairs())
        without, followed = np.concatenate(pairs).T
        a_round = float(np.median(without)) / BLOCK
        live.rows += live.rows * int(1 / a_round / len(live.rows))  # those of a second, and more
        answer = seconds_of_an_answer(live, int(1 / a_round))
    low, high = interval(followed / without)
    middle = float(np.median(followed / without))
    print(f"a round: {a_round * 1e6:.1f} us, each of them a row; {len(without)} pairs of {BLOCK} rounds")
    print(f"rows: {middle:.4f}, 95% between {low:.4f} and {high:.4f}; an answer: {answer * 1e3:.2f} ms a second")
    print(f"with a page over without: {middle + answer:.4f}, 95% between {low + answer:.4f} and {high + answer:.4f}")
    if low + answer > PROMISE:
        sys.exit(f"the promise of {PROMISE} does not hold")
    print(
        f"at most {PROMISE}: " + ("it holds" if high + answer <= PROMISE else "not shown; more --runs narrow the interval")
    )


if __name__ == "__main__":
    main()
