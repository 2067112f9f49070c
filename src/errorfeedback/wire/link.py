"""One TLS connection that carries frames, and counts what crosses the socket.

    frame = length u32 | kind (one byte) | what it is about

    up      HELLO   name and token of the node (packed)
            ANSWER  position of the request (run u64, number u64), how many requests are in a snapshot (u64), the answer
            ALIVE   the node is at work
    down    REQUEST, REFUSED and why, GOODBYE

TLS runs in memory here, so that nothing ever blocks and every byte that is written or read is seen. Whoever says too much,
or what is no TLS, is an `OSError` of this connection alone.
"""

from __future__ import annotations

import socket
import ssl
import struct
from contextlib import suppress

LENGTH = struct.Struct("<I")
ANSWERED = struct.Struct("<QQQ")
HELLO, ANSWER, ALIVE, REQUEST, REFUSED, GOODBYE = b"h", b"a", b"l", b"r", b"x", b"g"
CHUNK = 2**18
"""Bytes that are read at once: one side cannot keep the other from looking elsewhere."""
KEEPALIVE = {"TCP_KEEPIDLE": 15, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 4}
"""A machine that is gone without a word is noticed by the system after 35 seconds."""


class Link:
    """One side of a connection. `largest`: bytes of the longest frame that may come."""

    def __init__(self, raw: socket.socket, context: ssl.SSLContext, *, serving: bool, largest: int) -> None:
        self.raw, self.largest = raw, largest
        self.sent = self.received = 0
        """Bytes at the socket, with all that TLS adds."""
        self.shaken = False
        """The handshake is over."""
        self._arrived, self._leaving = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._arrived, self._leaving, server_side=serving)
        self._plain, self._queue, self._cipher = bytearray(), bytearray(), bytearray()
        self._closed = False
        raw.setblocking(False)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in KEEPALIVE.items():
            raw.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)

    def start(self) -> None:
        """The first word of the handshake, which is the caller's."""
        self._shake()
        self.flush()

    @property
    def certificate(self) -> bytes:
        """The other side's, as it was shown."""
        return self._tls.getpeercert(binary_form=True) or b""

    def put(self, kind: bytes, body: bytes = b"") -> None:
        """Send a frame, as far as it can be sent at once."""
        self._queue += LENGTH.pack(len(kind) + len(body)) + kind + body
        self.flush()

    @property
    def has_more(self) -> bool:
        """Something could not be sent yet."""
        return bool(self._cipher)

    def flush(self) -> None:
        """Send what can be sent."""
        while self.shaken and self._queue:
            written = self._tls.write(self._queue)
            del self._queue[:written]
        self._cipher += self._leaving.read()
        while self._cipher:
            try:
                written = self.raw.send(self._cipher)
            except BlockingIOError:
                return
            self.sent += written
            del self._cipher[:written]

    def frames(self) -> list[bytes]:
        """What has arrived whole; `OSError` when the other side is gone, or breaks the rules."""
        if self._closed:
            raise ConnectionResetError("the other side has closed the connection")
        self._receive()
        self.flush()
        frames = []
        while len(self._plain) >= LENGTH.size:
            (length,) = LENGTH.unpack_from(self._plain)
            if not 0 < length <= self.largest:
                raise ConnectionAbortedError(f"a frame of {length} bytes; it may have 1 to {self.largest}")
            if len(self._plain) < LENGTH.size + length:
                break
            frames.append(bytes(self._plain[LENGTH.size : LENGTH.size + length]))
            del self._plain[: LENGTH.size + length]
        return frames

    def _receive(self) -> None:
        try:
            data = self.raw.recv(CHUNK)
        except BlockingIOError:
            return
        self.received += len(data)
        self._closed = not data
        self._arrived.write(data)
        self._shake()
        try:
            while self.shaken and (chunk := self._tls.read(CHUNK)):
                self._plain += chunk
        except ssl.SSLWantReadError:
            return
        except ssl.SSLZeroReturnError:
            self._closed = True

    def _shake(self) -> None:
        """As far as the handshake can go with what has arrived."""
        if not self.shaken:
            with suppress(ssl.SSLWantReadError):
                self._tls.do_handshake()
                self.shaken = True

    def close(self) -> None:
        self.raw.close()
