"""`.venv-flower/bin/python tests/share_packages.py .venv`: an environment that finds in another what it has not itself."""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path


def main() -> None:
    here, other = (Path(sysconfig.get_path("purelib", vars={"base": str(base)})) for base in (sys.prefix, Path(sys.argv[1])))
    (here / "shared.pth").write_text(f"import site; site.addsitedir({str(other.absolute())!r})\n")


if __name__ == "__main__":
    main()
