"""Before a verb works: what would fail at its end fails now, before anything is read, imported or computed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import NoReturn

import typer

from errorfeedback.extras import how_to_get, installed

ROOM = 20_000_000
"""Bytes that a disk must have free: a page has 5 MB of plotly in it, a model and its history a few more."""
LAUNCHERS = (
    ("PMI_SIZE", "PMI_RANK"),  # MPICH, Intel MPI, srun
    ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"),  # Open MPI
    ("MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK"),  # MVAPICH
)


def begin(
    *,
    folders: Sequence[Path | None] = (),
    files: Sequence[Path | None] = (),
    pages: bool = False,
    shared: bool = False,
    share_by: str = "",
) -> None:
    """Check that the folders and files can be written (None: not asked for), and say so where the pages cannot.

    shared: the ranks of mpiexec share the work; share_by: the option that says so, where the verb has one.
    """
    ranks, rank = _job()
    if ranks > 1 and not shared:
        _refuse(ranks, rank, share_by)
    if rank:
        return  # rank 0 alone writes and speaks
    for path in folders:
        if path is not None:
            _writable(path, path)
    for path in files:
        if path is not None:
            _writable_file(path)
    if pages and not installed("plotly"):
        typer.echo(f"No page will be written, everything else will: pages need plotly ({how_to_get('plotly')}).", err=True)


def _job() -> tuple[int, int]:
    """How many processes an MPI launcher has started, and which of them this is."""
    for size, rank in LAUNCHERS:
        if size in os.environ:
            return int(os.environ[size]), int(os.environ.get(rank, "0"))
    return 1, 0


def _refuse(ranks: int, rank: int, share_by: str) -> NoReturn:
    if rank:  # one sentence is enough; with another exit code this rank could end the job before rank 0 has spoken
        raise typer.Exit(0)
    rule = f"add {share_by} to share the work, or start it without mpiexec" if share_by else "start it without mpiexec"
    raise ValueError(f"mpiexec started {ranks} processes, and each would do the whole job and write the same files; {rule}")


def _writable_file(path: Path) -> None:
    if path.is_dir():
        raise ValueError(f"{path} is a folder; name a file")
    if path.exists() and not os.access(path, os.W_OK):
        raise ValueError(f"{path} is there already and cannot be written; name another file or change its permissions")
    _writable(path.parent, path)


def _writable(folder: Path, asked: Path) -> None:
    """Try to write where the folder is or will be made."""
    place = next(each for each in (folder, *folder.absolute().parents) if each.exists())
    if not place.is_dir():
        raise ValueError(f"{asked} cannot be written: {place} is a file, not a folder; name another place")
    try:
        TemporaryFile(dir=place).close()
    except OSError as error:
        raise ValueError(f"{asked} cannot be written: {place}: {error.strerror}; name another place") from error
    free = shutil.disk_usage(place).free
    if free < ROOM:
        raise ValueError(f"{asked}: its disk has {free / 1e6:.1f} MB free; make room for {ROOM / 1e6:.0f} MB first")
