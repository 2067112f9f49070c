"""All that `train` is asked for: kept beside a checkpoint, so that `resume` can ask for the same."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from errorfeedback.cli.verbs._inputs import Inputs
from errorfeedback.cli.verbs._words import NETWORK, TIMEOUT

VALID = "Held-out rows: a file, or a share of the data such as 0.2. Stop when their loss has stopped falling."

K = "Numbers that a client sends per round, by TopK, or auto. By default: all, in few bits, with quasi-Newton steps."


@dataclass(frozen=True, kw_only=True)
class Training(Inputs):
    """The data, the objective, and how it is minimised."""

    out: Annotated[Path, typer.Option(help="Folder for the model, the history and the report.")]
    valid: Annotated[str | None, typer.Option(help=VALID)] = None
    k: Annotated[str | None, typer.Option("--k", "-k", help=K)] = None
    budget: Annotated[str, typer.Option(help="Bytes up per client, as in 1MB.")] = ""
    rounds: Annotated[int, typer.Option(min=1, help="At most that many rounds.")] = 2000
    network: Annotated[list[str] | None, typer.Option(help=NETWORK)] = None
    tolerance: Annotated[float, typer.Option(min=0, help="Stop when about that share of all progress is left.")] = 1e-5
    quiet: Annotated[bool, typer.Option("--quiet", help="No live view.")] = False
    live: Annotated[bool, typer.Option("--live", help="Open a page of this machine that follows the run.")] = False
    engine: Annotated[str, typer.Option(help="local, threads (two), mpi (the ranks of mpiexec), or ray (two actors).")] = (
        "local"
    )
    timeout: Annotated[float | None, typer.Option(help=TIMEOUT)] = None
    checkpoint: Annotated[Path | None, typer.Option(help="Folder to write the state to, or to go on from.")] = None
