"""What a server asks of every node: which model, of which columns. Where the rows are is the node's own business."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from errorfeedback.data.reading import Reading
from errorfeedback.estimators.base import LinearEF21
from errorfeedback.estimators.model_file import KINDS


@dataclass(frozen=True)
class Assignment:
    """The kind of a model with its parameters, and how files are to be read. Packed, it is a part of every invitation."""

    kind: str
    parameters: dict[str, Any]
    reading: Reading
    share: float | None = None
    """Of the rows that every node holds out, to judge the model by."""
    judged: bool = False
    """The server judges it by rows of its own."""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"kind = {self.kind!r}; a node can train one of {', '.join(KINDS)}")

    @classmethod
    def of(cls, model: LinearEF21, reading: Reading, share: float | None = None, judged: bool = False) -> Assignment:
        """What nodes must do for this model to be trained.

        >>> from errorfeedback.estimators import EF21Classifier
        >>> Assignment.of(EF21Classifier(l2=0.5), Reading()).model()
        EF21Classifier(l2=0.5)
        """
        kind = next(name for name, known in KINDS.items() if type(model) is known)
        return cls(kind, model.get_params(), reading, share, judged)

    @property
    def whole(self) -> bool:
        """Whether the server is to know all weights in every round."""
        return self.judged or self.share is not None

    def model(self) -> LinearEF21:
        """The model, as it is before it is trained."""
        return KINDS[self.kind](**self.parameters)
