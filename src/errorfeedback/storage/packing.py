"""Values <-> a JSON tree and a list of arrays, without pickle.

Packed are None, numbers, text, paths, tuples, lists, dicts, numpy arrays and dtypes, CSR arrays, and what this package
defines: its frozen dataclasses (problems, methods, rules, ...), its classes and its enums; and the frozen dataclasses that
this process has declared to be `storable`. Nothing else is made by unpacking.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from scipy import sparse

from errorfeedback.storage.untrusted import check_compressed

PACKAGE = __name__.split(".")[0]
PLAIN = (bool, int, float, str, type(None))
DECLARED: dict[str, type[Any]] = {}
"""Classes of the user's own, by name."""
K = TypeVar("K", bound=type[Any])


def storable(kind: K) -> K:
    """Declare that checkpoints may hold `kind`, a frozen dataclass of your own (a method, a loss, a problem, ...), and that
    whoever goes on from one may make it again. Use it as a decorator, above `@dataclass(frozen=True)`.

    >>> from dataclasses import dataclass
    >>> @storable
    ... @dataclass(frozen=True)
    ... class Mine:
    ...     k: int
    >>> unpack(*pack(Mine(3)))
    Mine(k=3)
    """
    if not is_dataclass(kind) or not vars(kind)["__dataclass_params__"].frozen:
        raise ValueError(f"{kind.__qualname__} is not a frozen dataclass, so a checkpoint cannot hold it")
    DECLARED[_name(kind)] = kind
    return kind


def pack(value: Any) -> tuple[Any, list[np.ndarray[Any, Any]]]:
    """The tree and the arrays that it counts through.

    >>> pack({"x": np.ones(2), "t": (1, None)})[0]
    {'dict': [['x', {'array': 0}], ['t', {'tuple': [1, None]}]]}
    """
    packer = _Packer()
    return packer.tree(value), packer.arrays


def unpack(tree: Any, arrays: list[np.ndarray[Any, Any]]) -> Any:
    """The value again.

    >>> unpack(*pack({"t": (1, None)}))
    {'t': (1, None)}
    """
    if isinstance(tree, PLAIN):
        return tree
    if isinstance(tree, list):
        return [unpack(item, arrays) for item in tree]
    if not isinstance(tree, dict) or len(tree) != 1:
        raise ValueError(f"a part of the tree is {tree!r:.50}, and not one kind with its content")
    ((kind, content),) = tree.items()
    return UNPACK[kind](content, arrays)


def fingerprint(value: Any) -> str:
    """A hash of everything in a value; the width of its integers does not count."""
    tree, arrays = pack(value)
    digest = hashlib.sha256(json.dumps(tree).encode())
    for array in arrays:
        wide = array.astype(np.int64, copy=False) if array.dtype.kind in "iu" else array
        digest.update(f"{wide.dtype.str}{wide.shape}".encode())
        digest.update(np.ascontiguousarray(wide).tobytes() if wide.ndim == 0 else np.ascontiguousarray(wide).data)
    return digest.hexdigest()


def is_storable(value: Any) -> bool:
    """Whether a checkpoint can hold the value."""
    try:
        pack(value)
    except TypeError:
        return False
    return True


class _Packer:
    def __init__(self) -> None:
        self.arrays: list[np.ndarray[Any, Any]] = []
        self.numbers: dict[int, int] = {}

    def tree(self, value: Any) -> Any:
        if type(value) in PLAIN:
            return value
        if isinstance(value, list):
            return [self.tree(item) for item in value]
        for kind, matches, content in PACK:
            if matches(value):
                return {kind: content(self, value)}
        raise TypeError(
            f"{value!r} is a {type(value).__module__}.{type(value).__qualname__}, which a checkpoint cannot hold: "
            f"it holds numbers, text, arrays, the frozen dataclasses of {PACKAGE}, and those declared with ef.storable"
        )

    def array(self, value: np.ndarray[Any, Any]) -> Any:
        if id(value) not in self.numbers:  # an array that is used twice is kept once
            self.numbers[id(value)] = len(self.arrays)
            self.arrays.append(value)
        return self.numbers[id(value)]

    def dataclass(self, value: Any) -> Any:
        given = {f.name: self.tree(getattr(value, f.name)) for f in fields(value) if f.init}
        return [_name(type(value)), given]


def _name(kind: type[Any]) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


def _ours(kind: type[Any]) -> bool:
    return kind.__module__.split(".")[0] == PACKAGE or _name(kind) in DECLARED


def _find(name: str) -> type[Any]:
    if name in DECLARED:
        return DECLARED[name]
    module, _, qualname = name.partition(":")
    if module.split(".")[0] != PACKAGE:
        raise ValueError(f"{name!r} is not a class of {PACKAGE}, and was not declared with ef.storable before")
    kind = vars(import_module(module)).get(qualname)
    if not inspect.isclass(kind) or not _ours(kind):
        raise ValueError(f"{name!r} is not a class of this version of {PACKAGE}")
    return kind


def _make(content: Any, arrays: list[np.ndarray[Any, Any]]) -> Any:
    name, given = content
    kind = _find(name)
    if not is_dataclass(kind):
        raise ValueError(f"{name!r} is not a dataclass")
    return kind(**{key: unpack(tree, arrays) for key, tree in given.items()})


def _csr(content: Any, arrays: list[np.ndarray[Any, Any]]) -> sparse.csr_array:
    shape, data, indices, indptr = content
    if {arrays[indices].dtype.kind, arrays[indptr].dtype.kind} != {"i"}:
        raise ValueError("the indices of a matrix are not whole numbers")
    made = sparse.csr_array((arrays[data], arrays[indices], arrays[indptr]), shape=tuple(shape))
    check_compressed(made)  # kernels trust it
    return made


PACK: tuple[tuple[str, Callable[[Any], bool], Callable[[_Packer, Any], Any]], ...] = (
    ("objects", lambda v: isinstance(v, np.ndarray) and v.dtype.kind == "O", lambda p, v: [p.tree(i) for i in v.tolist()]),
    ("array", lambda v: isinstance(v, np.ndarray), lambda p, v: p.array(v)),
    ("scalar", lambda v: isinstance(v, np.generic), lambda p, v: p.array(np.asarray(v))),
    ("tuple", lambda v: type(v) is tuple, lambda p, v: [p.tree(item) for item in v]),
    ("dict", lambda v: isinstance(v, dict), lambda p, v: [[p.tree(k), p.tree(item)] for k, item in v.items()]),
    (
        "csr",
        lambda v: isinstance(v, sparse.csr_array),
        lambda p, v: [list(v.shape), p.array(v.data), p.array(v.indices), p.array(v.indptr)],
    ),
    ("dtype", lambda v: isinstance(v, np.dtype), lambda p, v: v.str),
    ("path", lambda v: isinstance(v, Path), lambda p, v: str(v)),
    ("enum", lambda v: isinstance(v, Enum) and _ours(type(v)), lambda p, v: [_name(type(v)), v.name]),
    ("class", lambda v: inspect.isclass(v) and _ours(v), lambda p, v: _name(v)),
    ("make", lambda v: is_dataclass(v) and _ours(type(v)), lambda p, v: p.dataclass(v)),
)
UNPACK: dict[str, Callable[[Any, list[np.ndarray[Any, Any]]], Any]] = {
    "objects": lambda c, a: np.array([unpack(item, a) for item in c] + [None], dtype=object)[:-1],
    "array": lambda c, a: a[c],
    "scalar": lambda c, a: a[c][()],
    "tuple": lambda c, a: tuple(unpack(item, a) for item in c),
    "dict": lambda c, a: {unpack(key, a): unpack(item, a) for key, item in c},
    "csr": _csr,
    "dtype": lambda c, a: np.dtype(c),
    "path": lambda c, a: Path(c),
    "enum": lambda c, a: _find(c[0])[c[1]],
    "class": lambda c, a: _find(c),
    "make": _make,
}
