"""Files, compressed or not. What is damaged, or expands to more than is allowed, is a ValueError with a sentence."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

OPENERS: dict[str, Callable[[Path], Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
DAMAGE = (EOFError, OSError, lzma.LZMAError, zlib.error)
CHUNK = 1 << 24


def kind(path: Path) -> str:
    """The ending that says what is in a file, without that of its compression.

    >>> kind(Path("sales.CSV.gz"))
    '.csv'
    """
    inner = path.with_suffix("") if path.suffix.lower() in OPENERS else path
    return inner.suffix.lower()


def chunks(path: Path, limit: int) -> Iterator[bytes]:
    """What is in a file, piece by piece."""
    opener = OPENERS.get(path.suffix.lower())
    if opener is None:
        with path.open("rb") as plain:
            yield from iter(lambda: plain.read(CHUNK), b"")
        return
    total = 0
    try:
        with opener(path) as file:
            while chunk := file.read(min(CHUNK, limit + 1 - total)):
                total += len(chunk)
                if total > limit:
                    raise too_large(path, limit)
                yield chunk
    except DAMAGE as error:
        raise ValueError(f"{path}: the compressed file is damaged after {total:,} bytes of content ({error})") from error


def lines(path: Path, limit: int) -> Iterator[list[bytes]]:
    """Its lines, in batches; a last line without an end is a line."""
    begun: list[bytes] = []
    for chunk in chunks(path, limit):
        whole, end, rest = chunk.rpartition(b"\n")
        if end:
            yield b"".join([*begun, whole]).split(b"\n")
            begun = []
        begun.append(rest)
    last = b"".join(begun)
    if last:
        yield [last]


def seekable(path: Path, limit: int) -> IO[bytes]:
    """The file itself, or what a compressed one holds, in memory."""
    if path.suffix.lower() not in OPENERS:
        return path.open("rb")
    return io.BytesIO(b"".join(chunks(path, limit)))


class TooLargeError(ValueError):
    """The file expands to more than is allowed."""


def too_large(path: Path, limit: int) -> TooLargeError:
    """What to do about it."""
    return TooLargeError(
        f"{path} expands to more than {limit / 1e9:g} GB; if you trust it, allow more: --expand-limit {limit / 2e8:g}GB"
    )


def damage(error: BaseException) -> str:
    """What a library says about a file, in one line."""
    return " ".join(str(error).split()) or type(error).__name__
