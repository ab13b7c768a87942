"""A dbt project in a folder, made from a cdc-views project as a user would: export, deps, build."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import duckdb
import pyarrow as pa
from dbt.cli.main import dbtRunner

from cdc_views.api import Project
from cdc_views.export.dbt import export

PACKAGE = Path(__file__).parents[2] / "dbt_compat"


@dataclass(frozen=True)
class DbtProject:
    """The integration tests' dbt project, copied into `folder`, beside the project file."""

    folder: Path
    target: str = "duckdb"
    root_variable: ClassVar[str] = "CDC_VIEWS_ROOT"

    @classmethod
    def make(cls, folder: Path, *tables: dict[str, Any], target: str = "duckdb") -> DbtProject:
        """Write both projects, export, and install the package."""
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("dbt_project.yml", "packages.yml", "profiles.yml"):
            shutil.copy(PACKAGE / "integration_tests" / name, folder / name)
        (folder / "cdc_views.yml").write_text(json.dumps({"name": "cases", "engine": "duckdb", "tables": list(tables)}))
        made = cls(folder, target)
        export("cases", made.project.tables, folder)
        made.run("deps")
        return made

    @property
    def project(self) -> Project:
        """The cdc-views project."""
        return Project.load(self.folder / "cdc_views.yml")

    def run(self, *command: str, **variables: Any) -> dict[str, str]:
        """Run dbt; returns the status of each node by its short name. Fails only where dbt itself could not run."""
        options = ["--project-dir", str(self.folder), "--profiles-dir", str(self.folder), "--target", self.target]
        options = options if command[0] != "deps" else options[:4]
        options += ["--vars", json.dumps(variables)] if variables else []
        with self._environment():
            done = dbtRunner().invoke(["--quiet", "--no-use-colors", *command, *options])
        if done.exception is not None:
            raise done.exception
        results = getattr(done.result, "results", None) or []
        return {result.node.name: f"{result.status}: {result.message}" for result in results if hasattr(result, "node")}

    def build(self, *options: str, command: str = "build", **variables: Any) -> None:
        """Run `dbt build`; every model is built and every test passes."""
        found = self.run(command, *options, **variables)
        bad = {name: status for name, status in found.items() if not status.startswith(("success", "pass", "no-op"))}
        assert found, "nothing was built"
        assert not bad, bad

    def rows(self, sql: str) -> pa.Table:
        """Return what DuckDB answers from the database that dbt built."""
        with duckdb.connect(str(self.folder / "dbt.duckdb")) as connection:
            connection.execute("SET TimeZone = 'UTC'")
            return connection.sql(sql).to_arrow_table()

    @contextmanager
    def _environment(self) -> Iterator[None]:
        ours = {
            "DO_NOT_TRACK": "1",
            "DBT_SEND_ANONYMOUS_USAGE_STATS": "false",
            "CDC_VIEWS_DBT_PACKAGE": str(PACKAGE),
            "CDC_VIEWS_DBT_DATABASE": str(self.folder / "dbt.duckdb"),
            "CDC_VIEWS_PROJECT": str(self.folder / "cdc_views.yml"),
            self.root_variable: str(self.folder),
        }
        before, here = {name: os.environ.get(name) for name in ours}, Path.cwd()
        os.environ.update(ours)
        try:
            yield
        finally:
            os.chdir(here)
            for name, value in before.items():
                os.environ.pop(name, None) if value is None else os.environ.__setitem__(name, value)
