"""Everything registered, for tests that run over all of it: a new file joins by itself."""

from __future__ import annotations

from errorfeedback import compressors, methods, stepsizes
from errorfeedback.compressors.base import Compressor
from errorfeedback.methods.base import Method
from errorfeedback.registry import members
from errorfeedback.stepsizes.base import StepSize

COMPRESSORS = [c for cls in members(compressors, Compressor).values() for c in cls.examples()]
METHODS = [m for cls in members(methods, Method).values() for m in cls.examples(COMPRESSORS)]
RULES = members(stepsizes, StepSize)
