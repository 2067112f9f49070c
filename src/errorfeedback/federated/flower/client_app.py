"""The ClientApp of a node: its files are in the folder `data` of the node's configuration, its journal in `state`.

Flower starts a process for every message. What only a node on the stream needs is imported when one begins.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from errorfeedback.federated.asking import ask
from errorfeedback.federated.flower.records import heard, reply_to


def client_app() -> ClientApp:
    """An app that answers requests, one a message, or follows an invitation to a stream."""
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        stream = import_module("errorfeedback.federated.attending")
        stream.attend(heard(message, "invitation"), heard(message, "assignment"), *_folders(context))
        return reply_to(message, b"")

    @app.query()
    def query(message: Message, context: Context) -> Message:
        data, state = _folders(context)
        return reply_to(message, ask(state, data, heard(message, "assignment"), heard(message, "request")))

    return app


def _folders(context: Context) -> tuple[Path, Path]:
    """Where the node's rows are, and where it may write."""
    for name in ("data", "state"):
        if name not in context.node_config:
            raise ValueError(f'the node has no {name!r}: start its SuperNode with --node-config \'data="..." state="..."\'')
    return Path(str(context.node_config["data"])), Path(str(context.node_config["state"]))
