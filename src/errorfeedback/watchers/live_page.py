"""A page that follows a run: loss, kB up and down, step and accuracy, while they come in.

    with ef.LivePage(clients=problem.n) as live:
        print(live.url)
        ef.solve(problem, method, stepsize, rounds=5000, watch=live)

A run gives its row and goes on: one append to a list. A thread answers the page, which asks once a second for the rows since
it last asked, of which it gets a few hundred at most. The server hears this machine alone (127.0.0.1), and its address has
a key in it that other users of the machine do not know. Nothing is loaded from elsewhere.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from threading import Event, Thread
from time import monotonic
from urllib.parse import parse_qs, urlsplit

from errorfeedback.watchers.base import RunWatcher, measures

MOST = 300
"""Rows of one answer: a picture has not many more points."""
SHOWN = ("f", "validation", "gamma", "uplink_bits", "downlink_bits", "estimated_gap", "grad_norm2", "seconds")
RECENT = 3.0
"""Seconds after its last question in which a page is taken to be open."""
SILENCE = 5.0
"""Seconds that a connection without a question is kept."""


class LivePage(RunWatcher):
    """`clients`: how many share the bytes; `title`: what the page is called.

    >>> from urllib.request import urlopen
    >>> import errorfeedback as ef
    >>> problem = ef.synthetic(n=10, d=20, m=3, c=2)
    >>> with ef.LivePage(clients=problem.n, title="a try") as live:
    ...     page = urlopen(live.url).read().decode()  # what a browser gets
    ...     result = ef.solve(problem, ef.EF21(ef.TopK(1)), ef.RareFeatures(), rounds=30, watch=live)
    >>> "<html" in page, len(live.rows)
    (True, 31)
    """

    def __init__(self, *, clients: int = 1, title: str = "errorfeedback") -> None:
        if clients < 1:
            raise ValueError(f"clients = {clients}; it must be at least 1, for bytes are shown per client")
        self.clients, self.title = clients, title
        self.rows: list[dict[str, float]] = []
        self.done, self.seen, self.asked = False, Event(), -RECENT
        self.key = secrets.token_urlsafe(9)
        self.server = _Server(("127.0.0.1", 0), _Handler)
        self.server.page = self
        Thread(target=self.server.serve_forever, name="errorfeedback live page", daemon=True).start()

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"http://127.0.0.1:{self.server.server_port}/{self.key}/"

    def __call__(self, row: dict[str, float]) -> None:
        self.rows.append(row)

    def close(self) -> None:
        """An open page is told that the run is over before the server ends."""
        self.done = True
        if monotonic() - self.asked < RECENT:
            self.seen.wait(RECENT)
        self.server.shutdown()
        self.server.server_close()

    def answer(self, since: int) -> bytes:
        """What happened since row number `since`, thinned out."""
        self.asked, done = monotonic(), self.done
        new = self.rows[max(since, 0) :]
        about = {"title": self.title, "clients": self.clients, "next": max(since, 0) + len(new), "done": done}
        return json.dumps({**about, "rows": [_brief(row) for row in thinned(new)]}, allow_nan=False).encode()


def thinned(rows: Sequence[dict[str, float]]) -> list[dict[str, float]]:
    """At most MOST rows, evenly, the last one among them.

    >>> kept = thinned([{"round": t} for t in range(1000)])
    >>> len(kept), kept[-1]["round"], len(thinned(kept[:5]))
    (250, 999, 5)
    """
    step = -(-len(rows) // MOST) if rows else 1
    return list(rows[::-1][::step][::-1])


def _brief(row: dict[str, float]) -> dict[str, float]:
    known = measures(row)
    return {"round": int(row["round"]), **{name: known[name] for name in SHOWN if name in known}}


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    page: LivePage


class _Handler(BaseHTTPRequestHandler):
    """The page at /KEY/, its rows at /KEY/rows?since=N; nothing else."""

    server: _Server
    timeout = SILENCE

    def do_GET(self) -> None:
        asked, page = urlsplit(self.path), self.server.page
        if asked.path == f"/{page.key}/":
            self._send(files("errorfeedback.watchers").joinpath("live.html").read_bytes(), "text/html; charset=utf-8")
        elif asked.path == f"/{page.key}/rows":
            since, done = parse_qs(asked.query).get("since", ["0"])[0], page.done
            self._send(page.answer(int(since) if since.isdecimal() else 0), "application/json")
            if done:  # the answer said it; one that was made before does not count
                page.seen.set()
        else:
            self.send_error(HTTPStatus.NOT_FOUND)

    def _send(self, body: bytes, kind: str) -> None:
        self.send_response(HTTPStatus.OK)
        for name, value in (("Content-Type", kind), ("Content-Length", str(len(body))), ("Cache-Control", "no-store")):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is printed."""
