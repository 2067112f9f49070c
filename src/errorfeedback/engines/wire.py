"""What crosses the network, byte by byte.

A client's frame (little-endian):

    version and precision u8 | check u16 | count: 7 bits per byte | indices and what is told, as bits | count values

The version is in the high half of the first byte, the precision of the values (float64, float32, or the leading 32 or 16
bits of a float64) in the low half.
The check is a hash of the other bytes, keyed by (seed, round, client): a frame that was damaged, or belongs to another
client, run or round, is refused (of random changes that leave the structure whole, one in 65,536 passes).
Positions that both sides can tell (`Method.agreed`) are not sent; the others are, by index: ceil(log2 of how many others
the segment has) bits each, ascending; none where the client sends all it has. Then follow the numbers that were asked for
(`Ask`): the leading bits of a float64 for slope and loss, values for the rest; zeros fill the last byte.

Clients come in order and have no number in their frames. Both sides know who answers and with how many values; a client
that has neither values nor anything to tell has no frame. `compressors.frames` says what all of it takes.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from errorfeedback.compressors.base import NOWHERE, Agreed, Message
from errorfeedback.compressors.frames import DIGIT, HEAD_BITS, Frames
from errorfeedback.core import VALUE_BITS, Ask, Floats, Integers, PerClient, Round
from errorfeedback.keyed import mix, stream
from errorfeedback.sparsity.support import Support

Bytes = NDArray[np.uint8]
Patterns = NDArray[np.uint64]
VERSION = 1
HALF = 16
"""The version is in the high half of its byte."""
HEAD = HEAD_BITS // 8
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
FNV = np.uint64(0x100000001B3)
"""The prime of the hash of Fowler, Noll and Vo."""
MORE = 1 << DIGIT
"""Marks a byte of the count that is not its last."""
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


def encode(message: Message, agreed: Agreed, ctx: Round) -> Bytes:
    """The frames of a shard's message; `message.cost` says their length."""
    support, frames, dtype = message.support, message.frames, message.values.dtype
    precision, lead = FORMATS[dtype, frames.value_bits]
    value_bits = 8 * dtype.itemsize
    out = np.zeros(frames.cost(ctx.ask.bits(value_bits), value_bits).bits // 8, dtype=np.uint8)
    _encode(
        (ctx.seed, ctx.t, support.first),
        lead,
        precision.itemsize,
        support.indptr,
        NOWHERE if message.positions is None else message.positions,
        NOWHERE if agreed.positions is None else agreed.positions,
        frames.counts,
        _widths(ctx.ask, value_bits),
        _patterns(message.told, ctx.ask, dtype),
        _stored(message.values, frames.value_bits, precision).view(np.uint8),
        out,
    )
    return out


def decode(sent: Bytes, agreed: Agreed, support: Support, ctx: Round, dtype: np.dtype[Any]) -> Message:
    """The message again, with values in the precision of the problem; `WireError` names the client and what is wrong."""
    frames, total = agreed.frames, agreed.frames.total
    precision, lead = FORMATS[dtype, frames.value_bits]
    known = NOWHERE if agreed.positions is None else agreed.positions
    fill = agreed.positions is not None and len(known) < total
    positions = np.empty(total, dtype=np.int64) if fill else known
    values = np.empty(total * precision.itemsize, dtype=np.uint8)
    widths = _widths(ctx.ask, 8 * dtype.itemsize)
    patterns = np.empty((support.n, len(widths)), dtype=np.uint64)
    trouble, client = _decode(
        (ctx.seed, ctx.t, support.first),
        lead,
        precision.itemsize,
        support.indptr,
        known,
        frames.counts,
        widths,
        sent,
        fill,
        positions,
        patterns,
        values,
    )
    if trouble:
        raise WireError(f"the message of client {client} was refused: {TROUBLES[trouble]}")
    told = _numbers(patterns, ctx.ask, dtype) if len(widths) else None
    found = _restored(values.view(precision), frames.value_bits, dtype)
    return Message(support, None if agreed.positions is None else positions, found, frames, told)


def encode_losses(losses: PerClient, first: int, ctx: Round) -> Bytes:
    """One float64 of every client, framed: `LOSS_FRAME_BITS` each."""
    support, agreed = _one_each(len(losses), first)
    return encode(Message(support, None, losses, agreed.frames), agreed, Round(ctx.t, ctx.seed))


def decode_losses(sent: Bytes, clients: Support, ctx: Round) -> PerClient:
    """The losses again."""
    support, agreed = _one_each(clients.n, clients.first)
    return decode(sent, agreed, support, Round(ctx.t, ctx.seed), np.dtype(np.float64)).values


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
def _one_each(n: int, first: int) -> tuple[Support, Agreed]:
    """Clients with one number each."""
    support = Support(indptr=np.arange(n + 1), indices=np.zeros(n, dtype=np.int32), d=1, first=first)
    return support, Agreed(Frames(support.sizes, np.zeros(n, dtype=np.int64)), None)


@lru_cache
def _widths(ask: Ask, value_bits: int) -> Integers:
    return np.array(ask.widths(value_bits), dtype=np.int64)


def _patterns(told: Floats | None, ask: Ask, dtype: np.dtype[Any]) -> Patterns:
    """(n, numbers): the bits of what is told, to the right."""
    if told is None:
        return np.empty((0, 0), dtype=np.uint64)
    value_bits = 8 * dtype.itemsize
    patterns = np.ascontiguousarray(told).view(np.uint64) >> (VALUE_BITS - _widths(ask, value_bits)).astype(np.uint64)
    short = ask.G + ask.sketch
    if value_bits < VALUE_BITS and short:
        patterns[:, -short:] = np.ascontiguousarray(told[:, -short:], dtype=np.float32).view(np.uint32)
    return patterns


def _numbers(patterns: Patterns, ask: Ask, dtype: np.dtype[Any]) -> Floats:
    """(n, numbers): what was told."""
    value_bits = 8 * dtype.itemsize
    told = (patterns << (VALUE_BITS - _widths(ask, value_bits)).astype(np.uint64)).view(np.float64)
    short = ask.G + ask.sketch
    if value_bits < VALUE_BITS and short:
        told[:, -short:] = patterns[:, -short:].astype(np.uint32).view(np.float32)
    return told


@numba.njit(cache=True, nogil=True)
def _bits_for(others: int) -> int:
    """ceil(log2 others)."""
    bits = 0
    while (1 << bits) < others:
        bits += 1
    return bits


@numba.njit(cache=True, nogil=True)
def _check(seed: int, t: int, client: int, sent: Bytes, start: int, stop: int) -> int:
    """16 bits of a hash over a frame without its own two bytes: FNV-1a, keyed at the start and mixed at the end."""
    state = (stream(seed, t, client) ^ np.uint64(sent[start])) * FNV
    for k in range(start + HEAD, stop):
        state = (state ^ np.uint64(sent[k])) * FNV
    return int(mix(state) >> np.uint64(48))


@numba.njit(cache=True, nogil=True)
def _put(out: Bytes, bit: int, number: np.uint64, width: int) -> int:
    """Write the low bits of a number, the lowest first; the place after them."""
    while width > 0:
        room = 8 - (bit & 7)
        out[bit >> 3] |= np.uint8((number << np.uint64(bit & 7)) & np.uint64(255))
        step = min(room, width)
        number >>= np.uint64(step)
        bit += step
        width -= step
    return bit


@numba.njit(cache=True, nogil=True)
def _get(sent: Bytes, bit: int, width: int) -> np.uint64:
    """The number that `_put` wrote there."""
    number, have = np.uint64(0), 0
    while have < width:
        step = min(8 - (bit & 7), width - have)
        piece = (np.uint64(sent[bit >> 3]) >> np.uint64(bit & 7)) & ((np.uint64(1) << np.uint64(step)) - np.uint64(1))
        number |= piece << np.uint64(have)
        bit += step
        have += step
    return number


@numba.njit(cache=True, nogil=True)
def _encode(
    keys: Any,
    lead: int,
    width: int,
    indptr: Integers,
    positions: Integers,
    agreed: Integers,
    counts: Integers,
    widths: Integers,
    patterns: Patterns,
    values: Bytes,
    out: Bytes,
) -> None:
    seed, t, first = keys
    at = a = p = 0
    for i in range(len(indptr) - 1):
        lo, hi, count = indptr[i], indptr[i + 1], counts[i]
        if count == 0 and len(widths) == 0:
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
        while a < len(agreed) and agreed[a] < hi:
            a += 1
        if count < hi - lo and a - known < count:
            bits = _bits_for(hi - lo - (a - known))
            before = 0  # agreed positions of the segment so far: an index does not count them
            for q in range(p, p + count):
                if known + before < a and agreed[known + before] == positions[q]:
                    before += 1
                else:
                    bit = _put(out, bit, np.uint64(positions[q] - lo - before), bits)
        for k in range(len(widths)):
            bit = _put(out, bit, patterns[i, k], widths[k])
        at = (bit + 7) >> 3
        for k in range(count * width):
            out[at + k] = values[p * width + k]
        at += count * width
        p += count
        check = _check(seed, t, first + i, out, start, at)
        out[start + 1], out[start + 2] = check & 255, check >> 8


@numba.njit(cache=True, nogil=True)
def _decode(  # noqa: PLR0912
    keys: Any,
    lead: int,
    width: int,
    indptr: Integers,
    agreed: Integers,
    counts: Integers,
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
    told = widths.sum()
    for i in range(len(indptr) - 1):
        lo, hi, count, client = indptr[i], indptr[i + 1], counts[i], first + i
        if count == 0 and len(widths) == 0:
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
        while a < len(agreed) and agreed[a] < hi:
            a += 1
        others = count - (a - known) if count < hi - lo else 0
        bits = _bits_for(hi - lo - (a - known))
        end = (bit + others * bits + told + 7) >> 3
        if end + count * width > len(sent):
            return CUT, client
        found = int(sent[start + 1]) | int(sent[start + 2]) << 8
        if _check(seed, t, client, sent, start, end + count * width) != found:
            return CHECK_WRONG, client
        if fill and not _place(sent, bit, bits, others, lo, hi, agreed, known, a, positions, p, p + count):
            return INDEX_WRONG, client
        bit += others * bits
        for k in range(len(widths)):
            patterns[i, k] = _get(sent, bit, widths[k])
            bit += widths[k]
        if _get(sent, bit, 8 * end - bit):
            return PADDING_WRONG, client
        for k in range(count * width):
            values[p * width + k] = sent[end + k]
        p += count
        at = end + count * width
    return (WHOLE if at == len(sent) else LONG), first + len(indptr) - 2


@numba.njit(cache=True, nogil=True)
def _place(
    sent: Bytes,
    bit: int,
    bits: int,
    others: int,
    lo: int,
    hi: int,
    agreed: Integers,
    k: int,
    last: int,
    positions: Integers,
    p: int,
    stop: int,
) -> bool:
    """positions[p:stop] of a frame: all of lo:hi, or agreed[k:last] and among the rest those whose indices were sent."""
    if stop - p == hi - lo:
        for q in range(hi - lo):
            positions[p + q] = lo + q
        return True
    first, before = k, -1
    for _ in range(others):
        index = int(_get(sent, bit, bits))
        bit += bits
        if index <= before:
            return False
        before = index
        position = lo + index + k - first  # the index-th position of the segment that is not agreed
        while k < last and agreed[k] <= position:
            positions[p] = agreed[k]
            p += 1
            k += 1
            position += 1
        if position >= hi:
            return False
        positions[p] = position
        p += 1
    for q in range(k, last):
        positions[p + q - k] = agreed[q]
    return True
