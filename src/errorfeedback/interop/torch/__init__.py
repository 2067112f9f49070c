"""`ef.torch`: PyTorch modules as problems. Imported when it is first used; needs `errorfeedback[torch]`."""

from __future__ import annotations

from errorfeedback.extras import import_extra

import_extra("torch", "ef.torch")

from errorfeedback.interop.torch.module_problem import load_into, problem  # noqa: E402  (after the extra is known to be there)

__all__ = ["load_into", "problem"]
