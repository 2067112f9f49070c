"""LIBSVM files, by path or by name. The reader is scikit-learn's.

A name is looked for in the folder that ERRORFEEDBACK_DATA names and in its subfolders, then in the user's cache, then
on LIBSVM's site; a file found by name must have the known sha256.
"""

from __future__ import annotations

import bz2
import gzip
import hashlib
import lzma
import math
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import IO, Any

from numpy.typing import NDArray
from scipy import sparse

from errorfeedback.caches import user_cache

SITE = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary/"
VARIABLE = "ERRORFEEDBACK_DATA"


@dataclass(frozen=True)
class Known:
    """A file as LIBSVM distributes it."""

    rows: int
    features: int
    sha256: str


KNOWN = {
    "a9a": Known(32561, 123, "f5d5ffd8d865ff41328e7ee043e4b020816914ff6843ff15b98905ddbedce906"),
    "a9a.t": Known(16281, 123, "1f448a153f0320399a7e40836eb207655b0bde0f21fc941cc472193daa9f5de9"),
    "mushrooms": Known(8124, 112, "f39a4eb628dc61a7d43760815b061c9e497aa728ce1ad8bde57a09ef6043b538"),
    "phishing": Known(11055, 68, "0cf66ef36604c393da9359b2e5d894a2df8aee31fd184633cefa138add2ef08a"),
    "w5a": Known(9888, 300, "50599ff799c35726061b747912c106ee1b084280411c086f10e5adb3487c3993"),
}

OPENERS: dict[str, Callable[[Path], Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}


@dataclass(frozen=True, eq=False)
class Dataset:
    """A: (rows, features) in CSR; y: one label per row as the file has it."""

    A: sparse.csr_array
    y: NDArray[Any]
    name: str
    path: Path

    def __iter__(self) -> Iterator[Any]:
        """`A, y = ef.load(...)`."""
        return iter((self.A, self.y))


def load(source: str | os.PathLike[str], *, features: int | None = None) -> Dataset:
    """Read a LIBSVM file (also .gz, .bz2, .xz): a path, or one of the names in `errorfeedback.data.libsvm.KNOWN`.

    `features` fixes the number of columns (a test file may lack the last ones); by default the largest index in the
    file, and for a known name the published number.
    """
    path = Path(source)
    name = str(source)
    if not path.is_file() and name in KNOWN:
        path = find(name)
        features = KNOWN[name].features if features is None else features
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; name a LIBSVM file in it")
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file, and not a known data set ({', '.join(KNOWN)})")
    A, y = _read(path, features)
    return Dataset(A, y, path.name if path.name not in KNOWN else name, path)


def find(name: str) -> Path:
    """The checked file of a known data set; downloaded into the cache where no folder has it."""
    for place in (_folder, cache):
        folder = place()
        if folder is not None:
            for path in sorted(folder.rglob(name)):
                if path.is_file():
                    return _checked(name, path)
    return _download(name)


def cache() -> Path:
    """Where downloads are kept."""
    if not user_cache().is_absolute():
        raise FileNotFoundError(f"this user has no home to keep downloads in; set {VARIABLE} to the data files' folder")
    return user_cache() / "errorfeedback"


def _folder() -> Path | None:
    named = os.environ.get(VARIABLE)
    if named is None:
        return None
    if not Path(named).is_dir():
        raise FileNotFoundError(f"{VARIABLE}={named}: no such folder; point it at the folder that holds the data files")
    return Path(named)


def _checked(name: str, path: Path) -> Path:
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    if digest != KNOWN[name].sha256:
        raise ValueError(
            f"{path}: sha256 is {digest}, but {name} as LIBSVM distributes it has {KNOWN[name].sha256}; "
            "replace the file, or pass its path to read it as it is"
        )
    return path


def _download(name: str) -> Path:
    target = cache() / name
    part = target.with_name(f"{name}.{os.getpid()}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with urllib.request.urlopen(SITE + name, timeout=60) as answer:
            part.write_bytes(answer.read())
        _checked(name, part)
        part.replace(target)
    except (urllib.error.URLError, OSError) as error:
        raise FileNotFoundError(
            f"{name} is not in the folder of {VARIABLE} ({os.environ.get(VARIABLE, 'not set')}) nor in {cache()}, and "
            f"{SITE}{name} could not be fetched ({error}); put the file named {name} into one of them"
        ) from error
    finally:
        part.unlink(missing_ok=True)
    return target


def _read(path: Path, features: int | None) -> tuple[sparse.csr_array, NDArray[Any]]:
    reader: Any = import_module("sklearn.datasets").load_svmlight_file  # half a second to import: only where it is used
    with _open(path) as file:
        try:
            A, y = reader(file, n_features=features)
        except (ValueError, OverflowError, EOFError, OSError, lzma.LZMAError) as error:
            raise ValueError(_diagnosis(path, features, error)) from error
    if not len(y):
        raise ValueError(f"{path}: the file has no rows")
    return sparse.csr_array(A), y


def _open(path: Path) -> IO[bytes]:
    opened: IO[bytes] = OPENERS[path.suffix](path) if path.suffix in OPENERS else path.open("rb")
    return opened


def _diagnosis(path: Path, features: int | None, error: Exception) -> str:
    """The reader's error with the line it is about."""
    number = 0
    try:
        with _open(path) as file:
            for number, line in enumerate(file, start=1):
                fault = _fault(line.split(b"#")[0].split(), features)
                if fault:
                    return f"{path}, line {number}: {fault}"
    except (EOFError, OSError, lzma.LZMAError) as broken:
        return f"{path}, after line {number}: the compressed file is damaged ({broken})"
    return f"{path}: {error}"


def _fault(words: list[bytes], features: int | None) -> str | None:
    """What is wrong with a line of the form `label index:value ...`."""
    if not words:
        return None
    if not _is_number(words[0]):
        return f"the label {words[0].decode(errors='replace')!r} is not a number"
    last = -1
    for word in words[1:]:
        text = word.decode(errors="replace")
        index, colon, value = word.partition(b":")
        if index == b"qid" and colon:
            continue
        if not colon or not index.isdigit() or not _is_number(value):
            return f"{text!r} is not of the form index:value"
        if int(index) <= last:
            return f"index {int(index)} after {last}: indices must ascend"
        if features is not None and int(index) > features:
            return f"index {int(index)} is above the {features} features asked for"
        if int(index) >= 2**31:
            return f"index {int(index)} is too large (2147483647 at most)"
        last = int(index)
    return None


def _is_number(word: bytes) -> bool:
    try:
        return not math.isnan(float(word))
    except ValueError:
        return False
