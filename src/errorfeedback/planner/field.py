"""Everybody who can take part, from the registries: a new file of a family is in the field by itself.

    a method with those of TopK, RandK and PermK that it is defined for    EF21 TopK(1), MARINA RandK(1), MARINA PermK, ...
    EF21 and MARINA where clients answer now and then                      EF21 Participating(TopK(1), 0.5)
    gradient descent and EF21 in every other direction                     DGD + LBFGS, EF21 TopK(1) + Diagonal, ...
    and with every other downlink                                          EF21 TopK(1), Compressed(TopK(1)) down, ...

Each of them has up to three kinds of step sizes: the largest that a theorem gives it; what a rule finds on the way; and the
best constant 2^k, which nobody can know before (`constant`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from types import ModuleType
from typing import Any, TypeVar

from errorfeedback import directions, downlinks, methods, stepsizes
from errorfeedback.compressors.base import Compressor, Contractive
from errorfeedback.compressors.identity import Identity
from errorfeedback.compressors.participating import Participating
from errorfeedback.compressors.perm_k import PermK
from errorfeedback.compressors.rand_k import RandK
from errorfeedback.compressors.some_clients import SomeClients
from errorfeedback.compressors.top_k import TopK
from errorfeedback.directions.base import Direction
from errorfeedback.directions.steepest import Steepest
from errorfeedback.downlinks.base import Downlink
from errorfeedback.downlinks.whole import Whole
from errorfeedback.methods.base import Method
from errorfeedback.methods.clag import CLAG
from errorfeedback.methods.dgd import DGD
from errorfeedback.methods.ef21 import EF21
from errorfeedback.methods.marina import MARINA
from errorfeedback.planner.contest import AUTOMATIC, HINDSIGHT, THEOREM, Contestant
from errorfeedback.problems.base import Problem, is_bounded
from errorfeedback.registry import members, required
from errorfeedback.stepsizes.base import Fixed, StepSize
from errorfeedback.stepsizes.best import Best
from errorfeedback.stepsizes.constant import Constant
from errorfeedback.stepsizes.proved import Proved
from errorfeedback.theory.analysis import Theory, analyse

Kind = TypeVar("Kind")
ALL = "all"
ATTENDANCE = 0.5
"""How often a client answers where not all do in every round."""


@dataclass(frozen=True)
class Entrant:
    """A method without its step size."""

    name: str
    method: Method
    direction: Direction | None = None
    downlink: Downlink | None = None

    def with_rule(self, rule: StepSize, step: str, choice: str) -> Contestant:
        """It with a step size, which tables call `step`."""
        label = f"{self.name}, {step}"
        return Contestant(label, self.method, rule, self.direction, self.downlink, self.name, choice)

    def constant(self, exponent: int) -> Contestant:
        """With the step 2^exponent: the server's, or that of clients which take steps of their own."""
        method, gamma = self.method.tuned(2.0**exponent)
        return replace(self, method=method).with_rule(Constant(gamma), f"2^{exponent} {HINDSIGHT}", HINDSIGHT)


def entrants(k: int = 1, compress: Callable[[int], Contractive] = TopK) -> list[Entrant]:
    """The field, with K = k wherever something has a K."""
    offered: list[Compressor] = [compress(k), RandK(k), PermK()]
    some = SomeClients(RandK(k), ATTENDANCE)
    now_and_then = [EF21(Participating(compress(k), ATTENDANCE)), MARINA(some)]
    beside = {"follower": RandK(k), "inner": CLAG(compress(k)), "first": compress(k)}
    singles = [Entrant(_named(method), method) for method in [*_methods(offered, some, beside), *now_and_then]]
    bases = [Entrant("DGD", DGD()), Entrant(_named(EF21(compress(k))), EF21(compress(k)))]
    bent = [
        replace(base, name=f"{base.name} + {_called(way)}", direction=way)
        for way in _others(directions, Direction, Steepest, TopK(k))  # type: ignore[type-abstract]
        for base in bases
    ]
    down = [
        replace(base, name=f"{base.name}, {_called(way)} down", downlink=way)
        for way in _others(downlinks, Downlink, Whole, TopK(k))  # type: ignore[type-abstract]
        for base in bases
    ]
    return [*singles, *bent, *down]


def chosen_entrants(names: Sequence[str], field: Sequence[Entrant]) -> list[Entrant]:
    """Those of the field that are named: `all`, a whole name, or the word that it begins with (EF21, DIANA).

    >>> [entrant.name for entrant in chosen_entrants(["MARINA", "dgd"], entrants())]
    ['DGD', 'MARINA RandK(1)', 'MARINA PermK', 'MARINA SomeClients(RandK(1), 0.5)']
    """
    wanted = {name.strip().lower() for name in names}
    kinds = {entrant.name: {entrant.name.lower(), _kind(entrant)} for entrant in field}
    for name in sorted(wanted - {ALL}):
        if not any(name in called for called in kinds.values()):
            raise ValueError(f"{name!r} is no method; there are all, {', '.join(kinds)}")
    return [entrant for entrant in field if ALL in wanted or wanted & kinds[entrant.name]]


def _kind(entrant: Entrant) -> str:
    """What it is called where it has nothing beside its compressor."""
    alone = entrant.direction is None and entrant.downlink is None
    return type(entrant.method).__name__.lower() if alone else entrant.name.lower()


def by_theorem(problem: Problem, entrant: Entrant) -> Iterator[Contestant]:
    """With the largest step that a theorem gives it on this problem; nobody where there is none."""
    if not is_bounded(problem):
        return
    bound, theory = entrant.method.bind(problem.support), analyse(problem, entrant.method.compressor)
    rules = [rule for rule in _rules(entrant) if isinstance(rule, Fixed) and rule.claims]
    steps = {rule: _gamma(rule, theory, bound) for rule in rules}
    gammas = {rule: gamma for rule, gamma in steps.items() if gamma is not None}
    if gammas:
        best = max(gammas, key=lambda rule: gammas[rule])
        yield entrant.with_rule(best, type(best).__name__, THEOREM)


def _gamma(rule: Fixed, theory: Theory, method: Method) -> float | None:
    """The step of its theorem; None where that does not speak about the problem."""
    if isinstance(rule, Proved) and rule.missing(theory):
        return None
    try:
        return rule.gamma(theory, method)
    except ValueError:
        return None


def by_rule(entrant: Entrant) -> Iterator[Contestant]:
    """With every rule that finds its step on the way."""
    for rule in _rules(entrant):
        if not isinstance(rule, Fixed):
            yield entrant.with_rule(rule, type(rule).__name__, AUTOMATIC)


def _rules(entrant: Entrant) -> Iterator[StepSize]:
    """One of every rule that has something to say about it. Numbers that a rule shares with the direction or the downlink
    (`eta`, `compressor`) are theirs."""
    direction = Steepest() if entrant.direction is None else entrant.direction
    downlink = Whole() if entrant.downlink is None else entrant.downlink
    theirs = {f.name: getattr(part, f.name) for part in (direction, downlink) for f in fields(part)}
    for kind in members(stepsizes, StepSize).values():  # type: ignore[type-abstract]
        shared = {f.name: theirs[f.name] for f in fields(kind) if f.name in theirs}
        if kind in (Best, Constant) or set(required(kind)) - set(shared):
            continue
        if issubclass(kind, Fixed) and not (downlink.lossless or shared):
            continue  # most theorems are about steps that everybody takes as they are
        rule = kind(**shared)
        try:
            rule.check(entrant.method, direction)
            rule.check_downlink(downlink)
        except ValueError:
            continue
        yield rule


def _methods(offered: Sequence[Compressor], some: SomeClients, beside: Mapping[str, Any]) -> list[Method]:
    """Every method with every compressor on offer that it is defined for, or else with some clients; those that take any are
    as they are by default. `beside`: what methods ask for beside their compressor, by name."""
    made: list[Method] = []
    for kind in members(methods, Method).values():  # type: ignore[type-abstract]
        fitting = [each for each in offered if isinstance(each, kind.requires)] or [some]
        particular = ["compressor"] if kind.requires is not Compressor else []
        made += [_made(kind, {**beside, "compressor": each}, particular) for each in fitting]
    return list(dict.fromkeys(made))  # once, where nothing is compressed


def _made(kind: type[Kind], given: Mapping[str, Any], besides: Sequence[str] = ()) -> Kind:
    """One of a kind, with its own defaults and what it must be given, or is asked to be."""
    return kind(**{name: given[name] for name in {*required(kind), *besides}})


def _others(family: ModuleType, base: type[Kind], plain: type[Kind], compressor: TopK) -> list[Kind]:
    """One of every other member of a family than the plain one."""
    return [_made(kind, {"compressor": compressor}) for kind in members(family, base).values() if kind is not plain]


def _named(method: Method) -> str:
    """EF21 TopK(1), MARINA PermK; FedAvg, where nothing is compressed."""
    if isinstance(method.compressor, Identity):
        return type(method).__name__
    return f"{type(method).__name__} {_brief(method.compressor)}"


def _called(part: Direction | Downlink) -> str:
    """LBFGS, with its own defaults; Compressed(TopK(1)), with what it must be given."""
    return _brief(part) if required(type(part)) else type(part).__name__


def _brief(part: Compressor | Direction | Downlink) -> str:
    return re.sub(r"\w+=", "", str(part)).removesuffix("()")
