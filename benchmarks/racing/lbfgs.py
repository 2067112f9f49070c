"""L-BFGS on the server, the best peer in bytes: one exchange per evaluation, x on J_i down, gradient and loss up.

scipy's L-BFGS-B with a memory of 10, in the variable z = x / S with S_jj = (curvature_j + l2)^(-p/2) for p = 0, 1/2 and 1;
the best of the three counts, and nobody is charged for agreeing on S. x = 0 is known to all: the first request is free.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

from racing.books import LOSS, Books, Curve, recorded
from racing.objective import Objective, Vector

METRICS = {"no metric": 0.0, "half metric": 0.5, "full metric": 1.0}
MEMORY = 10


def lbfgs(objective: Objective, target: float, most: int) -> dict[str, Curve]:
    def with_metric(power: float) -> Curve:
        scale = objective.diagonal ** (-power / 2)

        def run(books: Books) -> None:
            def evaluated(z: Vector) -> tuple[float, Vector]:
                f, g = objective.value_and_gradient(scale * z)
                books.exchange(books.one + LOSS, books.one if books.exchanges else 0.0)
                books.write(f)
                return f, scale * g

            options = {"maxcor": MEMORY, "maxiter": most, "maxfun": most, "ftol": 0.0, "gtol": 0.0}
            minimize(evaluated, np.zeros(objective.d), jac=True, method="L-BFGS-B", options=options)

        return recorded(objective, target, most, run)

    return {name: with_metric(power) for name, power in METRICS.items()}
