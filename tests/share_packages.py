"""`.venv-flower/bin/python tests/share_packages.py .venv`: an environment that finds in another what it has not itself."""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path

here, other = (
    Path(sysconfig.get_path("purelib", vars={"base": str(base)})) for base in (sys.prefix, Path(sys.argv[1]).absolute())
)
(here / "shared.pth").write_text(f"import site; site.addsitedir({str(other)!r})\n")
