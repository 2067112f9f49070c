"""A federation's settings in Flower's configuration of a run: plain numbers and texts <-> the options of `train`, and who
may join."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

from errorfeedback.cli._held import share_of
from errorfeedback.cli.verbs._reading import IndexBase
from errorfeedback.cli.verbs._training import Training
from errorfeedback.data.parts import files_of
from errorfeedback.data.reading import Missing
from errorfeedback.federated.federated_plan import PATIENCE
from errorfeedback.federated.loopback import TRAFFIC, Federation

OWN: dict[str, Any] = {"nodes": "", "out": "run", "path": "stream", "host": "127.0.0.1", "port": 0, "patience": PATIENCE}
OWN |= {"checkpoint": "", "checkpoint_seconds": 60.0, "deadline": 0.0, "quorum": 0, "wait": 0.0}
OWN |= {"traffic": "", "command": ""}
"""Keys of a run's configuration beside the options of `train`, with what they are where nobody says so."""
LISTS = {"drop": ",", "only": ",", "text": ",", "number": ",", "network": ";"}
"""Options of `train` that are lists, and what is between two entries."""
READ: dict[str, Callable[[str], Any]] = {"missing": Missing, "index_base": IndexBase, "valid": str}
READ |= {name: partial(str.split, sep=mark) for name, mark in LISTS.items()}
"""Options of `train` that are more than a number or a text."""
ELSEWHERE = ("data", "clients", "groups", "quiet", "engine", "timeout")
"""Options of `train` that a server of nodes has no use for: who has which rows is the nodes' business."""


def config_of(options: Training, federation: Federation, path: str) -> dict[str, Any]:
    """The configuration of a trial's run: what is asked for beside the defaults."""
    counts = {node: len(files_of(str(federation.data(node)))) for node in federation.nodes}
    own = {"nodes": ", ".join(f"{node}: {count}" for node, count in counts.items()), "path": path}
    own |= {"out": str(options.out.absolute())}
    own |= {
        "traffic": str((federation.folder / TRAFFIC).absolute()),
        "command": shlex.join(["errorfeedback", *sys.argv[1:]]),
    }
    own |= {} if options.checkpoint is None else {"checkpoint": str(options.checkpoint.absolute())}
    asked = {f.name: getattr(options, f.name) for f in fields(Training) if f.name not in (*ELSEWHERE, *OWN)}
    if options.valid is not None and share_of(options.valid) is None:
        asked["valid"] = str(Path(options.valid).absolute())
    defaults = {f.name: f.default for f in fields(Training)}
    changed = {name: value for name, value in asked.items() if value != defaults[name] and value is not None}
    return OWN | own | {name: LISTS[name].join(value) if name in LISTS else value for name, value in changed.items()}


def settings_of(config: Mapping[str, Any]) -> tuple[dict[str, Any], Training]:
    """A run's configuration: what is its own, and the options of `train`."""
    given = {name.replace("-", "_"): value for name, value in config.items()}
    own = OWN | {name: value for name, value in given.items() if name in OWN}
    return own, _options({name: value for name, value in given.items() if name not in OWN}, Path(str(own["out"])))


def _options(given: Mapping[str, Any], out: Path) -> Training:
    """The options of `train` in a configuration."""
    known = {f.name for f in fields(Training)} - set(ELSEWHERE) - set(OWN)
    unknown = [name for name in given if name not in known]
    if unknown:
        raise ValueError(f"{', '.join(unknown)}: no such setting; there are {', '.join(sorted(known | set(OWN)))}")
    said = {name: value for name, value in given.items() if value != ""}
    asked = {name: READ[name](value) if name in READ else value for name, value in said.items()}
    return Training(data="nodes", out=out, **asked)


def nodes_of(text: str) -> dict[str, Sequence[Any]]:
    """Which clients every node may have: how many, from "clinic: 3, laboratory: 12", or which, from "clinic: anna | berta,
    laboratory: lab-*".

    >>> nodes_of("clinic: 3, laboratory: 2"), nodes_of("clinic: anna | berta, laboratory: lab-*")
    ({'clinic': range(0, 3), 'laboratory': range(3, 5)}, {'clinic': ['anna', 'berta'], 'laboratory': ['lab-*']})
    """
    nodes: dict[str, Sequence[Any]] = {}
    for part in filter(str.strip, text.split(",")):
        name, _, clients = (word.strip() for word in part.partition(":"))
        if not name or not clients or name in nodes:
            raise ValueError(
                f'nodes = {text!r}; it must be of the form "node-0: 3, node-1: 12": names, and clients of each; or, where '
                'clients are known by their names, "node-0: anna | berta, node-1: lab-*"'
            )
        first = sum(map(len, nodes.values()))
        named = [each.strip() for each in clients.split("|") if each.strip()]
        nodes[name] = range(first, first + int(clients)) if clients.isdigit() else named
    return nodes
