"""A whole federation on this machine, as a user starts it: SuperLink and SuperNodes as processes, TLS, keys, own files."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
from flower_python import WHY, python_with

from errorfeedback.cli.train import train
from errorfeedback.cli.verbs._training import Training
from errorfeedback.estimators.model_file import load
from errorfeedback.extras import installed

FLOWER = python_with("flwr")
ROUNDS = 6


def rows(path: Path) -> Path:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 8)) * (rng.random((60, 8)) < 0.5)
    y = np.sign(X @ rng.standard_normal(8) + 0.1)
    lines = [f"{t:g} " + " ".join(f"{j + 1}:{v:.6g}" for j, v in enumerate(row) if v) for row, t in zip(X, y, strict=True)]
    path.write_text("\n".join(lines) + "\n")
    return path


def still_running(folder: Path) -> list[str]:
    """Processes that were started for a folder."""
    names = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = place.read_bytes().replace(b"\0", b" ").decode()
        except OSError:  # it has just ended
            continue
        names += [words] if str(folder) in words else []
    return names


@pytest.mark.skipif(FLOWER is None, reason=WHY)
def test_the_model_is_that_of_train_and_every_process_ends(tmp_path):
    data = rows(tmp_path / "rows.svm")
    held = str(rows(tmp_path / "held.svm"))
    words = ["federate", "try", str(data), "--nodes", "2", "--clients", "4", "--rounds", str(ROUNDS), "--out", "run"]
    words += ["--valid", held, "--network", "up=1Mbit/s,down=8Mbit/s", "--deadline", "60"]
    command = [FLOWER, "-m", "errorfeedback", *words]
    done = subprocess.run(command, check=False, cwd=tmp_path, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr
    asked = {"valid": held, "network": ["up=1Mbit/s,down=8Mbit/s"], "rounds": ROUNDS}
    train(Training(data=str(data), clients=4, out=tmp_path / "local", quiet=True, **asked))
    here, there = (np.load(tmp_path / out / "model.npz") for out in ("local", "run"))
    assert all(np.array_equal(here[name], there[name]) for name in ("coef", "places", "intercept"))
    ours, theirs = (json.loads((tmp_path / out / "history.json").read_text()) for out in ("local", "run"))
    columns = [name for name in ours if name != "seconds"]
    assert all(np.array_equal(*(np.array(h[c], dtype=float) for h in (ours, theirs)), equal_nan=True) for c in columns)
    facts = load(tmp_path / "run" / "model.npz").provenance
    expected = load(tmp_path / "local" / "model.npz").provenance
    same = (
        "clients",
        "rows",
        "held-out rows",
        "validation loss",
        "validation loss of a constant",
        "trained with",
        "network",
    )
    assert {name: facts[name] for name in same} == {name: expected[name] for name in same}
    assert facts["time on the network"] == expected["time on the network"]
    assert facts["path"] == "stream"
    assert {"measured at the stream's sockets", "frames counted", "node-0", "node-1", f"held out ({held})"} <= facts.keys()
    assert (tmp_path / "run" / "report.html").exists() == installed("plotly")
    assert still_running(tmp_path) == []
    assert "telemetry" not in (tmp_path / "run" / "federation" / "logs" / "superlink.log").read_text().lower()


@pytest.mark.skipif(not installed("cryptography"), reason="keys need cryptography: pip install 'errorfeedback[flower]'")
def test_init_writes_all_that_a_site_needs_and_writes_over_nothing(tmp_path):
    from errorfeedback.cli.federate import init, plan_of  # noqa: PLC0415  (where it can be)

    site = tmp_path / "site"
    init(site, 2, 9092)
    assert {path.name for path in site.iterdir()} == {"README.md", "app", "flower", "keys"}
    assert len((site / "README.md").read_text().splitlines()) <= 10
    secrets = [path for path in (site / "keys").iterdir() if path.suffix == ".key"]
    assert sorted(path.name for path in secrets) == ["node-0.key", "node-1.key", "server.key"]
    assert all(path.stat().st_mode & 0o077 == 0 for path in secrets)
    import tomllib  # noqa: PLC0415

    config = tomllib.loads((site / "app" / "pyproject.toml").read_text())["tool"]["flwr"]["app"]["config"]
    plan = plan_of(config | {"l2": 0.5, "drop": "Id,Name", "missing": "drop", "k": 3})
    assert plan.nodes == {"node-0": range(1), "node-1": range(1, 2)}
    assert (plan.model.l2, plan.model.k, plan.assignment.reading.drop) == (0.5, 3, ("Id", "Name"))
    with pytest.raises(ValueError, match="are not written over"):
        init(site, 2, 9092)
    rows(tmp_path / "held.svm")
    plan = plan_of(config | {"nodes": "a: x | y, b: z-*", "valid": 0.25, "network": "z-*: up=1kbit/s; up=1Mbit/s"})
    assert (dict(plan.nodes), plan.named) == ({"a": ["x", "y"], "b": ["z-*"]}, True)
    assert (plan.assignment.share, plan.valid) == (0.25, None)
    assert plan.model.network == ["z-*: up=1kbit/s", " up=1Mbit/s"]
    plan = plan_of(config | {"valid": str(tmp_path / "held.svm")})
    assert (plan.assignment.share, plan.valid, plan.named) == (None, str(tmp_path / "held.svm"), False)


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"nodes": "a"}, "names, and clients of each"),
        ({"nodes": ""}, "there must be a node"),
        ({"nodes": "a: 0"}, "every node must have a client"),
        ({"nodes": "a: 1", "path": "pigeon"}, "it must be 'stream' or 'messages'"),
        ({"nodes": "a: 1", "path": "messages", "deadline": 1.0}, "messages are waited for"),
        ({"nodes": "a: 1", "valid": "0.2", "deadline": 1.0}, "a node that is away cannot say how good the model is"),
        ({"nodes": "a: 1", "path": "messages", "wait": 5.0}, "a run that nodes may join late goes over path = 'stream'"),
        ({"nodes": "a: 1", "checkpoint": "c", "wait": 5.0}, "has no checkpoint, which is of the clients that it began with"),
        ({"nodes": "a: 1", "valid": "0.2", "wait": 5.0}, "who joins late changes which rows are held out"),
        ({"nodes": "a: x, b: y | x"}, "client x may be brought by a and by b"),
        ({"nodes": "a: 2, b: y"}, "name those of every node, or of none"),
        ({"nodes": "a: 1, a: 2"}, "names, and clients of each"),
        ({"nodes": "a: 1", "patience": 0}, "it must be above 0 seconds"),
        ({"nodes": "a: 1", "data": "x"}, "data: no such setting; there are"),
    ],
)
def test_a_configuration_that_makes_no_sense_is_refused_with_a_reason(config, reason):
    from errorfeedback.cli.federate import plan_of  # noqa: PLC0415

    with pytest.raises(ValueError, match=reason):
        plan_of(config)
