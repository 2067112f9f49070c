"""`make dist`: what people install is built, checked, installed into empty environments, and used as README says.

    python tests/package_builds.py --out dist

Not a part of the suite: two environments are filled from the package index, which takes minutes. Needs `build` and `twine`.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).parent.parent
TRAINED = "errorfeedback train clicks.csv"
"""README's first command begins so; its table is made up here."""


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("--out", type=Path, default=ROOT / "dist")
    words.add_argument("--work", type=Path, required=True, help="An empty folder for the environments.")
    given = words.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    for old in (*given.out.glob("*.whl"), *given.out.glob("*.tar.gz")):
        old.unlink()
    run(sys.executable, "-m", "build", "--outdir", given.out, ROOT)
    made = sorted([*given.out.glob("*.whl"), *given.out.glob("*.tar.gz")])
    assert len(made) == 2, made
    run(sys.executable, "-m", "twine", "check", "--strict", *made)
    for package in made:
        used(package.resolve(), given.work.resolve() / package.name.split("-")[-1])


def used(package: Path, place: Path) -> None:
    """Install it into an empty environment and do what README does."""
    print(f"--- {package.name}", flush=True)
    venv.create(place / "env", with_pip=True)
    commands = place / "env" / ("Scripts" if os.name == "nt" else "bin")
    python = commands / "python"
    run(python, "-m", "pip", "install", "--quiet", f"{package}[report,tables]")
    run(python, "-m", "pip", "check")
    version = re.match(r"errorfeedback-([^-]+?)(?:-py3|\.tar)", package.name)[1]
    said = run(commands / "errorfeedback", "--version").strip()
    assert said == f"errorfeedback {version}", (said, version)
    make_table(place / "clicks.csv")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (command,) = [line.partition("#")[0].split() for line in readme.splitlines() if line.startswith(TRAINED)]
    run(commands / command[0], *command[1:], cwd=place)
    for rest in ("evaluate run clicks.csv", "predict run clicks.csv --out said.csv", "explain run", "export run --to csv"):
        run(commands / "errorfeedback", *rest.split(), cwd=place)
    for name in ("run/report.html", "run/explained.html", "run/coefficients.csv", "said.csv"):
        assert (place / name).stat().st_size > 100, name
    (program,) = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    run(python, "-c", program, cwd=place)
    if os.environ.get("ERRORFEEDBACK_DATA"):
        run(commands / "errorfeedback", "inspect", "a9a", "--clients", "300", cwd=place)


def make_table(path: Path) -> None:
    draw = random.Random(0)
    lines = ["seconds,place,target"]
    for _ in range(3000):
        seconds, place = draw.gauss(0, 1), draw.choice(["top", "side", "foot"])
        lines.append(f"{seconds:.4f},{place},{int(seconds + (place == 'top') + draw.gauss(0, 1) > 0.5)}")
    path.write_text("\n".join(lines), encoding="utf-8")


def run(*command: object, cwd: Path | None = None) -> str:
    """What it said; what went wrong is shown. Nothing of this checkout is on its path."""
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    done = subprocess.run([*map(str, command)], cwd=cwd, env=clean, capture_output=True, text=True, check=False)
    print(f"$ {' '.join(map(str, command))[:120]}\n{(done.stdout + done.stderr)[-1500:]}", flush=True)
    done.check_returncode()
    return done.stdout


if __name__ == "__main__":
    main()
