"""dbt-spark in this process's session, over the same Delta tables: rows equal what Cassandra answered."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from helpers.dbt_project import DbtProject
from helpers.dbt_views import MODELS, answered, check, land, landing, printed, real
from helpers.dialect_cases import REAL, real_table

if TYPE_CHECKING:
    from cdc_views_spark.engine import SparkEngine

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.mark.parametrize(("name", "command"), [("names3", "run"), ("wide3", "build")])
def test_models_built_from_late_data_on_spark(
    spark_engine: SparkEngine, cassandra_cases: Path, tmp_path: Path, name: str, command: str
) -> None:
    """`build` runs the generic tests as well, which take Spark as long again."""
    case, session = real_table(cassandra_cases, name), spark_engine.session
    dbt = DbtProject.make(tmp_path, real(cassandra_cases, name), target="spark")
    answers = {which: answered(cassandra_cases, name, which) for which in ("early", "late")}
    for which, (now, _) in answers.items():
        model = f"{{{{ cdc_views.as_of(ref('{MODELS[name]}__state'), '{REAL[name]}', {now}) }}}}"
        (dbt.folder / "models" / f"{name}_{which}.sql").write_text(model)
    first, *others = landing(cassandra_cases, name)
    land(dbt, name, first)
    dbt.build("--select", f"{MODELS[name]}__state", command="run")
    for lines in others:
        land(dbt, name, lines)
    dbt.build("--exclude", "test_name:replica_coverage", command=command)
    written = [commit.operation for commit in session.sql(f"DESCRIBE HISTORY dbt.{MODELS[name]}__state").collect()]
    assert written == ["WRITE", "CREATE OR REPLACE TABLE AS SELECT"], "the second run replaced parts of the state"
    for which, (now, rows) in answers.items():
        assert printed(case, list(json.loads(rows[0])), now=now) == rows
        check(case, session.table(f"dbt.{name}_{which}").toArrow(), now=now)
