"""What a live page costs a run that it follows: processor time of a round with it over that without. Promise: at most 1.01.

Both are measured within one run, in blocks of rounds that take about a second each: none, page, page, none, ... In every
block of the page another process asks for its rows once, as an open page does every second. Time is that of this process's
processor, with the thread that answers counted in: what it takes, it takes from the run, and what other programs take of the
machine is not counted. Neighbouring blocks make a pair; the ratio is the median over the pairs, and its interval is that of
order statistics, which assumes nothing about how times are spread (the median of pairs lies in it with 95%).
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
SECONDS = 1.0
"""Of a block: how often an open page asks."""
BLOCKS = 5
"""Of a run."""
ASKING = """if True:
    import sys
    from urllib.request import urlopen
    for line in sys.stdin:
        urlopen(line.strip()).read()
"""


class Alternating:
    """A watcher that is a live page in some blocks of rounds, and keeps the processor time of each block. The first block
    gives the page its first rows, and is no part of a pair."""

    def __init__(self, live, page, block):
        self.live, self.page, self.block = live, page, block
        self.watchers, self.seconds = [live, ignore, live, live, ignore], []
        self.turn()

    def __call__(self, row):
        self.watch(row)
        self.left -= 1
        if not self.left:
            self.seconds.append(time.process_time() - self.begin)
            self.turn()

    def turn(self):
        """The next block; in those of the page, its question for the rows of a second goes out at once."""
        self.watch = self.watchers.pop(0) if self.watchers else ignore
        if self.watch is self.live:
            self.page.stdin.write(f"{self.live.url}rows?since={len(self.live.rows) - self.block}\n")
            self.page.stdin.flush()
        self.left, self.begin = self.block, time.process_time()

    def ratios(self):
        _, none, first, second, again = self.seconds
        return [first / none, second / again]


def ignore(row):
    pass


def run(problem, rounds, watch):
    return ef.solve(problem, ef.EF21(ef.TopK(1)), ef.RareFeatures(), rounds=rounds, metrics=False, watch=watch)


def rounds_of_a_block(problem):
    """As many as take a second."""
    run(problem, 10, ignore)
    begin = time.process_time()
    run(problem, 2000, ignore)
    return round(2000 * SECONDS / (time.process_time() - begin))


def interval(ratios):
    """Order statistics between which the median lies with at least 95%."""
    below = int(binom.ppf(0.025, len(ratios), 0.5))
    ordered = np.sort(ratios)
    return ordered[max(below - 1, 0)], ordered[min(len(ratios) - below, len(ratios) - 1)]


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--pairs", type=int, default=60, help="Even: every run has two.")
    given = words.parse_args()
    problem = ef.synthetic(n=300, d=1000, m=12, c=5)
    block, ratios, plain = rounds_of_a_block(problem), [], []
    with ef.LivePage(clients=problem.n) as live:
        page = subprocess.Popen([sys.executable, "-c", ASKING], stdin=subprocess.PIPE, text=True)
        try:
            for _ in range(given.pairs // 2):
                live.rows.clear()
                watch = Alternating(live, page, block)
                run(problem, BLOCKS * block, watch)
                ratios += watch.ratios()
                plain += [watch.seconds[1] / block, watch.seconds[-1] / block]
        finally:
            page.kill()
            page.wait()
    low, high = interval(ratios)
    print(f"a round: {np.median(plain) * 1e6:.1f} us; {len(ratios)} pairs of {block} rounds")
    print(f"with a page over without: {np.median(ratios):.4f}, 95% between {low:.4f} and {high:.4f}; promise: {PROMISE}")
    if low > PROMISE:
        sys.exit("the promise does not hold")
    print("it holds" if high <= PROMISE else "not shown: more --pairs narrow the interval")


if __name__ == "__main__":
    main()
