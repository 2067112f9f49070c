"""All that Flower's own command line is asked for in a trial, in one process: `python -m ... FOLDER NODE...` registers the
nodes, says so by a file, starts the run, and ends with it: code 0 where Flower calls it completed."""

from __future__ import annotations

import json
import sys
import time
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import patch

from flwr.cli.app import app

from errorfeedback.federated.loopback import REGISTERED

CONNECTION = "federation"
POLL = 0.5
FINISHED, COMPLETED = "finished", "finished:completed"


def flower(*words: str) -> dict[str, Any]:
    """What a command of `flwr` says, for programs."""
    said = StringIO()
    try:
        with patch.object(sys, "__stdout__", said):  # where it answers programs, whatever stdout is
            app([*words, CONNECTION, "--format", "json"], standalone_mode=False)
        answer = json.loads(said.getvalue())
    except (SystemExit, ValueError) as error:
        raise RuntimeError(f"flwr {' '.join(words)}: {error}: {said.getvalue()}") from error
    if not answer.get("success", False):
        raise RuntimeError(f"flwr {' '.join(words)}: {answer}")
    return answer


def carry_out(folder: Path, nodes: list[str]) -> str:
    """How the run of the app in that folder ended."""
    for node in nodes:
        flower("supernode", "register", str(folder / "keys" / f"{node}.pub"), "--name", node)
    (folder / REGISTERED).touch()
    number = flower("run", str(folder / "app"))["run-id"]
    while True:
        (status,) = [each["status"] for each in flower("list")["runs"] if each["run-id"] == number]
        if status.startswith(FINISHED):
            return str(status)
        time.sleep(POLL)


if __name__ == "__main__":
    status = carry_out(Path(sys.argv[1]), sys.argv[2:])
    print(status, flush=True)
    sys.exit(status != COMPLETED)
