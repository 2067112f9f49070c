"""What a place has to hear again to be where it is: the requests that its state depends on, in order.

A place does the same with the same requests, bit for bit. So a request that sets the whole state makes those before it
superfluous: a conversation that begins leaves nothing of what was, a `start` leaves the conversation, a `recall` the
conversation and the start. A snapshot is a `recall` too, so that to be restored is to be asked again.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from errorfeedback.wire.requests import Position, Request

CONVERSATION = frozenset({"prepare", "prepared"})
SET_UP = CONVERSATION | {"start"}
STAY = {"start": CONVERSATION, "recall": SET_UP}
"""Which requests still matter after one of these."""


@dataclass(eq=False)
class RequestLog:
    """Requests in order, as they were sent."""

    requests: list[Request] = field(default_factory=list)
    gap: bool = False
    """Some that matter were forgotten: a place that has nothing cannot be brought back by the rest."""
    size: int = 0
    """Bytes of all."""
    _oldest: int = 0

    def add(self, request: Request) -> None:
        """One more; those that it makes superfluous go.

        >>> log = RequestLog()
        >>> for number, verb in enumerate(("prepare", "prepared", "start", "round", "recall", "round")):
        ...     log.add(Request(verb, number))
        >>> [request.verb for request in log.requests]
        ['prepare', 'prepared', 'start', 'recall', 'round']
        """
        begins = request.verb == "prepare" and request.number == 0
        if begins or request.verb in STAY:
            stay = STAY.get(request.verb, frozenset[str]())
            self._keep([each for each in self.requests if each.verb in stay])
            self.gap, self._oldest = False, 0
        self.requests.append(request)
        self.size += len(request.body)

    def after(self, position: Position | None) -> list[Request] | None:
        """What a place has missed that is at this position, or has nothing; None: that was forgotten."""
        if position is None:
            return None if self.gap else list(self.requests)
        places = [k for k, request in enumerate(self.requests) if request.position == position]
        return self.requests[places[0] + 1 :] if places else None

    def forget(self, number: int) -> None:
        """Rounds before that number, which nobody will need again."""
        if number > self._oldest:
            before = len(self.requests)
            self._keep([each for each in self.requests if each.verb in SET_UP or each.number >= number])
            self.gap |= len(self.requests) < before
            self._oldest = number

    def _keep(self, requests: list[Request]) -> None:
        self.requests, self.size = requests, sum(len(request.body) for request in requests)
