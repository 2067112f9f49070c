"""The paper literally: dense vectors, one client at a time, no cleverness. The oracle of the library's tests.

Nothing here imports errorfeedback. A problem is a list of clients; a client is its dense rows, its targets and its
features J_i. A compressor is a function (u, i, t) -> dense vector, where u is in R^d.
"""

from reference.compressors import *  # noqa: F403
from reference.dual import *  # noqa: F403
from reference.kinked import *  # noqa: F403
from reference.local import *  # noqa: F403
from reference.methods import *  # noqa: F403
from reference.problems import *  # noqa: F403
from reference.relatives import *  # noqa: F403
from reference.searching import *  # noqa: F403
from reference.second_order import *  # noqa: F403
from reference.three_points import *  # noqa: F403
from reference.unbiased import *  # noqa: F403
