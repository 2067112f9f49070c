"""Everything registered, for tests that run over all of it: a new file joins by itself."""

from __future__ import annotations

from errorfeedback import compressors, directions, downlinks, methods, stepsizes
from errorfeedback.compressors.base import Compressor
from errorfeedback.directions.base import Direction
from errorfeedback.downlinks.base import Downlink
from errorfeedback.methods.base import Method
from errorfeedback.registry import members
from errorfeedback.stepsizes.base import StepSize

COMPRESSORS = [c for cls in members(compressors, Compressor).values() for c in cls.examples()]
METHODS = [m for cls in members(methods, Method).values() for m in cls.examples(COMPRESSORS)]
RULES = members(stepsizes, StepSize)
DOWNLINKS = [d for cls in members(downlinks, Downlink).values() for d in cls.examples()]
DIRECTIONS = [d for cls in members(directions, Direction).values() for d in cls.examples()]
