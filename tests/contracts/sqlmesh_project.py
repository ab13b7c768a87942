"""SQLMesh in a virtual environment of its own, since it pins other versions of sqlglot and DuckDB; and a project it runs."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import duckdb
import pyarrow as pa

ROOT = Path(__file__).parents[2]
PINS = ROOT / "requirements" / "sqlmesh.txt"


def sqlmesh() -> Path:
    """Return the program, once its environment is made in the project's cache from the hashed pins."""
    cache = Path(os.environ.get("CDC_VIEWS_CACHE", ROOT / ".cache"))
    python = ".".join(map(str, sys.version_info[:2]))
    folder = cache.absolute() / f"sqlmesh-{sha256(PINS.read_bytes()).hexdigest()[:12]}-{python}"
    if not (folder / "ready").exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes", "-r", str(PINS)]
        subprocess.run([str(folder / "bin" / "python"), *install], check=True)
        (folder / "ready").touch()
    return folder / "bin" / "sqlmesh"


@dataclass(frozen=True)
class SqlMeshProject:
    """An exported project in the folder of the project file."""

    folder: Path

    def plan(self, *options: str, as_of: int) -> subprocess.CompletedProcess[str]:
        """Run `sqlmesh plan` with the clock at `as_of`, epoch seconds."""
        command = [str(sqlmesh()), "plan", "--auto-apply", "--no-prompts", "--execution-time", str(as_of * 1000), *options]
        paths = {"PYTHONPATH": str(ROOT), "HOME": str(self.folder), "DO_NOT_TRACK": "1"}
        return subprocess.run(command, cwd=self.folder, env=os.environ | paths, capture_output=True, text=True, check=False)

    def build(self, *options: str, as_of: int) -> None:
        """Plan; it must succeed."""
        done = self.plan(*options, as_of=as_of)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]

    def rows(self, model: str) -> pa.Table:
        """Return the rows of a model."""
        with duckdb.connect(str(self.folder / "cdc_views.duckdb"), read_only=True) as connection:
            connection.execute("SET TimeZone = 'UTC'")
            return connection.sql(f"SELECT * FROM {model}").to_arrow_table()
