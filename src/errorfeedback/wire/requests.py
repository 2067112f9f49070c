"""What an engine carries to a shard and back, as bytes.

A request is its verb, a newline, its run, a sequence number, and what the verb needs; an answer is `DONE` or `FAILED`, and
what was asked for or why there is none. `clients.serving` answers them, `engines.remote` asks. The numbers of a run are
0, 1, 2, ...; a place that keeps to them (`clients.exactly_once`) answers `BEHIND`, and where it is, when it has missed one.

    run = digest of what was started (u32) | random (u32)

What a `start` says is the problem, the method and all options that clients know, so that every request of the run carries
their digest, in bytes that it has anyway. A place refuses requests of anything else (`clients.own_rows`).

    prepare, prepared   what places have to know of each other before the rounds (`clients.speaking`)
    start    a run begins, where the server has no rows (`clients.own_rows`): what clients know of it, and what it is of
    round    round and seed (i64 each), flags (u8), length of the probes (u32), probes (packed), frames down -> frames up
    values   kept (u8) -> one framed loss per client
    observe  x and whether to look at losses (packed) -> packed; in a simulation only
    memory   -> packed;   recall  memory, here, kept, round (packed) -> nothing
    result   what the run came to (packed) -> nothing;   close  why the run ends without one -> nothing
"""

from __future__ import annotations

import hashlib
import os
import struct
from dataclasses import dataclass
from typing import NamedTuple

HEAD = struct.Struct("<QQ")
ROUND = struct.Struct("<qqBI")
FLAG = struct.Struct("<B")
DONE, FAILED, BEHIND, AWAY = b"=", b"!", b"<", b"~"
"""How an answer begins. `AWAY` is a transport's word for a host that has not answered in time."""
MOVED, PLACED, CURVED, FINELY = 1, 2, 4, 8
"""Flags of a round: values come down; the host has been told already where x is; frames of curvature are to follow up, in
more digits than usual."""

HALF_RUN = 32
"""Bits of the digest in the number of a run, and of what is random."""


def digest_of(started: bytes) -> int:
    """Of what a `start` says: 4 bytes of BLAKE2b."""
    return int.from_bytes(hashlib.blake2b(started, digest_size=HALF_RUN // 8).digest(), "little")


def run_digest(run: int) -> int:
    """The digest that the number of a run carries.

    >>> run_digest(new_run(digest_of(b"EF21"))) == digest_of(b"EF21")
    True
    """
    return run >> HALF_RUN


def new_run(digest: int | None = None) -> int:
    """A number that no other run has; before anything is started there is nothing to take a digest of."""
    chance = int.from_bytes(os.urandom(8), "little")
    return chance if digest is None else digest << HALF_RUN | chance >> HALF_RUN


class Position(NamedTuple):
    """A request of a run: the last that a place has done."""

    run: int
    number: int

    def pack(self) -> bytes:
        return HEAD.pack(*self)

    @classmethod
    def unpack(cls, packed: bytes) -> Position:
        return cls(*HEAD.unpack(packed))


@dataclass(slots=True, frozen=True)
class Request:
    """What is asked of a shard. The same number of the same run asks for the same answer again."""

    verb: str
    number: int
    body: bytes = b""
    run: int = 0

    @property
    def position(self) -> Position:
        return Position(self.run, self.number)

    def pack(self) -> bytes:
        """
        >>> Request.unpack(Request("close", 7).pack())
        Request(verb='close', number=7, body=b'', run=0)
        """
        return b"".join((self.verb.encode(), b"\n", HEAD.pack(self.run, self.number), self.body))

    @classmethod
    def unpack(cls, sent: bytes) -> Request:
        verb, newline, _ = sent[:VERB].partition(b"\n")
        start = len(verb) + 1
        if not newline or not verb.isalpha() or len(sent) < start + HEAD.size:
            raise ValueError(f"not a request: it begins with {bytes(sent[:VERB])!r}")
        run, number = HEAD.unpack_from(sent, start)
        return cls(verb.decode(), number, sent[start + HEAD.size :], run)


VERB = 16
"""A verb is shorter than that."""
