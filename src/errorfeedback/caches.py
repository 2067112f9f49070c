"""Where downloads and compiled kernels are kept.

Numba keeps kernels beside the source or in the user's cache, and refuses to work where it can write neither: a read-only
install without a home, as in many containers. There they go to a temporary folder.
"""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import sys
import tempfile
from pathlib import Path

LOG = logging.getLogger("errorfeedback")
VARIABLE = "NUMBA_CACHE_DIR"


def ensure_kernels() -> None:
    """Give numba a folder where it would find none; it is private to this process and those that it starts."""
    if os.environ.get(VARIABLE) or any(map(_writable, _places())):
        return
    folder = tempfile.mkdtemp(prefix="errorfeedback-")  # only its owner can write there: numba runs what it finds
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ[VARIABLE] = folder
    if "numba" in sys.modules:  # it has read its variables already
        sys.modules["numba"].config.CACHE_DIR = folder
    LOG.warning(
        "neither %s nor %s can be written: kernels are compiled anew in every run; set %s to a folder that stays",
        *_places(),
        VARIABLE,
    )


def user_cache() -> Path:
    """The user's own; not absolute for a user without a home."""
    return Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))


def _places() -> list[Path]:
    """Where numba looks: beside the source, then in the user's cache."""
    return [Path(__file__).parent / "__pycache__", user_cache()]


def _writable(place: Path) -> bool:
    """Whether a file can be made there, or the folder for it."""
    if not place.is_absolute():
        return False
    there = next(each for each in (place, *place.parents) if each.exists())
    return there.is_dir() and os.access(there, os.W_OK | os.X_OK)
