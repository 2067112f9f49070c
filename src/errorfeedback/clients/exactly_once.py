"""A place that is asked over a link that breaks, by a server that may be killed, and that may be killed itself: every
request is done exactly once.

    the number that was done last             the same bytes again
    the next one                              it is done
    a `recall` of a later number              it is done: it needs nothing of what is between
    a later number                            BEHIND, and the position here: the server sends what is missing
    an earlier number, or a run that is over  refused
    another problem, method or options        refused (`clients.own_rows`)

A new run begins with number 0. Before a request is answered it is in a journal, on the disk; with every `every`-th request
the journal is written anew, with a snapshot in place of all that led there. Both are requests (`wire.request_log`), so that
a place that was killed is restored by asking it again, and comes to the same bits. The journal ends with the request that
was done last: the answer to it is made again.

Gradients are nobody's business but the place's: what only a simulation may see (`observe`) is refused here.
"""

from __future__ import annotations

from errorfeedback.clients.serving import Answering, failed
from errorfeedback.storage.journal import Journal
from errorfeedback.wire.request_log import SET_UP, RequestLog
from errorfeedback.wire.requests import BEHIND, FAILED, Position, Request

EVERY = 200
"""Requests between two snapshots."""
RUN = 8
"""Bytes of the number of a run."""
REFUSED = {"observe": "the gradients of a node are not looked at from outside; give solve metrics=False"}


class ExactlyOnce:
    """A `place` behind its `journal`; without one it lives as long as its process. `every`: requests between two snapshots.

    >>> import errorfeedback as ef
    >>> problem = ef.synthetic(n=4, d=6, m=3, c=2)
    >>> setup = ef.Setup(ef.EF21(ef.TopK(1)), ef.Whole(), problem.x0, commands=False)
    >>> place = ExactlyOnce(ef.host(problem, setup, 0, 4))
    >>> answers = [place.serve(Request("values", number, bytes(1)).pack()) for number in (0, 0, 2, 1)]
    >>> answers[0] == answers[1], [answer[:1] for answer in answers]
    (True, [b'=', b'=', b'<', b'='])
    """

    def __init__(self, place: Answering, journal: Journal | None = None, every: int = EVERY) -> None:
        if every < 1:
            raise ValueError(f"every = {every}; there must be at least one request between two snapshots")
        self.place, self.journal, self.every = place, journal, every
        self.log, self.runs = RequestLog(), list[int]()
        self.position: Position | None = None
        """The request that was done last."""
        self.stable = 0
        """Requests of this run with a lower number are in a snapshot on the disk."""
        self._answer = b""
        self._young = 0  # requests since the snapshot
        if journal is not None and journal.records:
            self._restore(journal)

    def serve(self, sent: bytes) -> bytes:
        """The answer to a request."""
        try:
            request = Request.unpack(sent)
            if request.position == self.position:
                return self._answer
            self.place.check(request)
            if not self._is_next(request):
                return BEHIND + (b"" if self.position is None else self.position.pack())
        except ValueError as error:
            return failed(error)
        self._write_down(request)
        self._do(request)
        return self._answer

    def _is_next(self, request: Request) -> bool:
        here = self.position
        if here is None:
            return request.number == 0 and self.place.is_ready(request)
        if request.run != here.run:
            if request.run in self.runs:
                raise ValueError(f"request {request.number} is of a run that is over")
            return request.number == 0
        if request.number < here.number:
            raise ValueError(f"request {request.number} was done before request {here.number}, and its answer is gone")
        return request.number == here.number + 1 or request.verb == "recall"

    def _write_down(self, request: Request) -> None:
        """The request, synced; and a snapshot first where one is due."""
        begins = self.position is None or request.run != self.position.run
        snapshot = self.place.snapshot() if not begins and self._young >= self.every else None
        if begins:
            self.runs.append(request.run)
            self.stable = 0
        if snapshot is not None:
            assert self.position is not None, "a run that has begun has a request"
            self.log.add(Request("recall", self.position.number, snapshot, self.position.run))
            self._young = 0
        self.log.add(request)
        self._young += 1
        if self.journal is None:
            return
        if begins or snapshot is not None:
            runs = b"".join(run.to_bytes(RUN, "little") for run in self.runs)
            self.journal.rewrite([runs, *(each.pack() for each in self.log.requests)])
            self.stable = request.number
        else:
            self.journal.append(request.pack())

    def _restore(self, journal: Journal) -> None:
        """Where the place was when its last process ended."""
        runs, *requests = journal.records
        self.runs = [int.from_bytes(runs[k : k + RUN], "little") for k in range(0, len(runs), RUN)]
        for request in map(Request.unpack, requests):
            self.log.add(request)
            self._do(request)
            self._young = 0 if request.verb == "recall" else self._young + 1
            if request.verb in SET_UP and self._answer[:1] == FAILED:
                why = self._answer[1:].decode()
                raise ValueError(f"{journal.path} is not of this place ({why}); give it its rows again, or another folder")

    def _do(self, request: Request) -> None:
        refused = REFUSED.get(request.verb)
        self._answer = self.place.serve(request.pack()) if refused is None else failed(ValueError(refused))
        self.position = request.position
