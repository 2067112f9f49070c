"""What crosses the network, byte by byte.

A client's frame (little-endian):

    version and coding u8 | check u16 | count: 7 bits per byte | indices, what is said beside, count values; as bits

The version is in the high half of the first byte; the low half says how values travel (float64, float32, truncated floats,
or codes that count in units).
The check is a hash of the other bytes, keyed by (seed, round, client): a frame that was damaged, or belongs to another
client, run or round, is refused (of random changes that leave the structure whole, one in 65,536 passes).
Positions that both sides can tell (`Method.known`) are not sent; the others are, by index: ceil(log2 of how many others
the segment has) bits each, ascending; none where the client sends all it has. Then follow the numbers that were asked for
(up: the leading bits of a float64 each; down: a command, and the numbers of the downlink) and the values in their coding
(`wire.coding`): where a block of them has a unit, the unit comes first. Zeros fill the last byte.

Clients come in order and have no number in their frames. Where both sides know who takes part and with how many values, a
client that has neither values nor anything to tell has no frame. `wire.frames` says what all of it takes. The same code
frames what goes up and what comes down.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from errorfeedback.core import Integers, PerClient, Round
from errorfeedback.sparsity.support import Support
from errorfeedback.wire.bits import Bytes
from errorfeedback.wire.coding import FULL, Coding, Patterns
from errorfeedback.wire.frames import Frames, bits_per_index, self_counted
from errorfeedback.wire.framing import CUT, HALF, VERSION, decode_frames, encode_frames, read_counts
from errorfeedback.wire.message import NOWHERE, KnownLayout, Message

NOTHING_BESIDE = np.empty((0, 0), dtype=np.uint64)
TROUBLES = (
    "",
    "it ends in the middle of a frame",
    f"its version is not {VERSION}",
    "its values are not in the precision of this run",
    "its count is not the number of values that this client sends in this round",
    "its checksum does not fit: it was damaged, or belongs to another client, run or round",
    "the bits that fill its last byte are not zero",
    "its indices are not ascending positions of the client",
    "there are more bytes after the last client's frame",
)


class WireError(ValueError):
    """Bytes that are not the frames of this shard in this round."""


def encode(message: Message, known: KnownLayout | None, ctx: Round, beside: Patterns, widths: Integers) -> Bytes:
    """The frames of a shard's message; `message.frames.cost` says their length. `beside`: (n, numbers), what clients say
    beside their values, number k in the low widths[k] bits. `known` is None where the receiver knows nothing beforehand."""
    support, frames, dtype = message.support, message.frames, message.values.dtype
    coding, precision = frames.coding, 8 * dtype.itemsize
    values, units = coding.encoded(message.values, message.units, frames.counts)
    out = np.zeros(frames.cost(int(widths.sum()), precision).bits // 8, dtype=np.uint8)
    encode_frames(
        (ctx.seed, ctx.t, support.first),
        VERSION * HALF + coding.mark(dtype),
        _form(coding, precision),
        support.indptr,
        NOWHERE if message.positions is None else message.positions,
        NOWHERE if known is None or known.positions is None else known.positions,
        frames.counts,
        frames.announced,
        widths,
        beside,
        values,
        units,
        out,
    )
    return out


def decode(
    sent: Bytes,
    known: KnownLayout | None,
    support: Support,
    ctx: Round,
    dtype: np.dtype[Any],
    widths: Integers = NOWHERE,
    coding: Coding = FULL,
) -> tuple[Message, Patterns]:
    """The message again, with values in the precision of the problem, and what was said beside; `WireError` names the
    client and what is wrong. `coding`: how values travel, where nothing is known beforehand."""
    precision = 8 * dtype.itemsize
    if known is None:
        known = said(sent, support, widths, precision, coding)
    elif not known.frames.announced:
        known = said(sent, support, widths, precision, known.frames.coding)
    frames, total = known.frames, known.frames.total
    sure = NOWHERE if known.positions is None else known.positions
    fill = known.positions is not None and len(sure) < total
    positions = np.empty(total, dtype=np.int64) if fill else sure
    values, units = (np.empty(size, dtype=np.uint64) for size in (total, int(frames.units.sum())))
    beside = np.empty((support.n, len(widths)), dtype=np.uint64)
    trouble, client = decode_frames(
        (ctx.seed, ctx.t, support.first),
        VERSION * HALF + frames.coding.mark(dtype),
        _form(frames.coding, precision),
        support.indptr,
        sure,
        frames.counts,
        frames.announced,
        widths,
        sent,
        fill,
        positions,
        beside,
        values,
        units,
    )
    if trouble:
        raise WireError(f"the message of client {client} was refused: {TROUBLES[trouble]}")
    restored = frames.coding.decoded(values, units, frames.counts, dtype)
    return Message(
        support, None if known.positions is None else positions, restored, frames, frames.coding.units(units)
    ), beside


def _form(coding: Coding, precision: int) -> tuple[int, int, int]:
    """Bits of a value and of a unit, and how many values have one."""
    return coding.width(precision), coding.unit_bits, coding.length


def said(sent: Bytes, support: Support, widths: Integers, precision: int, coding: Coding) -> KnownLayout:
    """How many values each client has, by its own frame."""
    counts, sizes = np.zeros(support.n, dtype=np.int64), support.sizes
    index = bits_per_index(sizes)
    client = read_counts(sent, sizes, index, int(widths.sum()), _form(coding, precision), counts)
    if client >= 0:
        raise WireError(f"the message of client {support.first + client} was refused: {TROUBLES[CUT]}")
    return KnownLayout(self_counted(counts, sizes, coding))


def encode_losses(losses: PerClient, first: int, ctx: Round) -> Bytes:
    """One float64 of every client, framed: `LOSS_FRAME_BITS` each."""
    support, known = _one_each(len(losses), first)
    return encode(Message(support, None, losses, known.frames), known, ctx, NOTHING_BESIDE, NOWHERE)


def decode_losses(sent: Bytes, clients: Support, ctx: Round) -> PerClient:
    """The losses again."""
    support, known = _one_each(clients.n, clients.first)
    return PerClient(decode(sent, known, support, ctx, np.dtype(np.float64))[0].values)


@lru_cache
def _one_each(n: int, first: int) -> tuple[Support, KnownLayout]:
    """Clients with one number each."""
    support = Support(indptr=np.arange(n + 1), indices=np.zeros(n, dtype=np.int32), d=1, first=first)
    return support, KnownLayout(Frames(support.sizes, np.zeros(n, dtype=np.int64)), None)
