"""Who may bring whom: which clients each node may speak for, checked before anything is started.

    {"clinic": range(0, 3), "laboratory": range(3, 15)}     so many; they are known by their place among all
    {"clinic": ["anna", "berta"], "laboratory": ["lab-*"]}  these, by what their node calls them; * is any letters

A client that is named to the server is one node's: who is not on its node's list, who is on it and does not come, and who is
brought by two nodes, ends the run by name. Other nodes do not hear the name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any


class NotAdmittedError(ValueError):
    """A node brings clients that it may not.

    >>> from threading import Thread
    >>> import numpy as np
    >>> import errorfeedback as ef
    >>> place = ef.OwnRows(ef.least_squares(np.eye(2), [1.0, 2.0], clients=2))
    >>> with ef.Listener({"clinic": range(1)}) as listener:
    ...     node = Thread(target=ef.join, args=(listener.invitation("clinic"), place))
    ...     node.start()
    ...     try:
    ...         ef.gathered(listener.transport(), 1)
    ...     except ef.NotAdmittedError as error:
    ...         print(error)
    clinic speaks for 2 clients; it may for 1
    >>> node.join()
    """


@dataclass(frozen=True)
class AllowList:
    """By the names of the nodes, in the order in which their clients are counted.

    >>> AllowList({"clinic": ["anna", "b*"], "laboratory": ["lab-*"]}).admit([["anna", "berta"], ["lab-1", "anna"]])
    Traceback (most recent call last):
        ...
    errorfeedback.engines.allow_list.NotAdmittedError: laboratory brings client anna, and it may bring lab-* alone
    """

    nodes: Mapping[str, Sequence[Any]]

    def __post_init__(self) -> None:
        if not self.nodes or not all(map(len, self.nodes.values())):
            raise ValueError(f"nodes = {dict(self.nodes)}; there must be a node, and every node must have a client")
        counted = [name for name, allowed in self.nodes.items() if isinstance(allowed, range)]
        if 0 < len(counted) < len(self.nodes):
            raise ValueError(
                f"of {', '.join(counted)} the clients are counted, and of other nodes they are named; name those of every "
                "node, or of none"
            )
        if not counted:
            _refuse_twice({name: list(map(str, allowed)) for name, allowed in self.nodes.items()}, "may be brought")

    def among(self, names: Sequence[str]) -> AllowList:
        """The part of the list that is about these nodes."""
        return AllowList({name: self.nodes[name] for name in names})

    def admit(self, brought: Sequence[Sequence[Any]]) -> None:
        """Raise where a node brings others than it may, by what every node's clients are called there."""
        names = {node: list(map(_printable, mine)) for node, mine in zip(self.nodes, brought, strict=True)}
        for node, allowed in self.nodes.items():
            check = _check_count if isinstance(allowed, range) else _check_names
            check(node, allowed, names[node])
        if not any(isinstance(allowed, range) for allowed in self.nodes.values()):
            _refuse_twice(names, "is brought")


def _printable(name: Any) -> str:
    """A node may call its clients anything; a terminal shows it."""
    text = str(name)
    return text if text.isprintable() else repr(text)


def _check_count(node: str, allowed: Sequence[Any], names: list[str]) -> None:
    if len(names) != len(allowed):
        raise NotAdmittedError(f"{node} speaks for {len(names)} clients; it may for {len(allowed)}")


def _check_names(node: str, allowed: Sequence[Any], names: list[str]) -> None:
    patterns = list(map(str, allowed))
    for name in names:
        if not any(fnmatchcase(name, pattern) for pattern in patterns):
            raise NotAdmittedError(f"{node} brings client {name}, and it may bring {', '.join(patterns)} alone")
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise NotAdmittedError(f"{node} does not bring client {pattern}; let it, or take it off the list")


def _refuse_twice(names: Mapping[str, list[str]], how: str) -> None:
    """A client is one node's, and there once."""
    owners: dict[str, str] = {}
    for node, mine in names.items():
        for name in mine:
            if name in owners:
                raise NotAdmittedError(
                    f"client {name} {how} by {owners[name]} and by {node}; a client comes once, from one node"
                )
            owners[name] = node
