"""What `train`, `inspect` and `compare` are told about the data and the objective: one set of options with one set of
defaults. A verb that takes an `Inputs` as its first parameter gets an option for every field (`with_options`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from errorfeedback.cli.verbs._reading import ColumnOptions

DATA = "LIBSVM, .csv, .tsv, .parquet, .npz, a known name (a9a, ...), or a folder of parts."
LOSS = "logistic (default), squared_hinge, squared (what --regression is), huber, or poisson, for counts."
HUBER_WIDTH = "With --loss huber: errors up to this are squared, in the units of the target."
MULTI_CLASS = "More than two classes: multinomial (default), or ovr, each against the rest."
OWN_MODELS = "Begin at the mean of what models the clients' own rows make, where these have learned something."
OWN_FEATURES = "Leave features that one client alone has to it until the end, where most rows have one."
CLIENTS = 10
"""Where nobody says how many, and at most one per row."""


@dataclass(frozen=True, kw_only=True)
class Inputs(ColumnOptions):
    """The data, who has which rows, and the objective."""

    data: Annotated[str, typer.Argument(metavar="DATA", help=DATA)]
    clients: Annotated[int | None, typer.Option(min=1, help=f"Deal the rows evenly to that many (default {CLIENTS}).")] = (
        None
    )
    groups: Annotated[Path | None, typer.Option(help="A file that names the client of each row, one per line.")] = None
    regression: Annotated[bool, typer.Option(help="Least squares instead of classification.")] = False
    loss: Annotated[str | None, typer.Option(help=LOSS)] = None
    huber_width: Annotated[float, typer.Option(min=0, help=HUBER_WIDTH)] = 1.35
    multi_class: Annotated[str | None, typer.Option(help=MULTI_CLASS)] = None
    class_weight: Annotated[str | None, typer.Option(help="balanced: all classes weigh the same.")] = None
    l1: Annotated[float, typer.Option(min=0, help="Weight of ||x||_1.")] = 0.0
    l2: Annotated[float, typer.Option(min=0, help="Weight of ||x||^2 / 2.")] = 1e-4
    intercept: Annotated[str, typer.Option(help="topk, exact (with --k: sent every round), or none.")] = "topk"
    scale: Annotated[bool, typer.Option(help="Bring features to like size first (with --k: to the same curvature).")] = True
    own_models: Annotated[bool, typer.Option(help=OWN_MODELS)] = True
    own_features: Annotated[bool, typer.Option(help=OWN_FEATURES)] = True
    seed: Annotated[int, typer.Option(min=0, help="Seed of the deal, and of what is random in a method.")] = 0


def with_options(verb: Callable[..., None]) -> Callable[..., None]:
    """The verb, whose first parameter is a dataclass of options, with an option for every field of it."""
    first, *own = signature(verb, eval_str=True).parameters.values()
    hints = get_type_hints(first.annotation, include_extras=True)
    shared = [
        Parameter(f.name, Parameter.KEYWORD_ONLY, default=_default(f.default), annotation=hints[f.name])
        for f in fields(first.annotation)
    ]

    @wraps(verb)
    def called(**given: Any) -> None:
        options = first.annotation(**{field.name: given.pop(field.name) for field in fields(first.annotation)})
        verb(options, **given)

    every = [*shared, *(each.replace(kind=Parameter.KEYWORD_ONLY) for each in own)]
    called.__signature__ = Signature(every)  # type: ignore[attr-defined]
    return called


def _default(value: Any) -> Any:
    return Parameter.empty if value is MISSING else value
