"""Programs in virtual environments of their own, made once in the project's cache from hashed pins."""

from __future__ import annotations

import os
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).parents[2]


def path_of_checkout(folder: Path) -> str:
    """Return a PYTHONPATH with which another environment has this checkout as if it were installed: its entry points, too.

    `folder` is where a link to what describes the package is made.
    """
    (described,) = [place for place in map(Path, sys.path) for place in place.glob("cdc_views-*.dist-info")][:1]
    beside = folder / "described"
    beside.mkdir(exist_ok=True)
    link = beside / described.name
    if not link.exists():
        link.symlink_to(described)
    return os.pathsep.join(map(str, (ROOT, ROOT / "bigquery", ROOT / "producers", ROOT / "spark", beside)))


def program(name: str, *, pins: str | None = None) -> Path:
    """Return the program `name` of the environment that `requirements/PINS.txt` describes; by default its own name's."""
    file = ROOT / "requirements" / f"{pins or name}.txt"
    cache = Path(os.environ.get("CDC_VIEWS_CACHE", ROOT / ".cache"))
    python = ".".join(map(str, sys.version_info[:2]))
    folder = cache.absolute() / f"{file.stem}-{sha256(file.read_bytes()).hexdigest()[:12]}-{python}"
    if not (folder / "ready").exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        pip = [str(folder / "bin" / "python"), "-m", "pip", "--quiet", "--disable-pip-version-check"]
        # the pins are complete, as the check shows; pip 23.2, resolving, takes a pin with an extra for none of its package
        subprocess.run([*pip, "install", "--no-deps", "--require-hashes", "-r", str(file)], check=True)
        subprocess.run([*pip, "check"], check=True)
        (folder / "ready").touch()
    return folder / "bin" / name
