"""The race that users run: total bytes, rounds, and time on four links, us against the best peers, in tables and a figure.

    ERRORFEEDBACK_DATA=... python benchmarks/race.py [--data a9a clicks] [--methods errorfeedback L-BFGS] [--level 1e-3]
        [--seeds 0 1 2] [--partition by-label] [--clients 50] [--quick] [--out race.json] [--figure docs/race.png]

The objective is the mean logistic loss over all rows + (1e-4/2)||x||^2, with the intercept penalised too: one for all
(`racing/objective.py`). Values of 8 bytes, a client sends and gets its features only, 4 bytes of head per message, 8 bytes
for a loss (`racing/books.py`). Peers choose their settings in hindsight, we do not (`racing/contest.py`). With several
seeds (which deal the rows, and make the natural data) cells are medians. `--from race.json` shows what was
measured before, and runs the methods that are named, and only them, again.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from racing import figure, records
from racing.contest import LEVELS, METHODS, QUANTITIES, race
from racing.data import DATA, PARTITIONS, problem
from racing.tables import Needs, summary, table

QUICK = ("phishing", "mushrooms", "clicks")


def measured(options: argparse.Namespace, data: dict[str, Any]) -> dict[str, Any]:
    """`data` and everything that was asked for beside it; data sets that are not here are skipped."""
    for name in options.data:
        for seed in options.seeds or [int(key) for key in data.get(name, {"0": None})]:
            try:
                objective = problem(name, seed=seed, partition=options.partition, n=options.clients)
            except FileNotFoundError as error:
                print(f"\n{name} is skipped: {error}", flush=True)
                break
            found = data.setdefault(name, {}).setdefault(str(seed), {"methods": {}})
            if "facts" in found:
                objective = replace(objective, solved=found["facts"]["f*"])
            found["facts"] = records.facts(objective)
            for method in options.methods:
                outcome = race(objective, method, min(options.level), share=0.1 if options.quick else 1.0)
                found["methods"][method] = records.of(objective, outcome, options.level)
                print(f"{name}, seed {seed}: {method} took {outcome.seconds:.1f} s", file=sys.stderr, flush=True)
            write(options, data)
        if name in data:
            print(told(name, data[name], options.level), flush=True)
    return record(options, data)


def record(options: argparse.Namespace, data: dict[str, Any]) -> dict[str, Any]:
    settings = {"levels": options.level, "partition": options.partition, "clients": options.clients, "quick": options.quick}
    return {"settings": settings, "data": data}


def write(options: argparse.Namespace, data: dict[str, Any]) -> None:
    if options.out is not None:
        options.out.write_text(json.dumps(record(options, data)) + "\n")


def medians(found: dict[str, Any], level: float) -> Needs:
    """What every method needs, the median over seeds; infinity where a run is not there."""

    def median(method: str, quantity: str) -> float:
        needs = [each["methods"][method]["needs"][f"{level:g}"][quantity] for each in found.values()]
        return float(np.median([np.inf if need is None else need for need in needs]))

    raced = next(iter(found.values()))["methods"]
    return {method: {q: median(method, q) for q in QUANTITIES} for method in METHODS if method in raced}


def told(name: str, found: dict[str, Any], levels: list[float]) -> str:
    """The tables of one data set."""
    facts = next(iter(found.values()))["facts"]
    about = ", ".join(f"{key} {value:,.6g}" for key, value in facts.items())
    parts = [f"\n## {name}: {about}; {len(found)} seed{'s' * (len(found) > 1)}"]
    for level in levels:
        parts += [
            f"\nTo a relative gap of {level:g} (per client; seconds on up/down/latency):\n",
            table(medians(found, level)),
        ]
    return "\n".join(parts)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--data", nargs="+", choices=DATA, help="by default all but those that want their name; with --from those raced then"
    )
    parser.add_argument("--methods", nargs="+", choices=METHODS, help="by default all; with --from none are run again")
    parser.add_argument("--level", nargs="+", type=float, default=list(LEVELS))
    parser.add_argument("--seeds", nargs="+", type=int, help="by default 0; with --from those raced then")
    parser.add_argument("--partition", choices=PARTITIONS, help="natural where the data has clients, otherwise shuffled")
    parser.add_argument("--clients", type=int)
    parser.add_argument("--quick", action="store_true", help="three data sets and a tenth of the exchanges")
    parser.add_argument("--out", type=Path, help="a JSON with everything")
    parser.add_argument("--figure", type=Path, help="a PNG")
    parser.add_argument("--from", dest="source", type=Path, help="the JSON of an earlier race")
    options = parser.parse_args()
    if options.methods is None:
        options.methods = [] if options.source else list(METHODS)
    if options.data is None and options.source is None:
        options.data = list(QUICK) if options.quick else [name for name, entry in DATA.items() if not entry.by_name]
    return options


def main() -> None:
    options = parsed()
    found = {"data": {}} if options.source is None else json.loads(options.source.read_text())
    if options.source is not None:
        settings = found["settings"]
        options.level, options.partition, options.clients = (settings[key] for key in ("levels", "partition", "clients"))
        options.quick = settings["quick"]
        options.data = list(found["data"]) if options.data is None else options.data
        if not options.methods:
            found["data"] = {name: each for name, each in found["data"].items() if name in options.data}
    if options.methods:
        found = measured(options, found["data"])
    else:
        print("\n".join(told(name, each, options.level) for name, each in found["data"].items()))
    for level in options.level:
        print(f"\n## Us against the best peer, to {level:g}\n")
        print(summary({name: medians(each, level) for name, each in found["data"].items()}))
    if options.figure is not None and found["data"]:
        figure.draw(found, options.figure, str((options.seeds or [0])[0]))


if __name__ == "__main__":
    main()
