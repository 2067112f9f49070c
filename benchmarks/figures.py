"""Whether the figures of the docs are those of their commands: they are drawn again and compared. A pre-commit hook.

    docs/scaling.png    from its record docs/scaling.json, which `make scaling` measures
    docs/figure-2.png   by `errorfeedback reproduce --quick figure-2`, some ten seconds, as `make run` does

docs/race.png is left out: `make race` takes more than an hour and needs data sets that are not here. Whoever changes what
`train` sends draws it again (CONTRIBUTING.md).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from matplotlib.image import imread
from scaling import Point, draw

DOCS = Path(__file__).parent.parent / "docs"
ALIKE = 0.001
"""The mean difference of pixels, 0 to 1, of what is the same: matplotlib brings its own fonts along. Times that are 5% off
make 0.0018 in docs/scaling.png."""


def scaling(folder: Path) -> None:
    record = json.loads((DOCS / "scaling.json").read_text(encoding="utf-8"))
    draw(*([Point(**point) for point in record[name]] for name in ("by_size", "by_clients")), folder)


def figure_2(folder: Path) -> None:
    words = [sys.executable, "-m", "errorfeedback", "reproduce", "--quick", "--out", str(folder), "figure-2"]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)


FIGURES = {"scaling": (scaling, "make scaling"), "figure-2": (figure_2, "errorfeedback reproduce --quick figure-2")}
"""How each is drawn, and what to type."""


def stale(name: str) -> bool:
    with TemporaryDirectory() as folder:
        FIGURES[name][0](Path(folder))
        new, old = imread(Path(folder) / f"{name}.png"), imread(DOCS / f"{name}.png")
    return new.shape != old.shape or float(np.abs(new - old).mean()) > ALIKE


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("names", nargs="*", choices=[[], *FIGURES], help="by default all")
    old = [f"docs/{name}.png ({FIGURES[name][1]})" for name in words.parse_args().names or FIGURES if stale(name)]
    if old:
        sys.exit(f"not what its command draws: {', '.join(old)}")


if __name__ == "__main__":
    main()
