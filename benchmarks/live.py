"""What a live page costs a run that it follows: the time of a round with it, an open page asking, over that without.

Time is that of the processor, with the thread that answers the page counted in: what it takes, it takes from the run. Runs
alternate, so that a busy machine slows both; the ratio is that of the fastest, printed with the spread over pairs. The
page's questions are asked by another process, as a browser does. Promise: at most 1.01.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time

import numpy as np

import errorfeedback as ef

ASKING = """if True:
    import json, sys, time
    from urllib.request import urlopen
    seen = 0
    while True:
        seen = json.loads(urlopen(f"{sys.argv[1]}rows?since={seen}").read())["next"]
        time.sleep(1)
"""


def seconds_per_round(problem, rounds, watch):
    begin = time.process_time()
    ef.solve(problem, ef.EF21(ef.TopK(1)), ef.RareFeatures(), rounds=rounds, metrics=False, watch=watch)
    return (time.process_time() - begin) / rounds


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--rounds", type=int, default=10_000)
    words.add_argument("--repeats", type=int, default=15)
    given = words.parse_args()
    problem = ef.synthetic(n=300, d=1000, m=12, c=5)
    seconds_per_round(problem, 10, None)
    plain, followed = [], []
    with ef.LivePage(clients=problem.n) as live:
        page = subprocess.Popen([sys.executable, "-c", ASKING, live.url])
        try:
            for _ in range(given.repeats):
                plain.append(seconds_per_round(problem, given.rounds, lambda row: None))
                followed.append(seconds_per_round(problem, given.rounds, live))
        finally:
            page.kill()
            page.wait()
        row, begin = live.rows[-1], time.process_time()
        for _ in range(10_000):
            live(row)
        append, begin = (time.process_time() - begin) / 10_000, time.process_time()
        for _ in range(20):
            live.answer(0)
        answer = (time.process_time() - begin) / 20
    ratios = np.array(followed) / plain
    print(f"a round: {min(plain) * 1e6:.1f} us, followed by a page: {min(followed) * 1e6:.1f} us")
    print(f"ratio of the fastest: {min(followed) / min(plain):.4f}; of pairs: median {np.median(ratios):.4f}, ", end="")
    print(f"quartiles {np.quantile(ratios, 0.25):.4f} to {np.quantile(ratios, 0.75):.4f}")
    share = append / min(plain) + answer
    print(f"parts: {append * 1e9:.0f} ns a row, {answer * 1e3:.2f} ms a second: {1 + share:.4f} where all rounds are rows")


if __name__ == "__main__":
    main()
