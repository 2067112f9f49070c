"""A door on the loopback interface that passes bytes on and counts them: what really crosses between a node and a server,
TLS, HTTP and polls included."""

from __future__ import annotations

import socket
from contextlib import suppress
from threading import Lock, Thread
from typing import Self

CHUNK = 1 << 16


class Relay:
    """Passes connections on to `target`; `up` are the bytes of whoever connects, `down` those of the target."""

    def __init__(self, target: int) -> None:
        self.target, self.up, self.down = target, 0, 0
        self._lock, self._open = Lock(), list[socket.socket]()
        self._door = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._door.getsockname()[1]
        Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for each in (self._door, *self._open):
            _end(each)

    def _accept(self) -> None:
        while True:
            try:
                visitor, _ = self._door.accept()
            except OSError:  # closed
                return
            try:
                behind = socket.create_connection(("127.0.0.1", self.target))
            except OSError:  # nobody there yet
                _end(visitor)
                continue
            self._open += [visitor, behind]
            Thread(target=self._pass, args=(visitor, behind, 1, 0), daemon=True).start()
            Thread(target=self._pass, args=(behind, visitor, 0, 1), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket, up: int, down: int) -> None:
        try:
            while chunk := source.recv(CHUNK):
                with self._lock:
                    self.up += up * len(chunk)
                    self.down += down * len(chunk)
                sink.sendall(chunk)
        except OSError:
            pass
        finally:
            _end(source)
            _end(sink)


def _end(open_socket: socket.socket) -> None:
    """Whoever waits at it wakes up."""
    with suppress(OSError):
        open_socket.shutdown(socket.SHUT_RDWR)
    open_socket.close()
