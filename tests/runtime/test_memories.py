"""What clients remember, cut where their shards are and put together again."""

from __future__ import annotations

import numpy as np
import pytest

import errorfeedback as ef
from errorfeedback.clients.memory import cut_memory, joined_memory


def test_memories_are_cut_where_the_shards_are():
    uneven = ef.RowMemory(np.arange(9.0), np.array([3, 6, 0]))
    memory = (np.arange(6.0), {"n": np.arange(3), "none": None}, np.empty(0), uneven)
    lengths = [(1, 2), (2, 4)]
    parts = cut_memory(memory, lengths)
    assert [p[0].tolist() for p in parts] == [[0, 1], [2, 3, 4, 5]]
    assert [p[1]["n"].tolist() for p in parts] == [[0], [1, 2]]
    assert [p[3].values.tolist() for p in parts] == [[0, 1, 2], [3, 4, 5, 6, 7, 8]]  # as many as every client likes
    assert [p[3].counts.tolist() for p in parts] == [[3], [6, 0]]
    back = joined_memory(parts)
    assert back[0].tolist() == memory[0].tolist()
    assert len(back[2]) == 0
    with pytest.raises(ValueError, match="a client memory has 4 entries"):
        cut_memory(np.arange(4.0), lengths)


def test_what_shards_share_must_be_the_same():
    with pytest.raises(ValueError, match="Shared differs between two shards"):
        joined_memory([ef.Shared(np.eye(2)), ef.Shared(np.ones((2, 2)))])
