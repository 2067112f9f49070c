"""Compiled kernels do not check their indices; here they do, in a process of its own with numba's checks on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def checked(tmp_path, *arguments):
    environment = os.environ | {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path)}
    return subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True, check=False)


def test_no_kernel_of_a_round_leaves_its_arrays(tmp_path):
    files = [str(Path(__file__).with_name(name)) for name in ("test_kernels.py", "test_loss_kernels.py")]
    one = ["-k", "not float32"]  # indices are the same in both precisions
    done = checked(tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", *one, *files)
    assert done.returncode == 0, done.stdout[-3000:]
    assert " passed" in done.stdout


def test_the_check_notices_an_index_outside(tmp_path):
    """Negative control: a selection whose last segment ends behind the last number."""
    program = """if True:
        import numpy as np
        from errorfeedback.compressors.top_k import _largest
        _largest(np.ones(5), np.array([0, 3, 5]), np.array([0, 1, 2]), np.zeros(1, dtype=np.int64), np.zeros(2))
    """
    assert "IndexError" in checked(tmp_path, "-c", program).stderr
