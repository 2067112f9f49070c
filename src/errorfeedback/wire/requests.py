"""What an engine carries to a shard and back, as bytes.

A request is its verb, a newline, its run, a sequence number, and what the verb needs; an answer is `DONE` or `FAILED`, and
what was asked for or why there is none. `clients.serving` answers them, `engines.remote` asks. The numbers of a run are
0, 1, 2, ...; a place that keeps to them (`clients.exactly_once`) answers `BEHIND`, and where it is, when it has missed one.

    prepare, prepared   what places have to know of each other before the rounds (`clients.speaking`)
    start    a run begins, where the server has no rows (`clients.own_rows`): what clients know of it, and what it is of
    round    round and seed (i64 each), flags (u8), length of the probes (u32), probes (packed), frames down -> frames up
    values   kept (u8) -> one framed loss per client
    observe  x and whether to look at losses (packed) -> packed; in a simulation only
    memory   -> packed;   recall  memory, here, kept, round (packed) -> nothing
    result   what the run came to (packed) -> nothing;   close  why the run ends without one -> nothing
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import NamedTuple

HEAD = struct.Struct("<QQ")
ROUND = struct.Struct("<qqBI")
FLAG = struct.Struct("<B")
DONE, FAILED, BEHIND, AWAY = b"=", b"!", b"<", b"~"
"""How an answer begins. `AWAY` is a transport's word for a host that has not answered in time."""
MOVED, PLACED, CURVED = 1, 2, 4
"""Flags of a round: values come down; the host has been told already where x is; frames of curvature are to follow up."""


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
