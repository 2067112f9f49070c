"""Nodes on threads of this process, and a listener for them on loopback."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from itertools import chain, pairwise

import pytest
from own_places import CUTS, part

import errorfeedback as ef

needs_stream = pytest.mark.skipif(
    find_spec("cryptography") is None, reason="no cryptography: pip install 'errorfeedback[stream]'"
)
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


class Tapped:
    """A listener's port seen from a proxy, which cuts connections."""

    def __init__(self, port):
        self.target, self.pairs = port, []
        self.door = socket.create_server(("127.0.0.1", 0))
        self.port = self.door.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                here, _ = self.door.accept()
            except OSError:
                return
            try:
                there = socket.create_connection(("127.0.0.1", self.target))
            except OSError:  # the server is down
                here.close()
                continue
            self.pairs.append((here, there))
            for a, b in ((here, there), (there, here)):
                threading.Thread(target=self.carry, args=(a, b), daemon=True).start()

    @staticmethod
    def carry(a, b):
        with suppress(OSError):
            while data := a.recv(4096):
                b.sendall(data)
        for each in (a, b):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def cut(self):
        for pair in self.pairs:
            for each in pair:
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)

    def close(self):
        for each in (self.door, *chain(*self.pairs)):
            each.close()
