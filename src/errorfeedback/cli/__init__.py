"""The command line. Ctrl-C ends every verb with a sentence, also while libraries are imported or kernels are compiled."""

from __future__ import annotations

import sys
from typing import NoReturn

INTERRUPTED = 130
"""The exit code of a program that Ctrl-C ended: 128 and the number of the signal."""


def interrupted() -> NoReturn:
    """Say so, and leave."""
    print("\nInterrupted: the command has not finished.", file=sys.stderr)
    sys.exit(INTERRUPTED)
