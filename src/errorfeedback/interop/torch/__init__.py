"""`ef.torch`: PyTorch modules as problems, and a hook for DistributedDataParallel. Imported when it is first used; needs
`errorfeedback[torch]`.
"""

from __future__ import annotations

from errorfeedback.extras import import_extra

import_extra("torch", "ef.torch")

from errorfeedback.interop.torch.hook import Hook, hook  # noqa: E402  (after the extra is known to be there)
from errorfeedback.interop.torch.module_problem import load_into, problem  # noqa: E402
from errorfeedback.interop.torch.saved_state import mean_state  # noqa: E402

__all__ = ["Hook", "hook", "load_into", "mean_state", "problem"]
