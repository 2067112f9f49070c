"""Single bits of a byte string, and the check of a frame."""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from errorfeedback.keyed import mix, stream
from errorfeedback.wire.coding import Patterns
from errorfeedback.wire.frames import HEAD_BITS

Bytes = NDArray[np.uint8]
HEAD = HEAD_BITS // 8
"""Bytes before the count: version and coding, check."""
FNV = np.uint64(0x100000001B3)
"""The prime of the hash of Fowler, Noll and Vo."""
WORD, BYTE = 64, np.uint64(255)
ONE, TWO, THREE = np.uint64(1), np.uint64(2), np.uint64(3)


@numba.njit(cache=True, nogil=True)
def bits_for(others: int) -> int:
    """ceil(log2 others)."""
    bits = 0
    while (1 << bits) < others:
        bits += 1
    return bits


@numba.njit(cache=True, nogil=True)
def frame_check(seed: int, t: int, client: int, sent: Bytes, start: int, stop: int) -> int:
    """16 bits of a hash over a frame without its own two bytes: FNV-1a, keyed at the start and mixed at the end. Byte k goes
    to the k-th of four running hashes in turn, so that none waits for the one before it."""
    state = (stream(seed, t, client) ^ np.uint64(sent[start])) * FNV
    a, b, c, d = state, state + ONE, state + TWO, state + THREE
    k = start + HEAD
    while k + 3 < stop:
        a = (a ^ np.uint64(sent[k])) * FNV
        b = (b ^ np.uint64(sent[k + 1])) * FNV
        c = (c ^ np.uint64(sent[k + 2])) * FNV
        d = (d ^ np.uint64(sent[k + 3])) * FNV
        k += 4
    while k < stop:
        a = (a ^ np.uint64(sent[k])) * FNV
        k += 1
    return int(mix(mix(mix(mix(a) ^ b) ^ c) ^ d) >> np.uint64(48))


@numba.njit(cache=True, nogil=True)
def put_bits(out: Bytes, bit: int, number: np.uint64, width: int) -> int:
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
def get_bits(sent: Bytes, bit: int, width: int) -> np.uint64:
    """The number that `put_bits` wrote there."""
    number, have = np.uint64(0), 0
    while have < width:
        step = min(8 - (bit & 7), width - have)
        piece = (np.uint64(sent[bit >> 3]) >> np.uint64(bit & 7)) & ((np.uint64(1) << np.uint64(step)) - np.uint64(1))
        number |= piece << np.uint64(have)
        bit += step
        have += step
    return number


@numba.njit(cache=True, nogil=True)
def put_numbers(out: Bytes, bit: int, numbers: Patterns, width: int) -> int:
    """Write the low bits of many numbers, a word at a time; the place after them."""
    at, fill, end = bit >> 3, bit & 7, bit + width * len(numbers)
    word = np.uint64(out[at]) if fill else np.uint64(0)
    for k in range(len(numbers)):
        word |= numbers[k] << np.uint64(fill)
        fill += width
        if fill >= WORD:
            for j in range(8):
                out[at + j] = word >> np.uint64(8 * j) & BYTE
            at += 8
            fill -= WORD
            word = numbers[k] >> np.uint64(width - fill) if fill else np.uint64(0)
    while at << 3 < end:
        out[at] = word & BYTE
        word >>= np.uint64(8)
        at += 1
    return end


@numba.njit(cache=True, nogil=True)
def get_numbers(sent: Bytes, bit: int, width: int, numbers: Patterns) -> int:
    """Fill `numbers` with what `put_numbers` wrote there; the place after them."""
    mask = ~np.uint64(0) >> np.uint64(WORD - width)
    at, have = (bit >> 3) + 1, 8 - (bit & 7)
    word = np.uint64(sent[bit >> 3]) >> np.uint64(bit & 7) if len(numbers) else np.uint64(0)
    for k in range(len(numbers)):
        number, need = word, width - have
        if need > 0:
            stop = min(8, len(sent) - at)
            word = np.uint64(0)
            for j in range(stop):
                word |= np.uint64(sent[at + j]) << np.uint64(8 * j)
            at += stop
            number |= word << np.uint64(have)
            word = word >> np.uint64(need) if need < WORD else np.uint64(0)
            have = 8 * stop - need
        else:
            word >>= np.uint64(width)
            have -= width
        numbers[k] = number & mask
    return bit + width * len(numbers)
