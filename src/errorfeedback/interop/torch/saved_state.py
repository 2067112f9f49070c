"""What a process keeps between runs, as tensors: `torch.save` stores it and `torch.load(..., weights_only=True)` reads it.

A state belongs to one process of so many. For another number of them there is the mean: the model feels (1/n) sum_i of what
clients remember (EF21: g_i, EF14: e_i, EF21-SGDM: v_i and g_i), which stays what it is where every client begins with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any, TypeAlias

import numpy as np
import torch

from errorfeedback.clients.memory import map_memory
from errorfeedback.interop.torch.table_parameter import joined, relaid
from errorfeedback.interop.torch.tracked import ProcessRank, Saved, Tracked

State: TypeAlias = dict[str, Any]
"""What `state_dict` returns."""
FORMAT = 1
MEMORIES = ("client", "server", "rows", "served_rows")
"""What of a saved parameter is arrays, in tuples, lists, dicts and dataclasses."""


def state_of(tracked: Sequence[Tracked], process: ProcessRank) -> State:
    """The state of one process."""
    parameters = {each.name: _as_tensors(each.save()) for each in tracked}
    return {"format": FORMAT, "rank": process.rank, "ranks": process.ranks, "parameters": parameters}


def restore(state: State, tracked: Sequence[Tracked], process: ProcessRank) -> None:
    """Go on from a state of this process, or from a mean."""
    _check_format(state)
    if state["rank"] is not None and (state["rank"], state["ranks"]) != (process.rank, process.ranks):
        raise ValueError(
            f"the state is that of process {state['rank']} of {state['ranks']}, and this is process {process.rank} of "
            f"{process.ranks}; give every process its own, or ef.torch.mean_state of all of them where their number changed"
        )
    parameters, names = state["parameters"], {each.name for each in tracked}
    missing, unknown = sorted(names - set(parameters)), sorted(set(parameters) - names)
    if missing or unknown:
        raise ValueError(f"the state does not fit the model: nothing is saved for {missing}, and the model has no {unknown}")
    loaded = {name: _as_arrays(saved) for name, saved in parameters.items()}
    for each in tracked:
        each.check(loaded[each.name])
    for each in tracked:
        each.load(loaded[each.name])


def mean_state(states: Sequence[State]) -> State:
    """A state for any number of processes, from the `states` of all processes: every client begins with the mean of what
    they remember, e.g. every g_i with (1/n) sum_i g_i.

    >>> kept = {"kind": "dense", "method": "EF14", "shape": (1,), "step": 3, "server": None}
    >>> one, two = ({**kept, "client": torch.tensor([float(e)])} for e in (1, 3))
    >>> states = [{"format": 1, "rank": i, "ranks": 2, "parameters": {"w": each}} for i, each in enumerate((one, two))]
    >>> mean_state(states)["parameters"]["w"]["client"]
    tensor([2.])
    """
    for state in states:
        _check_format(state)
    given, ranks = [state["rank"] for state in states], len(states)
    if sorted(given, key=str) != sorted(range(ranks), key=str) or {state["ranks"] for state in states} != {ranks}:
        raise ValueError(f"the states are those of processes {given} of {states[0]['ranks']}; give those of all, once each")
    names = states[0]["parameters"]
    parameters = {name: _mean([_as_arrays(state["parameters"][name]) for state in states]) for name in names}
    return {"format": FORMAT, "rank": None, "ranks": ranks, "parameters": parameters}


def _mean(kept: Sequence[Saved]) -> Saved:
    """One parameter; where clients have rows of their own, each is 0 on those of others."""
    if "rows" in kept[0]:
        rows = reduce(joined, [each["rows"] for each in kept])
        width = int(np.prod(kept[0]["shape"][1:]))
        kept = [{**each, "client": relaid(each["client"], each["rows"], rows, width), "rows": rows} for each in kept]
    mean = map_memory(lambda *leaves: np.mean(leaves, axis=0), *(each["client"] for each in kept))
    return _as_tensors({**kept[0], "client": mean})


def _check_format(state: Mapping[str, Any]) -> None:
    if state.get("format") != FORMAT:
        raise ValueError(
            f"the state has format {state.get('format')!r}; this version reads {FORMAT}, as `state_dict` gives it"
        )


def _as_tensors(saved: Saved) -> Saved:
    """Copies, which later steps leave alone."""
    kept = {key: map_memory(lambda a: torch.from_numpy(a.copy()), saved[key]) for key in MEMORIES if key in saved}
    return {**saved, **kept}


def _as_arrays(saved: Saved) -> Saved:
    kept = {key: map_memory(lambda a: a.numpy().copy(), saved[key], of=torch.Tensor) for key in MEMORIES if key in saved}
    return {**saved, **kept, "shape": tuple(saved["shape"])}
