"""An engine whose clients live in other processes, and whose bytes go through queues."""

from __future__ import annotations

import multiprocessing
from dataclasses import dataclass

import errorfeedback as ef

SPAWN = multiprocessing.get_context("spawn")


def live(problem, setup, lo, hi, requests, answers):
    place = ef.host(problem, setup, lo, hi)  # this is the whole life of a process
    while not place.ended:
        answers.put(place.serve(requests.get()))


class Queues(ef.Transport):
    def __init__(self, problem, setup, cuts):
        self.ways = [(SPAWN.Queue(), SPAWN.Queue()) for _ in cuts[1:]]
        given = [(problem, setup, lo, hi, *way) for lo, hi, way in zip(cuts, cuts[1:], self.ways, strict=False)]
        self.processes = [SPAWN.Process(target=live, args=each, daemon=True) for each in given]
        for process in self.processes:
            process.start()

    def send(self, requests):
        for (way, _), request in zip(self.ways, requests, strict=True):
            way.put(request)

    def receive(self):
        return [way.get(timeout=120) for _, way in self.ways]

    def close(self):
        for process in self.processes:
            process.join(timeout=30)


@dataclass(frozen=True)
class Processes(ef.Engine):
    count: int = 2

    def open(self, problem, setup):
        cuts = [problem.n * k // self.count for k in range(self.count + 1)]
        return ef.RemoteSession(Queues(problem, setup, cuts), problem, setup, cuts)
