"""Run under mpiexec by test_own_mpi.py: every rank makes the problem by the same function, and computes its own clients."""

from __future__ import annotations

import os
import sys

import numpy as np

import errorfeedback as ef

N, ROWS = 7, 5
FEW = {
    "method": ef.EF21(ef.PowersOfTwo(4), start="compressed"),
    "stepsize": ef.Armijo(),
    "direction": ef.LBFGS(),
    "downlink": ef.FittedStep(),
    "rounds": 15,
}
MINIBATCHES = {"method": ef.EF21SGDM(ef.TopK(1), batch=2, eta=0.3), "stepsize": ef.Constant(0.02), "rounds": 15}


def functions(asked):
    """The mean of (w_1 - i - k/4)^4 / 4 + (w_1 - w_2)^2 / 2 over the rows k; `asked` notes who was asked."""

    def client(i):
        def f(w, rows=range(ROWS)):
            asked.add(i)
            a, b = w[0] - i - np.array(rows) / 4, w[0] - w[1]
            return np.mean(a**4) / 4 + b**2 / 2, np.array([np.mean(a**3) + b, -b])

        return f

    supports = [[i, i + 1] for i in range(N)]
    return ef.problem([client(i) for i in range(N)], supports, d=N + 1, lower_bound=0.0, rows=[ROWS] * N)


def module(flip=0.0):
    import torch  # noqa: PLC0415  (the other job runs without)

    torch.set_num_threads(1)
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Embedding(9, 3), torch.nn.Tanh(), torch.nn.Linear(3, 1), torch.nn.Flatten(0)).double()
    draw = np.random.default_rng(0)
    data = [
        (torch.from_numpy(draw.integers(0, 9, m)), torch.from_numpy(draw.random(m) + flip)) for m in (3, 5, 4, 9, 2, 6, 8)
    ]
    return ef.torch.problem(net, torch.nn.MSELoss(reduction="none"), data, lower_bound=0.0, clients_per_call=4)


def same_bits(make):
    problem = make()
    for options in (FEW, MINIBATCHES):
        one, *others = (ef.solve(problem, **options, engine=engine) for engine in (ef.Local(), ef.Threads(2), ef.MPI()))
        assert one.history["f"][-1] < 0.9 * one.history["f"][0]
        for other in others:
            assert np.array_equal(one.x, other.x), other
            for column in one.history.keys() - {"seconds"}:
                assert np.array_equal(one.history[column], other.history[column], equal_nan=True), column
    return "same bits"


def own_clients_alone():
    asked = set()
    problem = functions(asked)
    asked.clear()
    ef.solve(problem, **FEW, engine=ef.MPI())
    return f"asked {sorted(asked)}"


def other_data():
    try:
        ef.solve(module(float(ef.MPI().world.rank)), **FEW, engine=ef.MPI())
    except ValueError as error:
        return f"refused: {error}"
    return "not noticed"


JOBS = {
    "functions": lambda: same_bits(lambda: functions(set())),
    "module": lambda: same_bits(module),
    "alone": own_clients_alone,
    "other": other_data,
}

if __name__ == "__main__":
    os.write(1, f"{JOBS[sys.argv[1]]()}\n".encode())
