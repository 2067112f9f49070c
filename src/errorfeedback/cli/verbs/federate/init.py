"""`errorfeedback federate init DIR`: all that a site needs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from errorfeedback.cli.verbs._begin import begin
from errorfeedback.extras import require


def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder that is made.")],
    nodes: Annotated[int, typer.Option(min=1, help="How many nodes there will be.")] = 3,
    port: Annotated[int, typer.Option(min=1, max=65535, help="Of the SuperLink.")] = 9092,
) -> None:
    """Write the apps of a federation, their configuration, keys for a trial on one machine, and how to start it."""
    begin(folders=[folder])
    require("cryptography", "federate init")
    from errorfeedback.cli.federate import init as work

    work(folder, nodes, port)
