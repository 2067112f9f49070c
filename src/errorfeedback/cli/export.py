"""`errorfeedback export run/ --to sklearn`: a trained model for others to use."""

from __future__ import annotations

from pathlib import Path

import typer

from errorfeedback.exports.exporting import export as write


def export(run: Path, to: str, out: Path | None) -> None:
    """Write the model as `to`, and say where."""
    typer.echo(f"Written: {write(run, to, out)}")
