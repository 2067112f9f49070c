"""Shards in Ray's actors: the bits of one process, also when actors are killed in the middle of a run."""

from __future__ import annotations

import json
import subprocess

import pytest
from flower_python import WHY, python_with

import errorfeedback as ef

RAY = python_with("ray")
PROGRAM = """if True:
    import json, os, signal, sys, warnings
    import numpy as np
    warnings.simplefilter("ignore")
    import ray
    import errorfeedback as ef

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, configure_logging=False, object_store_memory=10**8)
    problem = ef.synthetic(n=12, d=40, m=6, c=4)
    options = {"rounds": 60, "every": 5, "metrics": False}
    rule, method = ef.Automatic(), ef.EF21(ef.TopK(2))
    expected = ef.solve(problem, method, rule, **options)

    def same(run):
        equal = [np.array_equal(run.history[k], expected.history[k], equal_nan=True) for k in run.history if k != "seconds"]
        return bool(np.array_equal(run.x, expected.x) and all(equal))

    killed = []
    send = ef.Actors.send
    def kill_now_and_then(self, requests):
        if self.logs[0].requests and self.logs[0].requests[-1].number in (7, 23):
            process = ray.get(self.actors[len(killed)].__ray_call__.remote(lambda actor: os.getpid()))
            if killed:  # and its disk is gone too
                os.remove(self.folder / "actor-1.journal")
            os.kill(process, signal.SIGKILL)  # which ray.kill does only a while later
            killed.append(self.folder)
        send(self, requests)

    undisturbed = same(ef.solve(problem, method, rule, engine=ef.Ray(3), **options))
    ef.Actors.send = kill_now_and_then
    disturbed = same(ef.solve(problem, method, rule, engine=ef.Ray(2), **options))
    print(json.dumps([undisturbed, disturbed, len(killed), any(map(os.path.exists, killed))]))
"""


@pytest.mark.skipif(RAY is None, reason=WHY)
def test_actors_give_the_bits_of_one_process_also_when_they_are_killed():
    done = subprocess.run([RAY, "-c", PROGRAM], check=False, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    (said,) = [line for line in done.stdout.splitlines() if line.startswith("[true") or line.startswith("[false")]
    assert json.loads(said) == [True, True, 2, False]


def test_what_it_cannot_do_is_refused_with_a_reason():
    with pytest.raises(ValueError, match=r"actors = 0; there must be at least 1"):
        ef.Ray(0)
    with pytest.raises(ValueError, match=r"timeout = 0; it must be above 0 seconds"):
        ef.Ray(2, timeout=0)
    problem = ef.synthetic(n=4, d=9, m=3, c=2)
    with pytest.raises(ValueError, match="metrics=True looks at every client's gradients"):
        ef.solve(problem, ef.EF21(ef.TopK(1)), ef.Constant(0.1), rounds=1, engine=ef.Ray(2))
    with pytest.raises(ValueError, match=r"actors = 5, but there are only 4 clients"):
        ef.solve(problem, ef.EF21(ef.TopK(1)), ef.Constant(0.1), rounds=1, engine=ef.Ray(5), metrics=False)
