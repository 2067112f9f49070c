"""`errorfeedback federate try DATA --nodes 3 --out run/`: a whole federation on this machine."""

from __future__ import annotations

from typing import Annotated

import typer

from errorfeedback.cli.verbs._begin import begin
from errorfeedback.cli.verbs._inputs import with_options
from errorfeedback.cli.verbs._training import Training
from errorfeedback.extras import require

PATH = "stream (a TLS connection of our own frames from every node), or messages (all inside Flower's)."


DEADLINE = "Seconds that a node has for a round, after which it counts as absent; 0: every node is waited for."


@with_options
def try_(
    options: Training,
    nodes: Annotated[int, typer.Option(min=1, help="SuperNodes, each with the files of its own clients.")] = 3,
    path: Annotated[str, typer.Option(help=PATH)] = "stream",
    deadline: Annotated[float, typer.Option(min=0.0, help=DEADLINE)] = 0.0,
    quorum: Annotated[int, typer.Option(min=0, help="Nodes that must answer a round; 0: more than half of them.")] = 0,
) -> None:
    """Deal the data to nodes and train with them: a SuperLink and SuperNodes as processes, with TLS and keys, on loopback.

    The model is that of `train`, bit for bit; the report says what crossed. Every process ends with the command.
    """
    begin(folders=[options.out, options.checkpoint], pages=True)
    require("flwr", "federate try")
    from errorfeedback.cli.federate import try_ as work

    work(options, nodes, path, deadline, quorum)
