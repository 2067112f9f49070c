"""What all forms of an exported model have in common: a name, a file, and how it is written."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar

from errorfeedback.estimators.model_file import Saved


class Export(ABC):
    """A form that a trained model takes."""

    name: ClassVar[str]
    """What `--to` says."""
    file: ClassVar[str]
    """Its file, beside the model, where nobody names another."""

    @abstractmethod
    def write(self, saved: Saved, path: Path) -> None:
        """Put the model into this file."""
