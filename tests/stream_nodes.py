"""Nodes on threads of this process, and a listener for them on loopback."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from itertools import pairwise

from own_places import CUTS, part

import errorfeedback as ef

NODES = {name: range(lo, hi) for name, (lo, hi) in zip("abc", pairwise(CUTS), strict=True)}


@contextmanager
def joined(listener, folder=None, places=None, scale=True):
    """Nodes on threads, until the listener says goodbye."""
    places = {name: ef.OwnRows(part(mine.start, mine.stop), scale) for name, mine in NODES.items()} | (places or {})
    threads = [
        threading.Thread(target=ef.join, args=(listener.invitation(name), place, folder)) for name, place in places.items()
    ]
    with listener:
        for thread in threads:
            thread.start()
        yield listener.transport()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()
