"""PyTorch, as `ef.torch`: what needs it is in this folder, and imported when it is first used."""

from __future__ import annotations

from errorfeedback.interop.torch.hook import Hook as Hook
from errorfeedback.interop.torch.hook import hook as hook
from errorfeedback.interop.torch.saved_state import mean_state as mean_state
