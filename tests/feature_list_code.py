"""The code in which clients say which columns they own, literally, bit by bit (`wire.feature_lists`)."""

from __future__ import annotations


def coded(columns, width):
    """The shortest of all: 5 bits for b, then the gaps; or a bit for every column."""
    every = [f"{31:05b}" + "".join("1" if j in set(columns) else "0" for j in range(width))]
    for b in range(31):
        text, before = f"{b:05b}", -1
        for j in columns:
            gap, before = j - before - 1, j
            text += "1" * (gap >> b) + "0" + (f"{gap % 2**b:0{b}b}" if b else "")
        every.append(text)
    return min(every, key=len)


def read(text, count):
    """What was coded, for who knows how many columns there are."""
    b, at, columns, before = int(text[:5], 2), 5, [], -1
    if b == 31:
        return [j for j, bit in enumerate(text[5:]) if bit == "1"]
    for _ in range(count):
        ones = text.index("0", at) - at
        at += ones + 1
        before += 1 + (ones << b) + (int(text[at : at + b], 2) if b else 0)
        at += b
        columns.append(before)
    return columns
