"""A file that grows by records and is on the disk before anybody goes on: a process that is killed finds all but, at most,
the record that it was writing.

    errorfeedback journal 1 | length u32, check (8 bytes of BLAKE2b), record | ...

A record is whole or it is not there: what is behind the last whole one is cut off when the file is opened.
"""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

from errorfeedback.storage.files import DamagedError, replace_file

HEAD = b"errorfeedback journal 1\n"
LENGTH = struct.Struct("<I8s")


class Journal:
    """`records`: what was in it when it was opened."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.exists():
            replace_file(path, HEAD)
        content = path.read_bytes()
        if not content.startswith(HEAD):
            raise DamagedError(f"{path} is not a journal of this version: it begins with {content[:20]!r}")
        self.records = list(_whole(content))
        os.truncate(path, len(HEAD) + sum(LENGTH.size + len(record) for record in self.records))

    def append(self, record: bytes) -> None:
        """It is on the disk when this returns. Where the file was removed it is not begun anew, without its past."""
        with open(self.path, "r+b", buffering=0) as file:
            file.seek(0, os.SEEK_END)
            file.write(_packed(record))
            os.fdatasync(file.fileno())

    def rewrite(self, records: Sequence[bytes]) -> None:
        """These records in place of all that were: the file has the old ones or the new ones, whenever the machine stops."""
        replace_file(self.path, b"".join((HEAD, *map(_packed, records))))


def _packed(record: bytes) -> bytes:
    return LENGTH.pack(len(record), _check(record)) + record


def _check(record: bytes) -> bytes:
    return hashlib.blake2b(record, digest_size=8).digest()


def _whole(content: bytes) -> Iterator[bytes]:
    """The records up to the first that is not whole."""
    at = len(HEAD)
    while at + LENGTH.size <= len(content):
        length, check = LENGTH.unpack_from(content, at)
        record = content[at + LENGTH.size : at + LENGTH.size + length]
        if len(record) < length or _check(record) != check:
            return
        yield record
        at += LENGTH.size + length
