"""A list of columns is as long as it is said to be, and can be read again: the code, literally, bit by bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import errorfeedback as ef
from errorfeedback.runtime.ledger import ownership_bits
from errorfeedback.wire.feature_lists import list_bits


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


COLUMNS = st.sets(st.integers(0, 199), min_size=1, max_size=60)


@given(COLUMNS, COLUMNS)
def test_it_is_as_long_as_the_code_and_can_be_read(first, second):
    lists = [sorted(first), sorted(second)]
    bits = list_bits(np.cumsum([0, *map(len, lists)]), np.concatenate(lists), 200)
    for columns, length in zip(lists, bits, strict=True):
        text = coded(columns, 200)
        assert len(text) == length
        assert read(text, len(columns)) == columns


@pytest.mark.parametrize("share", [0.5, 0.1, 0.01])
def test_random_lists_take_little_more_than_the_entropy(share):
    columns = np.flatnonzero(np.random.default_rng(0).random(100_000) < share)
    entropy = -100_000 * (share * np.log2(share) + (1 - share) * np.log2(1 - share))
    assert 0.99 * entropy < list_bits(np.array([0, len(columns)]), columns, 100_000)[0] < 1.06 * entropy


def test_clients_say_columns_of_the_data_and_models_of_many_outputs_each_feature_once():
    A = np.zeros((6, 40))
    A[:3, [0, 30]], A[3:, [30, 39]] = 1.0, 2.0
    y, clients = np.array([0, 1, 2, 0, 1, 2]), np.repeat([0, 1], 3)
    bits = [len(coded(columns, 40)) for columns in ([0, 30], [30, 39])]
    heads = ownership_bits(ef.least_squares(A, y, clients)) - sum(8 * -(-each // 8) for each in bits)
    assert heads == ownership_bits(ef.least_squares(np.ones((2, 1)), [0, 1], clients=2)) - 2 * 8, "a head for each"
    assert ownership_bits(ef.softmax(A, y, clients)) == ownership_bits(ef.least_squares(A, y, clients))
