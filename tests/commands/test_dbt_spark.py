"""dbt-spark in this process's session, over the same Delta tables: rows equal what Cassandra answered."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from helpers.dbt_project import DbtProject
from helpers.dbt_types import contracted, relation_of, table_of_every_type
from helpers.dbt_views import MODELS, answered, check, land, landing, printed, real
from helpers.dialect_cases import REAL, real_table

from cdc_views.plan.build import Ask
from cdc_views.sql import rows_sql

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


def test_types_of_a_contract_are_those_that_spark_gives(spark_engine: SparkEngine, tmp_path: Path) -> None:
    from pyspark.sql.pandas.types import from_arrow_schema

    project, session = table_of_every_type(tmp_path), spark_engine.session
    relation = relation_of(project)
    session.createDataFrame([], from_arrow_schema(relation.arrow_schema())).createOrReplaceTempView("raw_of_every_type")
    sql = rows_sql(Ask(relation), dialect_name="spark", strategy="auto", table="raw_of_every_type", clock="0")
    given = {field.name: field.dataType for field in session.sql(sql).schema}
    nulls = ", ".join(f"CAST(NULL AS {kind}) AS `{name}`" for name, kind in contracted(project, "spark").items())
    named = {field.name: field.dataType for field in session.sql(f"SELECT {nulls}").schema}
    assert {name: kind.simpleString() for name, kind in named.items()} == {n: kind.simpleString() for n, kind in given.items()}


def test_freshness_on_spark_is_the_age_of_the_last_landing(
    spark_engine: SparkEngine, cassandra_cases: Path, tmp_path: Path
) -> None:
    dbt = DbtProject.make(tmp_path, real(cassandra_cases, "wide3"), target="spark")
    land(dbt, "wide3", landing(cassandra_cases, "wide3")[0])
    dbt.run("source", "freshness")
    (result,) = json.loads((tmp_path / "target" / "sources.json").read_text("utf-8"))["results"]
    assert (result["status"], result["max_loaded_at_time_ago_in_s"] < 600) == ("pass", True)
