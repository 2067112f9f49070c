"""Certificates and keys for a trial on one machine: an authority, a server's certificate for this machine, and a key for
every node, in the forms that Flower reads. Private keys can be read by their owner alone."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from errorfeedback.extras import import_extra

PURPOSE = "errorfeedback federate"
DAYS = 30
"""A trial's certificates are good for."""


def write_keys(folder: Path, nodes: Sequence[str]) -> None:
    """ca.pem, server.pem, server.key, and NODE.key and NODE.pub for every node."""
    x509, ec, serial = (import_extra(f"cryptography.{name}", PURPOSE) for name in MODULES)
    folder.mkdir(parents=True)
    authority, server = ec.generate_private_key(ec.SECP384R1()), ec.generate_private_key(ec.SECP384R1())
    issuer = _name(x509, "errorfeedback trial")
    root = _certificate(
        x509, issuer, issuer, authority, authority, [(x509.BasicConstraints(True, 0), True), (_signs(x509), True)]
    )
    here = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))])
    leaf = _certificate(x509, _name(x509, "localhost"), issuer, server, authority, [(here, False)])
    pem, plain = serial.Encoding.PEM, serial.NoEncryption()
    (folder / "ca.pem").write_bytes(root.public_bytes(pem))
    (folder / "server.pem").write_bytes(leaf.public_bytes(pem))
    _write_secret(folder / "server.key", server.private_bytes(pem, serial.PrivateFormat.PKCS8, plain))
    for node in nodes:
        key = ec.generate_private_key(ec.SECP384R1())
        _write_secret(folder / f"{node}.key", key.private_bytes(pem, serial.PrivateFormat.OpenSSH, plain))
        public = key.public_key().public_bytes(serial.Encoding.OpenSSH, serial.PublicFormat.OpenSSH)
        (folder / f"{node}.pub").write_bytes(public)


MODULES = ("x509", "hazmat.primitives.asymmetric.ec", "hazmat.primitives.serialization")


def _name(x509: Any, common: str) -> Any:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, common)])


def _signs(x509: Any) -> Any:
    """What an authority's key is for."""
    uses = ("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement")
    never = dict.fromkeys((*uses, "encipher_only", "decipher_only"), False)
    return x509.KeyUsage(key_cert_sign=True, crl_sign=True, **never)


def _certificate(x509: Any, subject: Any, issuer: Any, key: Any, signer: Any, extensions: Sequence[tuple[Any, bool]]) -> Any:
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=DAYS))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), False)
    )
    for extension, critical in extensions:
        made = made.add_extension(extension, critical)
    return made.sign(signer, import_extra("cryptography.hazmat.primitives.hashes", PURPOSE).SHA384())


def _write_secret(path: Path, content: bytes) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
