"""Files that are there whole or not at all: a temporary file in the same folder, fsync, rename, fsync of the folder.

A file is a line that names the format, the SHA-256 of the rest, and an npz archive (arrays and a JSON tree, no pickle).
"""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZIP_STORED, BadZipFile, ZipFile

import numpy as np

from errorfeedback.storage.packing import pack, unpack

try:
    from os import O_DIRECTORY
except ImportError:  # a system on which folders are not opened: Windows
    O_DIRECTORY = None  # type: ignore[assignment, misc]

FORMAT = 1
HEAD = b"errorfeedback file %d\n"
DIGEST = hashlib.sha256().digest_size
TEMPORARY = ".tmp"


WRONG = (
    *(ArithmeticError, AttributeError, BadZipFile, EOFError, ImportError, LookupError, MemoryError, NotImplementedError),
    *(OSError, RecursionError, SyntaxError, TypeError, ValueError, zlib.error),
)
"""What reading a file can end with whose content is not what it should be."""
LONG = 300
"""Letters of a reason that are shown."""


class DamagedError(ValueError):
    """The file is not what was written."""


def write(path: Path, value: Any) -> None:
    """Put a value into a file, which has the old content or the new one whenever the machine stops."""
    replace_file(path, content(value))


def replace_file(path: Path, stored: bytes) -> None:
    """The same of bytes."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}{TEMPORARY}")
    try:
        with open(temporary, "wb") as file:
            file.write(stored)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    _sync(path.parent)


def content(value: Any) -> bytes:
    """What a file of this value has in it."""
    tree, arrays = pack(value)
    body = BytesIO()
    text = np.frombuffer(json.dumps(tree).encode(), dtype=np.uint8)
    np.savez(body, *arrays, text)
    packed = body.getvalue()
    return HEAD % FORMAT + hashlib.sha256(packed).digest() + packed


def read(path: Path) -> Any:
    """The value in a file; `DamagedError` says what is wrong with it."""
    return value_of(path.read_bytes(), str(path))


def value_of(stored: bytes, path: str) -> Any:
    """The value in what `content` made; `path` is what an error calls it."""
    head, newline, rest = stored.partition(b"\n")
    if not newline or head + newline != HEAD % FORMAT:
        raise DamagedError(f"{path} is not a file of this version: it begins with {stored[:20]!r}, not {HEAD % FORMAT!r}")
    digest, packed = rest[:DIGEST], rest[DIGEST:]
    if hashlib.sha256(packed).digest() != digest:
        raise DamagedError(f"{path} is damaged: its checksum does not fit its {len(packed)} bytes")
    try:
        *arrays, text = archived(packed).values()
        return unpack(json.loads(text.tobytes()), arrays)
    except WRONG as error:  # a checksum that fits says who wrote the file, not what
        what = f"{type(error).__name__}: {error}"
        raise DamagedError(f"{path} is damaged, or was not written by this version: {what[:LONG]}") from error


def archived(packed: bytes) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays of an .npz as `np.savez` writes it; ValueError where they would be larger than the file."""
    with ZipFile(BytesIO(packed)) as members:
        for member in members.infolist():
            if member.compress_type != ZIP_STORED:
                raise ValueError(f"{member.filename} is compressed")
    with np.load(BytesIO(packed), allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def _sync(folder: Path) -> None:
    if O_DIRECTORY is None:
        return
    handle = os.open(folder, os.O_RDONLY | O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
