"""A list of columns is as long as it is said to be, and can be read again."""

from __future__ import annotations

import numpy as np
import pytest
from feature_list_code import coded, read
from hypothesis import given, settings
from hypothesis import strategies as st

import errorfeedback as ef
from errorfeedback.runtime.ledger import ownership_bits
from errorfeedback.wire.feature_lists import list_bits

COLUMNS = st.sets(st.integers(0, 199), min_size=1, max_size=60)


@settings(deadline=None)  # the first call compiles
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
