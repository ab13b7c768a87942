"""SQLMesh in a virtual environment of its own, since it pins other versions of sqlglot and DuckDB; and a project it runs."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa

from helpers.pinned import path_of_checkout, program


def sqlmesh() -> Path:
    """Return the program, once its environment is made."""
    return program("sqlmesh")


@dataclass(frozen=True)
class SqlMeshProject:
    """An exported project in the folder of the project file."""

    folder: Path

    def plan(self, *options: str, as_of: int) -> subprocess.CompletedProcess[str]:
        """Run `sqlmesh plan` with the clock at `as_of`, epoch seconds."""
        command = [str(sqlmesh()), "plan", "--auto-apply", "--no-prompts", "--execution-time", str(as_of * 1000), *options]
        paths = {"PYTHONPATH": path_of_checkout(self.folder), "HOME": str(self.folder), "DO_NOT_TRACK": "1"}
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
