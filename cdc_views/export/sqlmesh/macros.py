"""The macro that the exported models begin with: it sets the raw table's current files and the run's clock in DuckDB. It runs
inside SQLMesh, which pins other versions of sqlglot and DuckDB, so nothing here renders SQL from a plan.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from cdc_views.api import Project
from cdc_views.model.extras import needs
from cdc_views.operations.raw_files import files_of, raw_variable, set_variable

with needs("SQLMesh's macro", extra="sqlmesh"):
    from sqlmesh import macro

_FOLDER = TemporaryDirectory(prefix="cdc-views-sqlmesh-")
_AT_RUN = ("creating", "evaluating")


@macro()  # type: ignore[untyped-decorator]
def cdc_views_read(evaluator: Any, table: Any) -> list[str]:
    """Return the statements that set the files of a table's raw events and `cdc_views_now`, epoch seconds: SQLMesh's execution
    time, which `--execution-time` moves. The variable `cdc_views_project` of `config.yaml` is the project file, relative to the
    folder where sqlmesh runs.
    """
    if evaluator.runtime_stage not in _AT_RUN:
        return []
    name = str(table.name)
    project = Project.load(str(evaluator.var("cdc_views_project", "cdc_views.yml")))
    files = files_of(project.table(name), Path(_FOLDER.name), what="what a SQLMesh model makes of raw alone")
    clock = f"SET VARIABLE cdc_views_now = {int(evaluator.locals['execution_epoch'])}"
    return [set_variable(raw_variable(name), files), clock]
