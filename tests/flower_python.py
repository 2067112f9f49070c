"""The Python that has Flower and Ray: this one, or that of an environment of their own (`make test` makes one)."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from errorfeedback.extras import installed

VARIABLE = "ERRORFEEDBACK_FLOWER"
WHY = f"neither this environment nor {VARIABLE} has it: pip install 'errorfeedback[flower,ray]'"


def python_with(package: str) -> str | None:
    """None where nobody has it."""
    named = Path(os.environ.get(VARIABLE, "")).absolute()
    return sys.executable if installed(package) else str(named) if named.is_file() else None
