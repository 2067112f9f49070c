"""The loops of `wire.codec`: frames of many clients, one after the other, written and read in one pass."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from errorfeedback.core import Integers
from errorfeedback.wire.bits import HEAD, Bytes, bits_for, frame_check, get_bits, get_numbers, put_bits, put_numbers
from errorfeedback.wire.coding import Patterns
from errorfeedback.wire.frames import DIGIT

VERSION = 3
HALF = 16
"""The version is in the high half of its byte."""
MORE = 1 << DIGIT
"""Marks a byte of the count that is not its last."""
LONGEST = 56
"""Bits of the largest count."""
WHOLE, CUT, VERSION_WRONG, PRECISION_WRONG, COUNT_WRONG, CHECK_WRONG, PADDING_WRONG, INDEX_WRONG, LONG = range(9)


@numba.njit(cache=True, nogil=True)
def encode_frames(
    keys: Any,
    lead: int,
    form: Any,
    indptr: Integers,
    positions: Integers,
    sure: Integers,
    counts: Integers,
    announced: bool,
    widths: Integers,
    patterns: Patterns,
    values: Patterns,
    units: Patterns,
    out: Bytes,
) -> None:
    """`keys`: seed, round, first client; `form`: bits of a value, bits of a unit, values of a unit."""
    seed, t, first = keys
    width, unit_bits, length = form
    at = a = p = u = 0
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
        stop = p + count
        while p < stop:
            if unit_bits:
                bit = put_bits(out, bit, units[u], unit_bits)
                u += 1
            end = min(p + length, stop)
            bit = put_numbers(out, bit, values[p:end], width)
            p = end
        at = (bit + 7) >> 3
        check = frame_check(seed, t, first + i, out, start, at)
        out[start + 1], out[start + 2] = check & 255, check >> 8


@numba.njit(cache=True, nogil=True)
def decode_frames(  # noqa: PLR0912
    keys: Any,
    lead: int,
    form: Any,
    indptr: Integers,
    sure: Integers,
    counts: Integers,
    announced: bool,
    widths: Integers,
    sent: Bytes,
    fill: bool,
    positions: Integers,
    patterns: Patterns,
    values: Patterns,
    units: Patterns,
) -> tuple[int, int]:
    """(trouble, client)."""
    seed, t, first = keys
    width, unit_bits, length = form
    at = a = p = u = 0
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
        end = (bit + others * bits + beside + value_bits(count, width, unit_bits, length) + 7) >> 3
        if end > len(sent):
            return CUT, client
        check = int(sent[start + 1]) | int(sent[start + 2]) << 8
        if frame_check(seed, t, client, sent, start, end) != check:
            return CHECK_WRONG, client
        if fill and not _place(sent, bit, bits, others, lo, hi, sure, known, a, positions, p, p + count):
            return INDEX_WRONG, client
        bit += others * bits
        for k in range(len(widths)):
            patterns[i, k] = get_bits(sent, bit, widths[k])
            bit += widths[k]
        stop = p + count
        while p < stop:
            if unit_bits:
                units[u] = get_bits(sent, bit, unit_bits)
                bit += unit_bits
                u += 1
            last = min(p + length, stop)
            bit = get_numbers(sent, bit, width, values[p:last])
            p = last
        if get_bits(sent, bit, 8 * end - bit):
            return PADDING_WRONG, client
        at = end
    return (WHOLE if at == len(sent) else LONG), first + len(indptr) - 2


@numba.njit(cache=True, nogil=True)
def value_bits(count: int, width: int, unit_bits: int, length: int) -> int:
    """What so many values of a client take, with their units."""
    return count * width - (-count // length) * unit_bits


@numba.njit(cache=True, nogil=True)
def read_counts(sent: Bytes, sizes: Integers, index: Integers, beside: int, form: Any, counts: Integers) -> int:
    """counts: what every client's frame says; the client whose frame is cut or says more than it owns, or -1."""
    width, unit_bits, length = form
    at = 0
    for i in range(len(sizes)):
        at += HEAD
        count, shift = 0, 0
        while at < len(sent) and sent[at] & MORE and shift < LONGEST:
            count |= int(sent[at] & (MORE - 1)) << shift
            shift += DIGIT
            at += 1
        if at >= len(sent) or shift >= LONGEST:
            return i
        count |= int(sent[at]) << shift
        if count > sizes[i]:
            return i
        counts[i] = count
        bits = beside + value_bits(count, width, unit_bits, length) + (count * index[i] if count < sizes[i] else 0)
        at += 1 + ((bits + 7) >> 3)
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
