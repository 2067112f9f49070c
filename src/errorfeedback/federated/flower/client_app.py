"""The ClientApp of a node: its files are in the folder `data` of the node's configuration, its journal in `state`."""

from __future__ import annotations

from pathlib import Path

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from errorfeedback.clients.invitation import Invitation
from errorfeedback.clients.joining import join
from errorfeedback.federated.flower.messages import RECORD, heard
from errorfeedback.federated.keeper import ask
from errorfeedback.federated.site import Site
from errorfeedback.storage.files import value_of


def client_app() -> ClientApp:
    """An app that answers requests, one a message, or follows an invitation to a stream."""
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        data, state = _folders(context)
        site = Site(value_of(heard(message, "assignment"), "the assignment"), data)
        join(Invitation.unpack(heard(message, "invitation")), site, state)
        return _reply(message, b"")

    @app.query()
    def query(message: Message, context: Context) -> Message:
        data, state = _folders(context)
        answer = ask(state, data, heard(message, "assignment"), heard(message, "request"))
        return _reply(message, answer)

    return app


def _folders(context: Context) -> tuple[Path, Path]:
    """Where the node's rows are, and where it may write."""
    for name in ("data", "state"):
        if name not in context.node_config:
            raise ValueError(f'the node has no {name!r}: start its SuperNode with --node-config \'data="..." state="..."\'')
    return Path(str(context.node_config["data"])), Path(str(context.node_config["state"]))


def _reply(message: Message, answer: bytes) -> Message:
    return Message(RecordDict({RECORD: ConfigRecord({"answer": answer})}), reply_to=message)
