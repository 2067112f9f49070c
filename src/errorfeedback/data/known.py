"""Data sets of LIBSVM's site, by name. A name is looked for in the folder that ERRORFEEDBACK_DATA names and in its
subfolders, then in the user's cache, then on the site; a file found by name must have the known sha256.
"""

from __future__ import annotations

import hashlib
import os
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

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
