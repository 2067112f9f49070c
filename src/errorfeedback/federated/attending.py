"""A node accepts an invitation to a stream, with the rows of its folder."""

from __future__ import annotations

from pathlib import Path

from errorfeedback.clients.invitation import Invitation
from errorfeedback.clients.joining import join
from errorfeedback.federated.site import Site
from errorfeedback.storage.files import value_of


def attend(invitation: bytes, assignment: bytes, data: Path, state: Path) -> None:
    """Until the run is over."""
    join(Invitation.unpack(invitation), Site(value_of(assignment, "the assignment"), data), state)
