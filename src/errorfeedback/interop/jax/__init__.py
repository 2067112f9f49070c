"""`ef.jax`: JAX models as problems. Imported when it is first used; needs `errorfeedback[jax]`."""

from __future__ import annotations

from errorfeedback.extras import import_extra

import_extra("jax", "ef.jax")

from errorfeedback.interop.jax.pytree_problem import params_of, problem  # noqa: E402  (after the extra is known to be there)

__all__ = ["params_of", "problem"]
