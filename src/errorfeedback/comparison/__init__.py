"""Methods side by side: `ef.compare`."""

from errorfeedback.comparison.comparison import Comparison as Comparison
from errorfeedback.comparison.comparison import compare as compare
