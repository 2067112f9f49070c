"""What our messages are in Flower's terms: bytes by name, in one record. Nothing of ours is imported here."""

from __future__ import annotations

from typing import cast

from flwr.app import ConfigRecord, Message, RecordDict

RECORD = "errorfeedback"
QUERY, TRAIN = "query", "train"
"""Types of messages: one request, and an invitation to a whole run."""


def message_to(node: int, kind: str, fields: dict[str, bytes]) -> Message:
    """A message to a node."""
    return Message(RecordDict({RECORD: ConfigRecord(dict(fields))}), node, kind)


def heard(message: Message, name: str) -> bytes:
    """A part of a message."""
    return cast(bytes, message.content[RECORD][name])


def reply_to(message: Message, answer: bytes) -> Message:
    """The answer to a message."""
    return Message(RecordDict({RECORD: ConfigRecord({"answer": answer})}), reply_to=message)
