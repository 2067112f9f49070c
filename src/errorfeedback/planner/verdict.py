"""Which plan wins, and why, in a sentence; and whether error feedback helps at all by the theory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from errorfeedback.planner.census import Census
from errorfeedback.planner.plan import Plan
from errorfeedback.planner.units import human_bytes

PRACTICE = (
    "In practice EF21 is far better than its theorems: it usually tolerates DGD's step 1/L, where it mostly needs one to "
    "ten times DGD's rounds (docs/theory.md, section 12) at a small fraction of its traffic per round; measure it with "
    "`errorfeedback compare`."
)


@dataclass(frozen=True)
class Verdict:
    """The winner by predicted bits, and what the theory says about error feedback here."""

    winner: Plan
    reason: str
    helps: bool
    """Some EF21 plan needs fewer bits than DGD."""
    error_feedback: str
    practice: str = PRACTICE

    def __str__(self) -> str:
        return "\n".join([self.reason, self.error_feedback, self.practice])


def verdict(facts: Census, plans: Sequence[Plan]) -> Verdict:
    """Judge plans that are sorted by bits."""
    winner = plans[0]
    dgd = next(plan for plan in plans if plan.method == "DGD")
    feedback = [plan for plan in plans if plan.error_feedback]
    best = feedback[0] if feedback else None
    helps = best is not None and best.bits < dgd.bits
    return Verdict(winner, _reason(winner, dgd), helps, _feedback(facts, best, dgd, helps))


def _reason(winner: Plan, dgd: Plan) -> str:
    if winner is dgd:
        return (
            f"DGD needs the fewest bits by the theory, {_bits(dgd.bits)} per client: every compressed plan pays more for "
            "its smaller step than it saves per round."
        )
    expectation = " in expectation" if winner.in_expectation else ""
    cheaper, shorter, longer = (
        dgd.bits_per_round / winner.bits_per_round,
        dgd.gamma / winner.gamma,
        winner.rounds / dgd.rounds,
    )
    return (
        f"{winner.method} with {winner.rule} needs the fewest bits by the theory, {_bits(winner.bits)} per client"
        f"{expectation}, {dgd.bits / winner.bits:.3g} times fewer than DGD: a round costs {cheaper:.3g} times less, and its "
        f"step, {shorter:.3g} times smaller, takes {longer:.3g} times the rounds."
    )


def _feedback(facts: Census, best: Plan | None, dgd: Plan, helps: bool) -> str:
    share = facts.c / facts.n
    shared = f"the most common feature ({facts.commonest[0].name}) is on {facts.c} of {facts.n} clients (c/n = {share:.3g})"
    if best is None:
        return "No client has two features, so there is nothing for TopK to leave out."
    if helps:
        return (
            f"Error feedback helps by the theory: {best.method} with {best.rule} needs "
            f"{100 * (1 - best.bits / dgd.bits):.1f}% fewer bits than DGD, although {shared}."
        )
    return (
        f"Error feedback will not help here by the theory: the best EF21 plan ({best.method}, {best.rule}) needs "
        f"{best.bits / dgd.bits:.4g} times DGD's bits; {shared}."
    )


def _bits(bits: float) -> str:
    return human_bytes(bits / 8)
