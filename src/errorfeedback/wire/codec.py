"""What crosses the network, byte by byte.

A client's frame (little-endian):

    version and precision u8 | check u16 | count: 7 bits per byte | indices and what is told, as bits | count values

The version is in the high half of the first byte, the precision of the values (float64, float32, or the leading 32 or 16
bits of a float64) in the low half.
The check is a hash of the other bytes, keyed by (seed, round, client): a frame that was damaged, or belongs to another
client, run or round, is refused (of random changes that leave the structure whole, one in 65,536 passes).
Positions that both sides can tell (`Method.known`) are not sent; the others are, by index: ceil(log2 of how many others
the segment has) bits each, ascending; none where the client sends all it has. Then follow the numbers that were asked for
(up: the leading bits of a float64 each; down: a command, and the numbers of the downlink); zeros fill the last byte.

Clients come in order and have no number in their frames. Where both sides know who takes part and with how many values, a
client that has neither values nor anything to tell has no frame. `wire.frames` says what all of it takes. The same code
frames what goes up and what comes down.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from errorfeedback.core import VALUE_BITS, Floats, Integers, PerClient, Round
from errorfeedback.sparsity.support import Support
from errorfeedback.wire.bits import HEAD, Bytes, bits_for, frame_check, get_bits, put_bits
from errorfeedback.wire.frames import DIGIT, Frames, bits_per_index
from errorfeedback.wire.message import NOWHERE, KnownLayout, Message

Patterns = NDArray[np.uint64]
VERSION = 2
NOTHING_BESIDE = np.empty((0, 0), dtype=np.uint64)
HALF = 16
"""The version is in the high half of its byte."""
FORMATS: dict[tuple[np.dtype[Any], int | None], tuple[np.dtype[Any], int]] = {
    (np.dtype(np.float64), None): (np.dtype("<f8"), VERSION * HALF),
    (np.dtype(np.float32), None): (np.dtype("<f4"), VERSION * HALF + 1),
    **{
        (np.dtype(dtype), bits): (np.dtype(f"<u{bits // 8}"), VERSION * HALF + code)
        for dtype in (np.float64, np.float32)
        for bits, code in ((32, 2), (16, 3))
    },
}
"""The problem's precision and the bits of shorter values -> how a value is stored, and the first byte of a frame."""
MORE = 1 << DIGIT
"""Marks a byte of the count that is not its last."""
WORD = 56
"""Bits of the largest count."""
WHOLE, CUT, VERSION_WRONG, PRECISION_WRONG, COUNT_WRONG, CHECK_WRONG, PADDING_WRONG, INDEX_WRONG, LONG = range(9)
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
    precision, lead = FORMATS[dtype, frames.value_bits]
    positions = NOWHERE if message.positions is None else message.positions
    out = np.zeros(frames.cost(int(widths.sum()), 8 * dtype.itemsize).bits // 8, dtype=np.uint8)
    _encode(
        (ctx.seed, ctx.t, support.first),
        lead,
        precision.itemsize,
        support.indptr,
        positions,
        NOWHERE if known is None or known.positions is None else known.positions,
        frames.counts,
        frames.announced,
        widths,
        beside,
        _stored(message.values, frames.value_bits, precision).view(np.uint8),
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
    value_bits: int | None = None,
) -> tuple[Message, Patterns]:
    """The message again, with values in the precision of the problem, and what was told; `WireError` names the client and
    what is wrong. `value_bits`: the bits of a value, where nothing is known beforehand."""
    if known is None:
        known = KnownLayout(_announced(sent, support, widths, dtype, value_bits))
    frames, total = known.frames, known.frames.total
    precision, lead = FORMATS[dtype, frames.value_bits]
    sure = NOWHERE if known.positions is None else known.positions
    fill = known.positions is not None and len(sure) < total
    positions = np.empty(total, dtype=np.int64) if fill else sure
    values = np.empty(total * precision.itemsize, dtype=np.uint8)
    beside = np.empty((support.n, len(widths)), dtype=np.uint64)
    trouble, client = _decode(
        (ctx.seed, ctx.t, support.first),
        lead,
        precision.itemsize,
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
    )
    if trouble:
        raise WireError(f"the message of client {client} was refused: {TROUBLES[trouble]}")
    restored = _restored(values.view(precision), frames.value_bits, dtype)
    return Message(support, None if known.positions is None else positions, restored, frames), beside


def _announced(sent: Bytes, support: Support, widths: Integers, dtype: np.dtype[Any], value_bits: int | None) -> Frames:
    """How many values each client has, by its own frame."""
    counts, sizes = np.zeros(support.n, dtype=np.int64), support.sizes
    index = bits_per_index(sizes)
    width = FORMATS[dtype, value_bits][0].itemsize
    client = _counts(sent, sizes, index, int(widths.sum()), width, counts)
    if client >= 0:
        raise WireError(f"the message of client {support.first + client} was refused: {TROUBLES[CUT]}")
    return Frames(counts, counts * index * (counts < sizes), value_bits, announced=False)


def encode_losses(losses: PerClient, first: int, ctx: Round) -> Bytes:
    """One float64 of every client, framed: `LOSS_FRAME_BITS` each."""
    support, known = _one_each(len(losses), first)
    return encode(Message(support, None, losses, known.frames), known, ctx, NOTHING_BESIDE, NOWHERE)


def decode_losses(sent: Bytes, clients: Support, ctx: Round) -> PerClient:
    """The losses again."""
    support, known = _one_each(clients.n, clients.first)
    return PerClient(decode(sent, known, support, ctx, np.dtype(np.float64))[0].values)


def _stored(values: Floats, value_bits: int | None, precision: np.dtype[Any]) -> NDArray[Any]:
    """Values as they travel: as they are, or their leading bits."""
    if value_bits is None:
        return values.astype(precision, copy=False)
    return (values.astype(np.float64).view(np.uint64) >> np.uint64(VALUE_BITS - value_bits)).astype(precision)


def _restored(sent: NDArray[Any], value_bits: int | None, dtype: np.dtype[Any]) -> Floats:
    if value_bits is None:
        return sent.astype(dtype, copy=False)
    return (sent.astype(np.uint64) << np.uint64(VALUE_BITS - value_bits)).view(np.float64).astype(dtype)


@lru_cache
def _one_each(n: int, first: int) -> tuple[Support, KnownLayout]:
    """Clients with one number each."""
    support = Support(indptr=np.arange(n + 1), indices=np.zeros(n, dtype=np.int32), d=1, first=first)
    return support, KnownLayout(Frames(support.sizes, np.zeros(n, dtype=np.int64)), None)


@numba.njit(cache=True, nogil=True)
def _encode(
    keys: Any,
    lead: int,
    width: int,
    indptr: Integers,
    positions: Integers,
    sure: Integers,
    counts: Integers,
    announced: bool,
    widths: Integers,
    patterns: Patterns,
    values: Bytes,
    out: Bytes,
) -> None:
    seed, t, first = keys
    at = a = p = 0
    for i in range(len(indptr) - 1):
        lo, hi, count = indptr[i], indptr[i + 1], counts[i]
        if announced and count == 0 and len(widths) == 0:
            continue
        start = at
        out[at] = lead
        at += HEAD
        rest = count
        while rest >= MORE:
            out[at] = (rest & (MORE - 1)) | MORE
            rest >>= DIGIT
            at += 1
        out[at] = rest
        bit = 8 * (at + 1)
        known = a
        while a < len(sure) and sure[a] < hi:
            a += 1
        if count < hi - lo and a - known < count:
            bits = bits_for(hi - lo - (a - known))
            before = 0  # sure positions of the segment so far: an index does not count them
            for q in range(p, p + count):
                if known + before < a and sure[known + before] == positions[q]:
                    before += 1
                else:
                    bit = put_bits(out, bit, np.uint64(positions[q] - lo - before), bits)
        for k in range(len(widths)):
            bit = put_bits(out, bit, patterns[i, k], widths[k])
        at = (bit + 7) >> 3
        for k in range(count * width):
            out[at + k] = values[p * width + k]
        at += count * width
        p += count
        check = frame_check(seed, t, first + i, out, start, at)
        out[start + 1], out[start + 2] = check & 255, check >> 8


@numba.njit(cache=True, nogil=True)
def _decode(  # noqa: PLR0912
    keys: Any,
    lead: int,
    width: int,
    indptr: Integers,
    sure: Integers,
    counts: Integers,
    announced: bool,
    widths: Integers,
    sent: Bytes,
    fill: bool,
    positions: Integers,
    patterns: Patterns,
    values: Bytes,
) -> tuple[int, int]:
    """(trouble, client)."""
    seed, t, first = keys
    at = a = p = 0
    beside = widths.sum()
    for i in range(len(indptr) - 1):
        lo, hi, count, client = indptr[i], indptr[i + 1], counts[i], first + i
        if announced and count == 0 and len(widths) == 0:
            continue
        start = at
        if at + HEAD >= len(sent):
            return CUT, client
        if sent[at] // HALF != VERSION:
            return VERSION_WRONG, client
        if sent[at] != lead:
            return PRECISION_WRONG, client
        at += HEAD
        rest = count
        while rest >= MORE and at < len(sent):
            if sent[at] != (rest & (MORE - 1)) | MORE:
                return COUNT_WRONG, client
            rest >>= DIGIT
            at += 1
        if at >= len(sent):
            return CUT, client
        if sent[at] != rest:
            return COUNT_WRONG, client
        bit = 8 * (at + 1)
        known = a
        while a < len(sure) and sure[a] < hi:
            a += 1
        others = count - (a - known) if count < hi - lo else 0
        bits = bits_for(hi - lo - (a - known))
        end = (bit + others * bits + beside + 7) >> 3
        if end + count * width > len(sent):
            return CUT, client
        check = int(sent[start + 1]) | int(sent[start + 2]) << 8
        if frame_check(seed, t, client, sent, start, end + count * width) != check:
            return CHECK_WRONG, client
        if fill and not _place(sent, bit, bits, others, lo, hi, sure, known, a, positions, p, p + count):
            return INDEX_WRONG, client
        bit += others * bits
        for k in range(len(widths)):
            patterns[i, k] = get_bits(sent, bit, widths[k])
            bit += widths[k]
        if get_bits(sent, bit, 8 * end - bit):
            return PADDING_WRONG, client
        for k in range(count * width):
            values[p * width + k] = sent[end + k]
        p += count
        at = end + count * width
    return (WHOLE if at == len(sent) else LONG), first + len(indptr) - 2


@numba.njit(cache=True, nogil=True)
def _counts(sent: Bytes, sizes: Integers, index: Integers, beside: int, width: int, counts: Integers) -> int:
    """counts: what every client's frame says; the client whose frame is cut or says more than it owns, or -1."""
    at = 0
    for i in range(len(sizes)):
        at += HEAD
        count, shift = 0, 0
        while at < len(sent) and sent[at] & MORE and shift < WORD:
            count |= int(sent[at] & (MORE - 1)) << shift
            shift += DIGIT
            at += 1
        if at >= len(sent) or shift >= WORD:
            return i
        count |= int(sent[at]) << shift
        if count > sizes[i]:
            return i
        counts[i] = count
        bits = beside + (count * index[i] if count < sizes[i] else 0)
        at += 1 + ((bits + 7) >> 3) + count * width
    return -1 if at <= len(sent) else len(sizes) - 1


@numba.njit(cache=True, nogil=True)
def _place(
    sent: Bytes,
    bit: int,
    bits: int,
    others: int,
    lo: int,
    hi: int,
    sure: Integers,
    k: int,
    last: int,
    positions: Integers,
    p: int,
    stop: int,
) -> bool:
    """positions[p:stop] of a frame: all of lo:hi, or sure[k:last] and among the rest those whose indices were sent."""
    if stop - p == hi - lo:
        for q in range(hi - lo):
            positions[p + q] = lo + q
        return True
    first, before = k, -1
    for _ in range(others):
        index = int(get_bits(sent, bit, bits))
        bit += bits
        if index <= before:
            return False
        before = index
        position = lo + index + k - first  # the index-th position of the segment that is not sure
        while k < last and sure[k] <= position:
            positions[p] = sure[k]
            p += 1
            k += 1
            position += 1
        if position >= hi:
            return False
        positions[p] = position
        p += 1
    for q in range(k, last):
        positions[p + q - k] = sure[q]
    return True
