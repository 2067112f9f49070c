"""Own models to the last digits, for who compares them with those by the book."""

from __future__ import annotations

import pytest

from errorfeedback.estimators import local_models
from errorfeedback.problems import local_fits


@pytest.fixture
def exactly(monkeypatch):
    """Own models to the last digits."""
    for name, number in (("CG", 60), ("RESIDUAL", 1e-9)):
        monkeypatch.setattr(local_fits, name, number)
    for name, number in (("NEWTON", 30), ("SOLVED", 1e-9)):
        monkeypatch.setattr(local_models, name, number)
