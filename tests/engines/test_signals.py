"""A signal that comes to all ranks is heeded once, whichever way rank 0 hears of it first."""

from __future__ import annotations

import signal
from types import SimpleNamespace

import pytest

from errorfeedback.engines.base import Interrupted
from errorfeedback.engines.signals import Signals, passed_on

SIGTERM = signal.SIGTERM


@pytest.fixture
def heard():
    """What the run's own handler hears; it leaves the default behind, as that of a checkpoint does."""
    calls = []

    def handler(number, frame):
        calls.append(number)
        signal.signal(SIGTERM, signal.SIG_DFL)

    before = signal.signal(SIGTERM, handler)
    yield calls
    signal.signal(SIGTERM, before)


def heart(signalled=None):
    return SimpleNamespace(signalled=signalled, says=0)


def test_by_way_of_another_rank_and_then_directly(heard, caplog):
    signals = Signals(heart(("rank 1 (clients 3 to 6)", SIGTERM)))
    with signals.listening():
        signals.check()
        assert heard == [SIGTERM]
        signal.raise_signal(SIGTERM)  # would end this process, were it not the same one
        signals.check()
        assert heard == [SIGTERM]
        assert signal.getsignal(SIGTERM) is signal.SIG_DFL  # the next one is another
    assert caplog.text.count("rank 1 (clients 3 to 6) was told to stop by SIGTERM") == 1


def test_directly_and_then_by_way_of_another_rank(heard):
    signals = Signals(heart())
    with signals.listening():
        signal.raise_signal(SIGTERM)
        signals.heart.signalled = ("rank 1", SIGTERM)
        signals.check()
        assert heard == [SIGTERM]
        assert signal.getsignal(SIGTERM) is signal.SIG_DFL


@pytest.mark.parametrize("direct", [True, False])
def test_a_run_without_a_handler_ends_after_its_round_with_the_code_of_the_signal(direct):
    before = signal.getsignal(SIGTERM)
    signals = Signals(heart(None if direct else ("rank 1", SIGTERM)))
    with pytest.raises(Interrupted) as ended, signals.listening():  # noqa: PT012
        if direct:
            signal.raise_signal(SIGTERM)
        signals.check()
    assert ended.value.code == 143
    assert signal.getsignal(SIGTERM) is before


@pytest.fixture
def listens():
    """Ctrl-C is heard: a process that a shell started in the background begins with it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("listens")
def test_a_signal_in_the_last_round_is_not_lost():
    with pytest.raises(Interrupted), Signals(None).listening():
        signal.raise_signal(signal.SIGINT)


def test_what_was_ignored_stays_ignored():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with Signals(None).listening():
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_another_rank_passes_it_on_and_lets_the_second_one_end_it(heard):
    mine = heart()
    with passed_on(mine):
        signal.raise_signal(SIGTERM)
        assert mine.says == SIGTERM
        assert signal.getsignal(SIGTERM) is signal.SIG_DFL
    assert heard == []
