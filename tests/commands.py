"""The command line, called in this process."""

from __future__ import annotations

from typer.testing import CliRunner

from errorfeedback.cli.app import app


def call(*words):
    return CliRunner().invoke(app(), [str(word) for word in words])


def plain(done):
    """What was printed, without the box around an error and its line breaks."""
    return " ".join(done.output.replace("│", " ").split())
