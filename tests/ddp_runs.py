"""Real processes over gloo on loopback that train a small model, for the tests of the DDP hook.

Processes are forked from a server that has imported torch, so that a run costs a second and not ten.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import pickle
import tempfile
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import errorfeedback as ef

TIMEOUT = 60
ROWS, WIDTH, BATCH = 40, 4, 8


def processes():
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch._dynamo", "errorfeedback.interop.torch.hook"])
    return context


def launched(job, ranks, *words):
    """job(rank, ranks, *words) on that many processes, which have a group: the processes, and the ends of their pipes."""
    store = Path(tempfile.mkdtemp()) / "store"
    context = processes()
    started = []
    for rank in range(ranks):
        mine, theirs = context.Pipe(duplex=False)
        process = context.Process(target=_begin, args=(theirs, store, job, rank, ranks, words), daemon=True)
        process.start()
        theirs.close()
        started.append((process, mine))
    return started


def run(job, ranks, *words):
    """What job(rank, ranks, *words) returns, on every one of that many processes."""
    started = launched(job, ranks, *words)
    try:
        return [answer(pipe) for _, pipe in started]
    finally:
        for process, _ in started:
            process.join(TIMEOUT)


def answer(pipe):
    assert pipe.poll(TIMEOUT), "a process does not answer"
    answer = pickle.loads(pipe.recv_bytes())
    if isinstance(answer, Exception):
        raise answer
    return answer


def _begin(pipe, store, job, rank, ranks, words):
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=ranks, timeout=timedelta(seconds=TIMEOUT))
    try:
        result = job(rank, ranks, *words)
    except Exception as error:
        result = error if isinstance(error, (ValueError, TypeError)) else RuntimeError(str(error))
    pipe.send_bytes(pickle.dumps(result))  # by value: a pipe's own pickler shares the memory of tensors
    dist.destroy_process_group()
