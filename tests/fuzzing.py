"""A malicious node: it has a valid token, and answers with what no honest node would.

    python tests/fuzzing.py --answers 10000

Beside it two honest nodes train, with a constant step and with what `train` makes; strangers call and talk nonsense. Every
round has an answer that was changed, and so have many recalls: bytes flipped, cut, added, replayed, of another kind, for
another request, too long, too slow, no TLS at all, or followed by a connection reset. The run must end with finite numbers,
at the bits of a run in which the node sent nothing where its answer was refused, in bounded memory. A node whose frames are
sound, and whose numbers are lies, must not keep the others from their end, with finite numbers. A set-up that is spoiled
must end with an error that names the node.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import re
import resource
import signal
import socket
import struct
import sys
import threading
import time
from collections import Counter
from contextlib import closing, suppress
from dataclasses import fields, is_dataclass, replace

import numpy as np
from own_places import part, whole
from scripted_hosts import InOneProcess
from stream_nodes import NODES

import errorfeedback as ef
from errorfeedback.clients.exactly_once import ExactlyOnce
from errorfeedback.clients.joining import _Node
from errorfeedback.storage.files import content, value_of
from errorfeedback.wire.link import ANSWER, ANSWERED, GOODBYE, LENGTH, REQUEST
from errorfeedback.wire.requests import AWAY, BEHIND, FAILED, ROUND, Request

BAD = "b"
DEADLINE = 0.25
CONSTANT = {"method": ef.EF21(ef.TopK(2)), "stepsize": ef.Constant(0.01), "every": 10**6, "metrics": False}
TRAIN = CONSTANT | {
    "method": ef.EF21(ef.FittedAnswer(block=4), "compressed"),
    "stepsize": ef.Armijo(),
    "downlink": ef.FittedStep(),
    "direction": ef.Curvature(ef.PowersOfTwo(4), price=0.0),
}


def changed(kind, answer, old, rng):
    """An answer of this kind in place of the honest one."""
    flipped = bytearray(answer)
    flipped[rng.integers(len(answer))] ^= 1 << int(rng.integers(8))
    return {
        "flipped": bytes(flipped),
        "cut": answer[: rng.integers(len(answer))],
        "added": answer + rng.bytes(int(rng.integers(1, 50))),
        "replayed": old,
        "swapped": answer[:1] + answer[1:][::-1],
        "random": rng.bytes(int(rng.integers(1, 300))),
        "failed": FAILED + rng.bytes(20),
        "behind": BEHIND + rng.bytes(int(rng.choice([0, 1, 16, 17]))),
        "away": AWAY,
    }[kind]


ANSWERS = ("flipped", "cut", "added", "replayed", "swapped", "random", "failed", "behind", "away")
FRAMES = ("another kind", "short", "too long", "nothing in it", "no TLS", "hangs up")
RESET = "reset"
"""It answers as it should, and its connection is gone before anybody can look."""
SLOW = ("another request", "half of it")
"""Nothing comes in time."""


class Malicious(threading.Thread):
    """Calls as an honest node does, and answers rounds in its own way."""

    def __init__(self, invitation, rng):
        super().__init__()
        self.node = _Node(invitation, ExactlyOnce(ef.OwnRows(part(2, 6))), 30.0)
        self.rng, self.counts, self.past, self.over = rng, Counter(), {}, False
        self.honest = set()
        """The rounds that it answered as it should."""

    def run(self):
        while not self.over:
            with suppress(OSError), closing(self.node._called()) as link:
                while not self.over:
                    self.node._wait(link, None)
                    for frame in link.frames():
                        self.over |= frame == GOODBYE
                        if frame[:1] == REQUEST:
                            self.answer(link, frame[1:])

    def answer(self, link, sent):
        request, answer = Request.unpack(sent), self.node.asked.serve(sent)
        t = ROUND.unpack_from(request.body)[0] if request.verb == "round" else 0
        if t > 0 or (request.verb == "recall" and self.rng.random() < 0.3):
            groups = (ANSWERS, FRAMES, SLOW, (RESET,))
            kind = str(self.rng.choice(groups[self.rng.choice(4, p=(0.92, 0.055, 0.005, 0.02))]))
            self.counts[kind] += 1
            self.honest |= {t} if kind == RESET else set()
            self.misbehave(link, kind, request, answer)
            self.past = {**self.past, t: answer} if len(self.past) < 9 else {}
        else:
            link.put(ANSWER, ANSWERED.pack(*request.position, 0) + answer)

    def misbehave(self, link, kind, request, answer):
        head = ANSWERED.pack(*request.position, int(self.rng.integers(2**62)))
        if kind in ANSWERS:
            old = next((each for each in self.past.values() if each != answer), b"=old")
            link.put(ANSWER, head + changed(kind, answer, old, self.rng))
        elif kind == "another request":
            link.put(ANSWER, ANSWERED.pack(request.run, request.number + 7, 0) + answer)
            time.sleep(DEADLINE + 0.1)
            link.put(ANSWER, head + answer)  # too late
        elif kind == "another kind":
            link.put(b"z", head + answer)
        elif kind == "short":
            link.put(ANSWER, head[:5])
        elif kind == "no TLS":
            link.raw.send(self.rng.bytes(100))
        elif kind == "hangs up":
            raise ConnectionResetError
        elif kind == RESET:
            link.put(ANSWER, ANSWERED.pack(*request.position, 0) + answer)
            link.raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            raise ConnectionResetError
        else:
            length = {"too long": 2**31, "nothing in it": 0, "half of it": 1000}[kind]
            link._queue += LENGTH.pack(length) + ANSWER + head
            link.flush()
            if kind == "half of it":
                time.sleep(DEADLINE + 0.1)
                raise ConnectionResetError


def stranger(port, rng, over):
    """Calls without a token: nonsense, silence, or half a handshake."""
    calls = []
    while not over.is_set():
        with suppress(OSError):
            caller = socket.create_connection(("127.0.0.1", port), 5)
            caller.send(rng.bytes(int(rng.integers(1, 2000))) if rng.random() < 0.7 else b"\x16\x03\x01\x02\x00\x01")
            calls = [*calls, caller][-20:]
        time.sleep(0.02)
    for caller in calls:
        caller.close()


class Lying(Malicious):
    """Its frames are sound, and its numbers are lies."""

    def answer(self, link, sent):
        request, place = Request.unpack(sent), self.node.asked.place
        if request.verb == "round" and ROUND.unpack_from(request.body)[0] > 0:
            part, self.counts["lies"] = place.host.part, self.counts["lies"] + 1
            if "round" not in vars(part):
                object.__setattr__(part, "round", lambda order, real=part.round: [self.lie(each) for each in real(order)])
        link.put(ANSWER, ANSWERED.pack(*request.position, 0) + self.node.asked.serve(sent))

    def lie(self, message):
        told = [message.values, message.telemetry, None if message.curvature is None else message.curvature.values]
        for numbers in (each for each in told if each is not None and each.size and self.rng.random() < 0.3):
            with np.errstate(invalid="ignore"):  # 0 times infinity
                numbers.flat[self.rng.integers(numbers.size)] *= self.rng.choice([-1.0, 0.0, 1e3, 1e30, np.nan, np.inf])
        return message


def missed_rounds(notes, rounds):
    """(round, host): on a busy machine an honest one may be late, too."""
    missed, hosts = set(), list(NODES)
    for note in (note for note in notes if " took no part " in note):
        first, *last = (int(word) for word in note.split(") ")[1].split() if word.isdigit())
        missed |= {(t, hosts.index(note.split()[0])) for t in range(first, 1 + (last[0] if last else rounds))}
    return missed


def fuzz(kind, options, rounds, rng):
    """What was sent in a run, and whether it was what it should be."""
    over = threading.Event()
    with ef.Listener(NODES, deadline=DEADLINE, quorum=2, patience=60) as listener:
        places = {name: ef.OwnRows(part(mine.start, mine.stop)) for name, mine in NODES.items() if name != BAD}
        bad = kind(listener.invitation(BAD), rng)
        threads = [bad, threading.Thread(target=stranger, args=(listener.invitation("a").port, rng.spawn(1)[0], over))]
        threads += [
            threading.Thread(target=ef.join, args=(listener.invitation(name), place)) for name, place in places.items()
        ]
        for thread in threads:
            thread.start()
        transport = listener.transport()
        problem, _ = ef.gathered(transport, len(NODES))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        found = ef.solve(problem, **options, rounds=rounds, engine=ef.Elsewhere(transport))
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        over.set()
    bad.over = True  # it may have hung up just before the goodbye
    for thread in threads:
        thread.join(30)
    missed, host = missed_rounds(found.history.notes, rounds), list(NODES).index(BAD)
    bad_missed = {t for t, k in missed if k == host}
    accepted = len(set(range(1, rounds + 1)) - bad_missed - bad.honest)
    seen = {
        "accepted": accepted,
        "compared": int(not accepted),
        "honest, but late": len(missed) - len(bad_missed),
        "wrong": 0 if accepted else int(not np.array_equal(found.x, by_the_book(options, missed, rounds).x)),
        "not finite": int(not np.isfinite(found.x).all()),
    }
    hung = sum(thread.is_alive() for thread in threads)
    return Counter({"answers": sum(bad.counts.values()), **seen, "megabytes": grown // 1024, "hung": hung, **bad.counts})


def by_the_book(options, missed, rounds):
    """One process, in which clients are away in the rounds that they missed."""
    return ef.solve(whole(False), **options, rounds=rounds, engine=InOneProcess(missed))


KINDS = ((Malicious, CONSTANT), (Malicious, TRAIN), (Lying, TRAIN))


def fuzz_many(answers, seed):
    """The same over as many runs as it takes, of one kind after the other."""
    rng, seen = np.random.default_rng(seed), Counter()
    while seen["answers"] < answers:
        for kind, options in KINDS:
            seen += fuzz(kind, options, min(1 + (answers - seen["answers"]) // 2, 3000), rng)
    return seen


def twisted(value, rng):
    """The same value but for one of its parts, which is packed as if nothing were wrong with it."""
    if isinstance(value, np.ndarray) and value.ndim and len(value):
        other, k = value.copy(), int(rng.integers(len(value)))
        kind = str(rng.choice(("entry", "length", "kind", "order")))
        if kind == "entry":
            other[k] = (
                rng.choice([-1, 0, 1, 10**9]) if other.dtype.kind in "iu" else rng.choice([-1.0, np.nan, np.inf, 1e300])
            )
        return {"entry": other, "length": value[:k], "kind": value.astype(np.float32), "order": value[::-1].copy()}[kind]
    if is_dataclass(value):
        names = [each.name for each in fields(value) if each.init]
        name = str(rng.choice(names))
        return replace(value, **{name: twisted(getattr(value, name), rng)})
    if isinstance(value, (tuple, list)) and value:
        k = int(rng.integers(len(value)))
        return type(value)(twisted(each, rng) if j == k else each for j, each in enumerate(value))
    others = [-1, 0, 10**9, 10**30, 0.5, float("nan"), "text", None, True, (), [1, 2], np.ones((2, 3)), {"a": 1}]
    return others[int(rng.integers(len(others)))]


class Spoiler(ef.OwnRows):
    """Spoils what it says before the run."""

    def __init__(self, rng):
        super().__init__(part(2, 6))
        self.rng, self.at, self.count = rng, int(rng.integers(6)), 0

    def serve(self, sent):
        answer, self.count = super().serve(sent), self.count + 1
        if self.count - 1 != self.at:
            return answer
        if self.rng.random() < 0.3 or len(answer) == 1:
            kind = str(self.rng.choice(("flipped", "cut", "added", "replayed", "random")))
            return changed(kind, answer, b"=old", self.rng)
        try:
            return answer[:1] + content(twisted(value_of(answer[1:], "mine"), self.rng))
        except (ValueError, TypeError, ArithmeticError, LookupError):  # nothing of the kind can be packed
            return b"=" + content(None)


def spoil_set_ups(times, seed):
    """How the set-ups ended."""
    rng, ends = np.random.default_rng(seed), Counter()
    for _ in range(times):
        with ef.Listener(NODES, patience=30) as listener:
            places = {name: ef.OwnRows(part(mine.start, mine.stop)) for name, mine in NODES.items()} | {BAD: Spoiler(rng)}
            threads = [threading.Thread(target=ef.join, args=(listener.invitation(name), p)) for name, p in places.items()]
            for thread in threads:
                thread.start()
            try:
                transport = listener.transport()
                problem, _ = ef.gathered(transport, len(NODES))
                ef.solve(problem, **CONSTANT, rounds=5, engine=ef.Elsewhere(transport))
                ends["went on"] += 1
            except (ValueError, RuntimeError) as error:  # anything else ends this program
                ends["refused" if re.search(rf"\b{BAD}\b", str(error)) else "refused, without its name"] += 1
        for thread in threads:
            thread.join(30)
    return ends


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--answers", type=int, default=10_000)
    parser.add_argument("--set-ups", type=int, default=100)
    parser.add_argument("--seconds", type=int, default=900)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    logging.disable()
    signal.signal(signal.SIGALRM, lambda *_: os._exit(3))  # it hangs
    signal.alarm(given.seconds)
    began = time.monotonic()
    seen = fuzz_many(given.answers, given.seed)
    ends = spoil_set_ups(given.set_ups, given.seed)
    print(json.dumps({**seen, "set-ups": ends, "seconds": round(time.monotonic() - began)}))
    sys.exit(bool(seen["wrong"] or seen["not finite"] or seen["hung"] or seen["megabytes"] > 200))


if __name__ == "__main__":
    main()
