"""What a server knows of one node, by hand: whether it can be asked, and what becomes of a connection that breaks."""

from __future__ import annotations

import pytest

from errorfeedback.engines.member import REPLAYS, Member
from errorfeedback.wire.link import ANSWER, ANSWERED, REQUEST
from errorfeedback.wire.requests import AWAY, BEHIND, DONE, FAILED, Request


class Wire:
    """A connection that keeps what is sent; or one that is gone without anybody's having noticed."""

    sent = received = 0

    def __init__(self, gone=False):
        self.gone, self.frames = gone, []

    def put(self, kind, body):
        if self.gone:
            raise ConnectionResetError
        self.frames.append(kind + body)

    def close(self):
        self.gone = True


def said(request, answer):
    return ANSWER + ANSWERED.pack(*request.position, 0) + answer


def node(wire=None):
    member = Member("a", "token")
    member.connect(wire or Wire())
    return member


ROUND_4, ROUND_5 = Request("round", 4, b"x"), Request("round", 5, b"y")


def test_a_connection_that_broke_unnoticed_does_not_end_the_run_and_the_node_is_asked_when_it_calls_again():
    member, again = node(Wire(gone=True)), Wire()
    member.ask(ROUND_4.pack())
    assert again.frames == []
    member.connect(again)
    assert again.frames == [REQUEST + ROUND_4.pack()]
    member.hear(said(ROUND_4, DONE))
    assert member.answer == DONE


@pytest.mark.parametrize("calls_again", [False, True])
def test_who_is_given_up_is_free_when_its_late_answer_has_come_or_it_calls_again(calls_again):
    member = node()
    assert member.is_free
    member.ask(ROUND_4.pack())
    assert not member.is_free
    member.give_up()
    assert (member.answer, member.is_free) == (AWAY, False)
    if calls_again:
        member.connect(Wire())
    else:
        member.hear(said(ROUND_4, DONE))
    assert (member.answer, member.is_free) == (AWAY, True)
    member.drop()
    assert not member.is_free


def test_a_node_may_be_behind_as_often_as_it_calls_but_not_for_ever_on_one_connection():
    member = node()
    member.ask(ROUND_4.pack())
    for _ in range(REPLAYS + 1):  # killed again and again, with nothing on a disk
        member.connect(again := Wire())
        member.hear(said(ROUND_4, BEHIND))
        assert again.frames == 2 * [REQUEST + ROUND_4.pack()]
        assert member.asked is not None
    for _ in range(REPLAYS):
        member.hear(said(ROUND_4, BEHIND))
    assert member.answer[:1] == FAILED


def test_the_answer_to_another_request_is_none():
    member = node()
    member.ask(ROUND_5.pack())
    member.hear(said(ROUND_4, DONE))
    assert member.asked == ROUND_5
