"""Whether a figure of the docs is that of its record: docs/scaling.png is drawn again from docs/scaling.json and compared.

A pre-commit hook. docs/race.png is drawn by `make race`, whose records are not kept here.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from matplotlib.image import imread
from scaling import Point, draw

DOCS = Path(__file__).parent.parent / "docs"
ALIKE = 0.01
"""The mean difference of pixels, 0 to 1, that fonts of another machine make."""


def main() -> None:
    record = json.loads((DOCS / "scaling.json").read_text(encoding="utf-8"))
    with TemporaryDirectory() as folder:
        draw(*([Point(**point) for point in record[name]] for name in ("by_size", "by_clients")), Path(folder))
        new, old = imread(Path(folder) / "scaling.png"), imread(DOCS / "scaling.png")
    if new.shape != old.shape or float(np.abs(new - old).mean()) > ALIKE:
        sys.exit("docs/scaling.png is not the figure of docs/scaling.json; make scaling draws both")


if __name__ == "__main__":
    main()
