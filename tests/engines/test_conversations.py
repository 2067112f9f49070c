"""A conversation by bytes: everybody hears everybody in order, a word of one's own stays one's own, and whoever cannot go on
is named to all."""

from __future__ import annotations

import numpy as np
import pytest

import errorfeedback as ef
from errorfeedback.clients.speaking import Speaker
from errorfeedback.engines.conducting import conducted
from errorfeedback.problems.conversation import Each, alone


class Carried(ef.Transport):
    """Speakers in this process; what was sent is kept, and everything is asked for twice."""

    def __init__(self, *sides):
        self.speakers, self.sent = [Speaker(side) for side in sides], []

    def send(self, requests):
        self.sent.append(requests)
        self.answers = [speaker.serve(sent) for speaker, sent in zip(self.speakers, requests, strict=True)]
        assert [speaker.serve(sent) for speaker, sent in zip(self.speakers, requests, strict=True)] == self.answers

    def receive(self):
        return self.answers


def greeting(seat):
    first = yield f"place {seat.number} of {seat.of}"
    secrets = yield None if seat.number else Each([f"secret {k}" for k in range(seat.of)])
    total = yield np.full(2, float(seat.number))
    return first, secrets[0], np.sum(total, axis=0).tolist()


def broken(seat):
    yield seat.number
    raise FloatingPointError(f"the disk of place {seat.number} is gone")


def test_all_hear_all_in_order_and_secrets_are_heard_by_their_owner_alone():
    transport = Carried(greeting, greeting)
    names = [f"place {k} of 3" for k in range(3)]
    assert conducted(transport, 2, greeting) == (names, "secret 0", [3.0, 3.0])
    for k, speaker in enumerate(transport.speakers, 1):
        assert speaker.ended
        assert speaker.result == (names, f"secret {k}", [3.0, 3.0])
    heard = [b"".join(requests[k] for requests in transport.sent) for k in range(2)]
    assert [[f"secret {k}".encode() in each for k in range(3)] for each in heard] == [
        [False, True, False],
        [False, False, True],
    ]
    assert alone(greeting) == (["place 0 of 1"], "secret 0", [0.0, 0.0])


def test_a_place_that_fails_is_named_and_the_others_hear_why():
    transport = Carried(greeting, broken)
    with pytest.raises(RuntimeError, match="host 1 failed: FloatingPointError: the disk of host 1 is gone"):
        conducted(transport, 2, greeting)
    with pytest.raises(SystemExit, match="rank 0 ended the run: RuntimeError: host 1 failed"):
        _ = transport.speakers[0].result
    with pytest.raises(FloatingPointError, match="the disk of place 2 is gone"):
        _ = transport.speakers[1].result


@pytest.mark.parametrize("error", [FloatingPointError("mine alone"), KeyboardInterrupt()])
def test_a_server_that_fails_tells_the_others(error):
    def ill(seat):
        yield
        raise error

    transport = Carried(greeting, greeting)
    with pytest.raises(type(error)):
        conducted(transport, 2, ill)
    for speaker in transport.speakers:
        assert speaker.ended
        with pytest.raises(SystemExit, match=f"rank 0 ended the run: {type(error).__name__}"):
            _ = speaker.result


def test_where_all_fail_each_has_its_own_reason():
    transport = Carried(broken, broken)
    with pytest.raises(FloatingPointError, match="place 0"):
        conducted(transport, 2, broken)
    for k, speaker in enumerate(transport.speakers, 1):
        with pytest.raises(FloatingPointError, match=f"place {k}"):
            _ = speaker.result


def test_sides_that_do_not_end_at_the_same_word_are_refused():
    def brief(seat):
        return (yield seat.number)

    with pytest.raises(ValueError, match="host 1 have all they need, and place 0, host 0 ask on"):
        conducted(Carried(greeting, brief), 2, greeting)


def test_a_place_that_cannot_understand_another_names_it():
    def joined(seat):
        return sum((yield seat.number))

    def mumbling(seat):
        return (yield {"a": seat.number})

    with pytest.raises(RuntimeError, match="host 0 failed: host 1 said what it does not understand: TypeError"):
        conducted(Carried(joined, mumbling), 2, lambda seat: (yield seat.number))
