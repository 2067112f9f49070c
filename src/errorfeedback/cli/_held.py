"""`--valid`: a share of the rows, or a file."""

from __future__ import annotations

from pathlib import Path

from errorfeedback.cli._inputs import has_classes
from errorfeedback.cli.verbs._training import Training


def share_of(valid: str | None) -> float | None:
    """--valid 0.2; None where it names a file."""
    if valid is None or Path(valid).exists():
        return None
    try:
        return float(valid)
    except ValueError:
        return None


def how_drawn(options: Training) -> str:
    """How the held-out rows were drawn."""
    if share_of(options.valid) is None:
        return f"--valid {options.valid}"
    groups = "class and client" if has_classes(options) else "client"
    return f"--valid {options.valid}, drawn with seed {options.seed} from every {groups}"
