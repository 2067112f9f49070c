"""Files with a checksum that fits and content that does not: trees and arrays changed at one place."""

from __future__ import annotations

import json
from io import BytesIO
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile

import numpy as np

DEEP = "deep"
"""Becomes a list in a list in a list, 100,000 times: no encoder makes that, so it is put into the text."""
VALUES = (None, True, False, -1, 0, 1, 3, 2**40, -(2**70), 10**30, 0.5, float("nan"), float("inf"), "", "x", "é" * 500)
VALUES += ([], [[]], {}, {"a": 1}, {"array": 0}, {"tuple": []}, {"make": ["os:system", {}]}, {"class": "json:loads"}, DEEP)


def places(tree, path=()):
    """Every part of a tree."""
    yield path
    inner = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in inner:
        yield from places(value, (*path, key))


def crafted_tree(tree, rng):
    """The tree with one part replaced, left out, or put twice; and what was done."""
    tree = json.loads(json.dumps(tree))
    path = list(places(tree))[rng.integers(1, sum(1 for _ in places(tree)))]
    inside = tree
    for key in path[:-1]:
        inside = inside[key]
    how = rng.choice(["replace", "drop", "twice", "swap"], p=[0.6, 0.2, 0.1, 0.1])
    if how == "drop":
        del inside[path[-1]]
    elif how == "twice" and isinstance(inside, list):
        inside.append(inside[path[-1]])
    elif how == "swap" and isinstance(inside, list):
        inside.reverse()
    else:
        value = VALUES[rng.integers(len(VALUES))]
        inside[path[-1]] = value
        how = f"{how} by {value!r:.30}"
    return tree, f"{how} at {path}"


def text_of(tree):
    return json.dumps(tree).replace(json.dumps(DEEP), "[" * 100_000 + "]" * 100_000).encode()


def crafted_array(array, rng):
    """Another array; and what was done."""
    flat = array.ravel()
    number = array.dtype.kind in "fiu" and flat.size
    changes = {
        "empty": lambda: array[:0] if array.ndim else np.empty(0),
        "longer": lambda: np.concatenate([flat, flat, flat]),
        "shorter": lambda: flat[:-1],
        "column": lambda: array[..., None],
        "text": lambda: np.array(["a"] * max(1, flat.size)),
        "complex": lambda: flat.astype(complex) if number else flat,
        "bytes": lambda: flat.view(np.uint8) if flat.size else flat,
        "half": lambda: flat.astype(np.float16) if number else flat,
        "nan": lambda: np.where(np.arange(flat.size) == rng.integers(max(1, flat.size)), np.nan, flat) if number else flat,
        "huge": lambda: (
            np.where(np.arange(flat.size) == rng.integers(max(1, flat.size)), 2.0**62, flat).astype(array.dtype)
            if number
            else flat
        ),
        "negative": lambda: -1 - flat if array.dtype.kind == "i" else flat,
        "objects": lambda: np.array([{}, 1], dtype=object),
    }
    name = str(rng.choice(list(changes)))
    with np.errstate(all="ignore"):
        return changes[name](), f"{name} of {array.dtype}{array.shape}"


def archive(arrays, *, compressed=False, declared=None):
    """An .npz as np.savez writes it; `declared` names an array whose head says that it is huge."""
    body = BytesIO()
    with ZipFile(body, "w", ZIP_DEFLATED if compressed else ZIP_STORED) as file:
        for name, array in arrays.items():
            member = BytesIO()
            np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=True)
            content = member.getvalue()
            if name == declared:
                head = BytesIO()
                np.lib.format.write_array_header_1_0(head, {"descr": "<f8", "fortran_order": False, "shape": (10**11,)})
                content = head.getvalue() + content[-8:]
            file.writestr(f"{name}.npy", content)
    return body.getvalue()
