"""What to run, by a trial; which plan the theorems prefer, and why; whether error feedback helps at all by the theory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from errorfeedback.planner.census import Census
from errorfeedback.planner.plan import Plan
from errorfeedback.planner.units import human_bytes, human_seconds

UNTRIED = (
    "What to run was not tried (--rounds 0). In practice EF21 is far better than its theorems: it usually tolerates DGD's "
    "step 1/L, where it mostly needs one to ten times DGD's rounds (docs/theory.md, section 12); `errorfeedback train` "
    "finds its step by itself, and `errorfeedback compare` measures."
)
WORST_CASE = "The theorems' promises below hold for the worst case, and practice is far from it."


@dataclass(frozen=True)
class Finding:
    """Whether one kind of error feedback is cheaper than DGD by the theorems, and the sentence that says so."""

    helps: bool
    text: str


@dataclass(frozen=True)
class PlanVerdict:
    """The advice first, then what the theorems promise."""

    practice: str
    """What to run, as measured."""
    winner: Plan
    """The cheapest plan by the theorems."""
    reason: str
    few_bits: Finding
    """Every number in few bits (section 7)."""
    top_k: Finding
    """Most numbers left out (sections 6 and 8)."""

    @property
    def helps(self) -> bool:
        """Some EF21 plan is cheaper than DGD by the theorems."""
        return self.few_bits.helps or self.top_k.helps

    @property
    def error_feedback(self) -> str:
        return f"{self.few_bits.text}\n{self.top_k.text}"

    def __str__(self) -> str:
        return "\n".join([self.practice, WORST_CASE, self.reason, self.error_feedback])


def verdict(facts: Census, plans: Sequence[Plan], practice: str = UNTRIED) -> PlanVerdict:
    """Judge plans that are sorted by their price."""
    winner = plans[0]
    dgd = next(plan for plan in plans if plan.method == "DGD")
    rounded = [plan for plan in plans if plan.kind == "few bits"]
    chosen = next((plan for plan in plans if plan.kind in ("TopK", "exact")), None)
    return PlanVerdict(practice, winner, _reason(winner, dgd), _few_bits(rounded, dgd), _top_k(facts, chosen, dgd))


def _reason(winner: Plan, dgd: Plan) -> str:
    timed = winner.seconds is not None
    what = "the least time on the network" if timed else "the fewest bytes up and down"
    if winner is dgd:
        return (
            f"By the theorems DGD needs {what}, {_price(dgd)} per client: every compressed plan pays more for its smaller "
            "step than it saves per round."
        )
    expectation = " in expectation" * winner.in_expectation
    cheaper, shorter, longer = _per_round(dgd) / _per_round(winner), dgd.gamma / winner.gamma, winner.rounds / dgd.rounds
    return (
        f"By the theorems {winner.method} with {winner.rule} needs {what}, {_price(winner)} per client{expectation}, "
        f"{dgd.price / winner.price:.3g} times less than DGD: a round costs {cheaper:.3g} times less, and its step, "
        f"{shorter:.4g} times smaller, takes {longer:.4g} times the rounds."
    )


def _few_bits(rounded: Sequence[Plan], dgd: Plan) -> Finding:
    """The cheapest of these plans; what it saves up is more than what it saves in all, since x goes down as it is."""
    best, least = rounded[0], min(rounded, key=lambda plan: plan.up_bits)
    helps = best.price < dgd.price
    fewest = f" ({dgd.up_bits / least.up_bits:.3g} times with {least.method}, {least.rule})" if least is not best else ""
    up, everything = dgd.up_bits / best.up_bits, dgd.total_bits / best.total_bits
    promise = (
        f"{best.method} with {best.rule} takes {best.rounds / dgd.rounds:.4g} times DGD's rounds and {up:.3g} times fewer "
        f"bytes up{fewest}; x goes down as it is, so up and down together are {everything:.3g} times fewer"
    )
    time = (
        "" if best.seconds is None or dgd.seconds is None else f", and the time {best.seconds / dgd.seconds:.3g} times DGD's"
    )
    opening = "Error feedback with few bits helps" if helps else "Error feedback with few bits will not help here"
    return Finding(helps, f"{opening} by the theory (docs/theory.md, section 7): {promise}{time}.")


def _top_k(facts: Census, best: Plan | None, dgd: Plan) -> Finding:
    share = facts.c / facts.n
    shared = f"the most common feature ({facts.commonest[0].name}) is on {facts.c} of {facts.n} clients (c/n = {share:.3g})"
    what = "bytes up and down" if dgd.seconds is None else "time"
    if best is None:
        return Finding(False, "No client has two features, so there is nothing for TopK to leave out.")
    if best.price < dgd.price:
        return Finding(
            True,
            f"Error feedback with TopK helps by the theory: {best.method} with {best.rule} needs "
            f"{100 * (1 - best.price / dgd.price):.1f}% less than DGD's {what}, although {shared}.",
        )
    return Finding(
        False,
        f"Error feedback with TopK will not help here by the theory (docs/theory.md, section 8): the best such plan "
        f"({best.method}, {best.rule}) needs {best.price / dgd.price:.4g} times DGD's {what}; {shared}.",
    )


def _price(plan: Plan) -> str:
    sizes = [human_bytes(bits / 8) for bits in (plan.total_bits, plan.up_bits, plan.down_bits)]
    sent = f"{sizes[0]} ({sizes[1]} up, {sizes[2]} down)"
    return sent if plan.seconds is None else f"{human_seconds(plan.seconds)} and {sent}"


def _per_round(plan: Plan) -> float:
    return plan.price / plan.rounds
