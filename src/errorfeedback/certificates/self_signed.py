"""Who a server is to its nodes: a key and a certificate that it signs itself, made for one run."""

from __future__ import annotations

import hashlib
import os
import ssl
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from errorfeedback.extras import import_extra

PURPOSE = "a listener for nodes"
MODULES = ("x509", *(f"hazmat.primitives.{name}" for name in ("asymmetric.ec", "hashes", "serialization")))
NAME = "errorfeedback"
YEARS = timedelta(days=3650)
"""Nodes compare the certificate itself, whatever date is on it."""


@dataclass(frozen=True, repr=False)
class SelfSigned:
    """Both in one text (PEM), as OpenSSL reads them."""

    pem: str

    @property
    def fingerprint(self) -> str:
        """What an invitation says of it."""
        return fingerprint_of(ssl.PEM_cert_to_DER_cert(self.pem[self.pem.index("-----BEGIN CERTIFICATE") :]))

    def context(self) -> ssl.SSLContext:
        """TLS as the server speaks it."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.num_tickets = 0  # a node that calls again shows its token again
        handle, path = tempfile.mkstemp()  # nobody else may read it, and it is gone at once: OpenSSL reads files only
        try:
            with os.fdopen(handle, "w") as file:
                file.write(self.pem)
            context.load_cert_chain(path)
        finally:
            os.unlink(path)
        return context


def fingerprint_of(certificate: bytes) -> str:
    """What an invitation knows of a certificate (DER): its SHA-256.

    >>> len(fingerprint_of(b"..."))
    64
    """
    return hashlib.sha256(certificate).hexdigest()


def self_signed() -> SelfSigned:
    """A new one."""
    x509, ec, hashes, form = (import_extra(f"cryptography.{name}", PURPOSE) for name in MODULES)
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, NAME)])
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    made = made.serial_number(x509.random_serial_number()).not_valid_before(now - YEARS).not_valid_after(now + YEARS)
    certificate = made.sign(key, hashes.SHA256())
    secret = key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption())
    return SelfSigned((secret + certificate.public_bytes(form.Encoding.PEM)).decode())
