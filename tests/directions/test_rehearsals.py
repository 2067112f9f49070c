"""No kernel of a direction is compiled while the clock of a run is running (history: `seconds` without compilation)."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys
import numba
import numpy as np
import errorfeedback as ef
from errorfeedback.directions import quasi_newton
from errorfeedback.runtime import clock, server
from numba.core.dispatcher import Dispatcher

began, late = [], []
old = Dispatcher.compile

def compiled(self, signature):
    known = len(self.overloads)
    made = old(self, signature)
    ours = self.py_func.__module__.startswith(("errorfeedback.directions", "errorfeedback.sums"))
    if began and ours and len(self.overloads) > known:
        late.append(f"{self.py_func.__module__}.{self.py_func.__name__}")
    return made

Dispatcher.compile = compiled

class Clock(clock.Clock):
    def __init__(self, *given):
        began.append(True)
        super().__init__(*given)

server.Clock = Clock
quasi_newton.LONG = int(sys.argv[2])
problem = ef.synthetic(n=10, d=40, m=5, c=4)
prox = ef.ElasticNet(l1=float(sys.argv[1]), l2=1e-3)
few = ef.EF21(ef.FittedAnswer(), start="compressed")
down = ef.FittedStep(zeros=prox.l1 > 0)
ef.solve(problem, few, ef.Armijo(), direction=ef.LBFGS(), downlink=down, rounds=12, prox=prox)
assert began
print(sorted(set(late)))
"""


@pytest.mark.parametrize("long", [1, 1_000])
@pytest.mark.parametrize("l1", [0.0, 0.01])
def test_kernels_of_quasi_newton_steps_are_compiled_before_the_clock_runs(l1, long, tmp_path):
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(l1), str(long)], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert found.stdout.strip() == "[]"
