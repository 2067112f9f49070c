"""What a node has to know to join a run. Whoever has it is the node: it travels where nobody else can read it, for example
inside a control plane's own authenticated message."""

from __future__ import annotations

import json
import ssl
from dataclasses import asdict, dataclass, fields


@dataclass(frozen=True)
class Invitation:
    """One node's to one run.

    >>> invitation = Invitation("127.0.0.1", 9000, "ab12", "secret", 7, "hospital-3")
    >>> Invitation.unpack(invitation.pack()) == invitation
    True
    """

    host: str
    """Where the server listens."""
    port: int
    """And on which port."""
    certificate: str
    """SHA-256 of the server's certificate, in hexadecimal: the node talks to nobody else."""
    token: str
    """What the node says to be let in."""
    run: int
    """The number of the run."""
    node: str
    """What the server calls the node."""

    def __post_init__(self) -> None:
        for each in fields(self):
            kind = int if each.name in {"port", "run"} else str
            if type(getattr(self, each.name)) is not kind:
                raise ValueError(f"{each.name} = {getattr(self, each.name)!r}; an invitation has {kind.__name__} there")

    def __repr__(self) -> str:
        return f"<Invitation of {self.node} to run {self.run:x} at {self.host}:{self.port}>"

    def pack(self) -> bytes:
        """As JSON."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def unpack(cls, packed: bytes) -> Invitation:
        """ValueError where it is none."""
        given = json.loads(packed)
        names = {each.name for each in fields(cls)}
        if not isinstance(given, dict) or given.keys() != names:
            raise ValueError(f"an invitation has {', '.join(sorted(names))}, and this has something else")
        return cls(**given)


def node_context() -> ssl.SSLContext:
    """TLS as a node speaks it. No authority vouches for the server: its certificate is compared with the invitation's."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    return context
