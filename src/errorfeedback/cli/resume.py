"""`errorfeedback resume FOLDER`: finish a run from its last checkpoint."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import numpy as np
from rich.console import Console

from errorfeedback.cli._data import with_timeout
from errorfeedback.cli._kept import FILE, kept
from errorfeedback.cli.train import train
from errorfeedback.cli.verbs._begin import begin
from errorfeedback.engines.local import Local
from errorfeedback.engines.mpi import MPI
from errorfeedback.engines.threads import Threads
from errorfeedback.runtime.resuming import resume as go_on
from errorfeedback.runtime.solve import Result


def resume(folder: Path, *, threads: int, mpi: bool, timeout: float | None) -> None:
    """Finish a run from its last checkpoint, bit for bit as if it had never stopped: a run of `train` ends as `train` does,
    and one of ef.solve with x.npy and history.csv."""
    logging.basicConfig(format="%(message)s")
    engine = with_timeout(MPI() if mpi else Local() if threads == 1 else Threads(threads), timeout)
    if (folder / FILE).exists():
        options, command = kept(folder)
        begin(folders=[options.out], pages=True, shared=mpi)
        train(replace(options, checkpoint=folder), engine, command)
        return
    with engine.guard():
        result = go_on(folder, engine=engine)
    if engine.leads:
        _write(folder, result)


def _write(folder: Path, result: Result) -> None:
    np.save(folder / "x.npy", result.x)
    columns = list(result.history)
    lines = zip(*(result.history[name].tolist() for name in columns), strict=True)
    table = "\n".join([",".join(columns), *(",".join(map(repr, line)) for line in lines)])
    (folder / "history.csv").write_text(table + "\n")
    last = {name: result.history[name][-1] for name in ("f", "grad_norm2", "uplink_bits")}
    values = ", ".join(f"{name} = {value:.6g}" for name, value in last.items())
    Console().print(f"{result.stopped}: {values}. Written: {folder / 'x.npy'}, {folder / 'history.csv'}", soft_wrap=True)
