"""What the theorems promise: rounds and bits until (1/T) sum ||grad f||^2 <= epsilon, from x^0 = 0.

    EF21 with a proved rule    T = first + 2 Psi^first/(gamma epsilon)    (stepsizes.proved)
    DGD                        T = 2 (f(x^0) - f*)/(gamma epsilon)
    MARINA, in expectation     T = 2 (f(x^0) - f*)/(gamma epsilon)        (Gorbunov et al. 2021; Szlendak et al. 2022)
Psi^1 of the zero start is bounded by f - f* + (gamma/2) sum_i w_i (1 - alpha_i) ||P grad f_i(x^0)||^2: x does not move in
round 0, and the first message contracts the error.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np

from errorfeedback.core import VALUE_BITS, Lifted, Model, PerClient
from errorfeedback.methods.base import Method, full_upload
from errorfeedback.notebook import table
from errorfeedback.planner.network import Pace
from errorfeedback.problems.base import Problem, setup_bits
from errorfeedback.runtime.ledger import ownership_bits
from errorfeedback.stepsizes.base import Fixed
from errorfeedback.theory.analysis import Theory
from errorfeedback.theory.proof import Proof

ZERO, COMPRESSED = ", zero start", ", compressed start"
"""How a plan of EF21 is called that does not begin with an upload of all gradients."""


@dataclass(frozen=True, eq=False)
class Origin:
    """x^0 = 0 and the goal."""

    gap: float
    """f(x^0) - f*, with the known lower bound in place of f*."""
    grads: Lifted
    norms2: PerClient
    """||grad f_i(x^0)||^2."""
    epsilon: float
    """The goal for ||grad f||^2."""
    relative: float
    """The goal as a share of ||grad f(x^0)||^2."""
    setup_up: float
    """Bits per client before anything else (the scaling's exchange): the mean over clients; `setup_down` likewise."""
    setup_down: float


def origin(problem: Problem, relative: float) -> Origin:
    """Where every plan starts."""
    if not 0 < relative < 1:
        raise ValueError(f"epsilon = {relative}; it is the share of ||grad f(x^0)||^2 to reach, between 0 and 1")
    x = Model(np.zeros(problem.d))
    grads = problem.gradients_at(x)
    gradient = problem.support.scatter(grads) / problem.n
    gap, norms2 = problem.value(x) - problem.lower_bound, problem.support.norms2(grads)
    epsilon, (up, down) = relative * float(gradient @ gradient), setup_bits(problem)
    up += ownership_bits(problem)
    if not epsilon > 0:
        raise ValueError(
            f"||grad f(0)||^2 = {float(gradient @ gradient):g}: x = 0 minimises f, or the gradient is too small to be "
            "squared; there is nothing to plan"
        )
    return Origin(gap, grads, norms2, epsilon, relative, up / problem.n, down / problem.n)


@dataclass(frozen=True)
class Plan:
    """A method with a step size, and what its theorem says it costs to reach epsilon."""

    method: str
    rule: str
    k: int | None
    exact_features: int
    """|S0|: features sent exactly."""
    gamma: float
    rounds: int
    up_bits: float
    """Per client (the mean over clients), with what is sent before the first round; `down_bits` likewise."""
    down_bits: float
    bits_per_round: float
    """Up."""
    value_bits: int
    """Of a number up."""
    memory_bytes: int
    """The largest client's memory between rounds."""
    seconds: float | None
    """On the network, where one was given."""
    in_expectation: bool
    error_feedback: bool

    @property
    def wherever_it_starts(self) -> str:
        """The method without its start."""
        return self.method.removesuffix(ZERO).removesuffix(COMPRESSED)

    @property
    def kind(self) -> str:
        """How it saves: error feedback with all numbers in "few bits", with "TopK" of them, with the common ones "exact" and
        TopK of the others; or the method's own name."""
        if not self.error_feedback:
            return self.method.split()[0]
        if self.value_bits < VALUE_BITS:
            return "few bits"
        return "exact" if self.exact_features else "TopK"

    @property
    def total_bits(self) -> float:
        """Up and down, per client."""
        return self.up_bits + self.down_bits

    @property
    def price(self) -> float:
        """What plans are ranked by: seconds on the network where there is one, else bits up and down."""
        return self.total_bits if self.seconds is None else self.seconds

    def _repr_html_(self) -> str:
        sent = {"bytes up per client": round(self.up_bits / 8), "bytes down per client": round(self.down_bits / 8)}
        time = {} if self.seconds is None else {"seconds on the network": self.seconds}
        facts = {"step": self.gamma, "rounds": self.rounds, **sent, **time}
        return table(f"{self.method} with {self.rule}", list(facts.items()))

    def json(self) -> dict[str, Any]:
        return {**vars(self), "kind": self.kind, "total_bits": self.total_bits}


@dataclass(frozen=True)
class Option:
    """A method to be planned, as the table calls it."""

    name: str
    method: Method
    k: int | None = None


def plan(theory: Theory, option: Option, rule: Fixed, start: Origin, pace: Pace | None = None) -> Plan:
    """The promise of one rule for one method; `pace`: the links of the clients."""
    method = option.method.bind(theory.support)
    gamma = rule.gamma(theory, method)
    rounds = _rounds(theory, method, rule, gamma, start)
    first, up = method.traffic(theory.support)
    down = full_upload(theory.support)  # x on J_i, in frames as well
    before = (PerClient(first + start.setup_up), PerClient(np.full(theory.n, start.setup_down)))  # x^0 = 0 is not sent
    return Plan(
        method=option.name,
        rule=type(rule).__name__,
        k=option.k,
        exact_features=int((~theory.rare).sum()) if method.error_feedback else 0,
        gamma=gamma,
        rounds=rounds,
        up_bits=float((before[0] + rounds * up).mean()),
        down_bits=float((before[1] + rounds * down).mean()),
        bits_per_round=float(up.mean()),
        value_bits=method.compressor.coding.width(VALUE_BITS),
        memory_bytes=8 * method.memory * theory.r,
        seconds=None if pace is None else pace.slowest(*before, float(np.any(before))) + rounds * pace.slowest(up, down),
        in_expectation=method.in_expectation,
        error_feedback=method.error_feedback,
    )


def _rounds(theory: Theory, method: Method, rule: Fixed, gamma: float, start: Origin) -> int:
    proof = rule.proof(theory, method)
    if proof is None:
        return ceil(2 * start.gap / (gamma * start.epsilon))
    return proof.first + ceil(2 * (start.gap + gamma / 2 * _error(theory, method, proof, start)) / (gamma * start.epsilon))


def _error(theory: Theory, method: Method, proof: Proof, start: Origin) -> float:
    """A bound on sum_i w_i G_i in the round from which on Psi falls."""
    if proof.first == 0:
        return float(proof.weights @ method.first_error2(start.norms2, theory.support))
    kept = (
        start.norms2
        if theory.rare.all()
        else theory.support.norms2(Lifted(start.grads * theory.rare[theory.support.indices]))
    )
    return float(proof.weights @ ((1 - theory.alpha_i) * kept))
