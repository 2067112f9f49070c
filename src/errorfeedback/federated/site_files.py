"""What a site needs to take part, as files: the two apps, their configuration, and how to start them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from json import dumps
from pathlib import Path
from typing import Any

PYPROJECT = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "errorfeedback-federation"
version = "1.0.0"
description = "Train one linear model on the rows of many nodes, which stay where they are."
license = "BSD-3-Clause"
dependencies = []  # errorfeedback[flower] must be installed on every machine: nodes install nothing

[tool.flwr.app]
publisher = "errorfeedback"

[tool.flwr.app.components]
serverapp = "federation.server_app:app"
clientapp = "federation.client_app:app"

# The options of `errorfeedback train`, and those that are here. nodes says how many clients each node may bring, or which:
# "clinic: anna | berta, laboratory: lab-*" (by a column, or by their files).
[tool.flwr.app.config]
"""
SERVER = '''\
"""Trains with the nodes that pyproject.toml names, and writes the model and the report."""

from errorfeedback.cli.federate import finish, plan_of
from errorfeedback.federated.flower.server_app import server_app

app = server_app(plan_of, finish)
'''
CLIENT = '''\
"""Answers for the files in the folder `data` of the node's configuration."""

from errorfeedback.federated.flower.client_app import client_app

app = client_app()
'''
README = """\
# A federation of {count} nodes: {nodes}
1. Everywhere: `pip install 'errorfeedback[flower]'`, and `export FLWR_TELEMETRY_ENABLED=0 FLWR_DISABLE_UPDATE_CHECK=1`.
2. `keys/` is for a trial on one machine. In earnest every node makes its own key, and the server's certificate is yours.
3. Server: `flower-superlink --host 0.0.0.0 --port {port} --ssl-certfile keys/server.pem --ssl-keyfile keys/server.key
   --ssl-ca-certfile keys/ca.pem --enable-supernode-auth --disable-runtime-dependency-installation --database state.db`
4. Server, once for every node: `FLWR_HOME=flower flwr supernode register keys/NODE.pub --name NODE federation`
5. Node (it needs ca.pem and its own key only): `flower-supernode --superlink HOST:{port} --root-certificates ca.pem
   --auth-supernode-private-key NODE.key --node-config 'data="ROWS/" state="STATE/"'`: every file in ROWS/ is a client.
6. Server: options in `app/pyproject.toml`; `FLWR_HOME=flower flwr run app federation --stream` trains and writes `out`.
"""
CONNECTION = """\
[superlink]
default = "federation"

[superlink.federation]
address = "127.0.0.1:{port}"
root-certificates = {certificate}
"""


def write_site(folder: Path, nodes: Sequence[str], config: Mapping[str, Any], port: int) -> None:
    """The apps, the connection to the SuperLink and the README; keys are made by `certificates.trial_keys`."""
    app = folder / "app" / "federation"
    app.mkdir(parents=True)
    (folder / "flower").mkdir()
    settings = "".join(f"{name} = {dumps(value)}\n" for name, value in config.items())
    certificate = dumps(str((folder / "keys" / "ca.pem").absolute()))
    files = {
        folder / "app" / "pyproject.toml": PYPROJECT + settings,
        app / "__init__.py": "",
        app / "server_app.py": SERVER,
        app / "client_app.py": CLIENT,
        folder / "README.md": README.format(count=len(nodes), nodes=", ".join(nodes), port=port),
        folder / "flower" / "config.toml": CONNECTION.format(port=port, certificate=certificate),
    }
    for path, text in files.items():
        path.write_text(text, encoding="utf-8")
