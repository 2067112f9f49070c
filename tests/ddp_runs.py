"""Real processes over gloo on loopback, for the tests of the DDP hook.

Processes are forked from a server that has imported torch and loaded the kernels, so that a run costs a second and not ten.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import sys
import tempfile
from datetime import timedelta
from multiprocessing import forkserver
from pathlib import Path
from unittest.mock import patch

import torch
import torch.distributed as dist

TIMEOUT = 60


def launched(job, ranks, *words):
    """job(rank, ranks, *words) on that many processes, which have a group: each process, and a pipe for what it returns."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["ddp_kernels"])
    with patch.dict(os.environ, PYTHONPATH=os.pathsep.join(filter(None, sys.path))):
        forkserver.ensure_running()
    store, started = Path(tempfile.mkdtemp()) / "store", []
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
    torch.set_num_threads(1)
    limit = timedelta(seconds=TIMEOUT)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=ranks, timeout=limit)
    try:
        result = job(rank, ranks, *words)
    except Exception as error:
        result = error
    pipe.send_bytes(pickle.dumps(result))  # by value: a pipe's own pickler shares the memory of tensors
    dist.destroy_process_group()
