"""Families found by file discovery: adding a member touches one file."""

from __future__ import annotations

import inspect
from dataclasses import MISSING, fields
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import Any, TypeVar

T = TypeVar("T")


def members(package: ModuleType, base: type[T]) -> dict[str, type[T]]:
    """The final subclasses of `base` in the files of `package` (its base.py holds what they share), by name."""
    family: dict[str, type[T]] = {}
    for info in sorted(iter_modules(package.__path__), key=lambda info: info.name):
        if info.name == "base":
            continue
        module = import_module(f"{package.__name__}.{info.name}")
        for name, member in vars(module).items():
            if (
                inspect.isclass(member)
                and issubclass(member, base)
                and member.__module__ == module.__name__
                and not inspect.isabstract(member)
                and not name.startswith("_")
            ):
                family[name] = member
    return family


def required(kind: type[Any]) -> list[str]:
    """The fields of a dataclass that must be given: without any, it can be made as it is."""
    return [f.name for f in fields(kind) if f.init and f.default is MISSING and f.default_factory is MISSING]
