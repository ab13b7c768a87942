"""Raw tables by the name that a catalog has for them, and views, states and serving tables that `apply` registers in one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from helpers.catalog_projects import NAME, done, land, refused, write_project
from helpers.command_line import CommandLine
from helpers.tiny_project import event

from cdc_views import Project
from cdc_views.operations import context

if TYPE_CHECKING:
    from cdc_views_spark.engine import SparkEngine
    from pyspark.sql import SparkSession

RAW = "spark_catalog.cdc_raw.`table`"
"""The last part is a word of SQL."""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """The command line in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return CommandLine(capsys)


@pytest.fixture
def session(spark_engine: SparkEngine) -> Any:
    """The session of the tests, its catalog without what these tests make."""
    yield spark_engine.session
    for schema in ("cdc_raw", "shop"):
        spark_engine.session.sql(f"DROP SCHEMA IF EXISTS `{schema}` CASCADE")


def rows(session: SparkSession, name: str, columns: str = "id, state") -> list[tuple[Any, ...]]:
    """What any session reads by a name: one of its own, with nothing of cdc-views."""
    return sorted(tuple(row) for row in session.newSession().sql(f"SELECT {columns} FROM {name}").collect())


@pytest.mark.parametrize(
    ("name", "is_name"),
    [
        ("main.cdc_1.orders", True),
        ("main.`my cdc`.`a``b.c`", True),
        ("./main.cdc.orders", False),
        ("cdc.orders", False),
        ("main.my-cdc.orders", False),
    ],
)
def test_an_engine_without_catalogs_refuses_a_name(run: CommandLine, name: str, is_name: bool) -> None:
    write_project(name, engine="duckdb")
    if is_name:
        refused(
            land(run, 1), f"`raw.table` {name} names a table of a catalog", "engine duckdb has none", f"./{name} for a folder"
        )
        assert sorted(file.name for file in Path().iterdir()) == ["cdc_views.yml", "events.jsonl", "schema.cql"]
    else:
        done(land(run, 1))
        assert DeltaTable(name).version() >= 0


@pytest.mark.parametrize("engine", ["duckdb", "spark"])
def test_a_folder_of_that_name_stays_a_path(run: CommandLine, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context.ProjectContext, "engine", lambda *_: pytest.fail("no engine is asked"))
    Path("main.cdc.orders").mkdir()
    write_project("main.cdc.orders", engine=engine)
    done(land(run, 1))
    there = Path("main.cdc.orders").resolve()
    assert DeltaTable(there).metadata().name == NAME
    file = Path("cdc_views.yml").resolve()
    Path("elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    assert Project.load(file).table(NAME).location == str(there), "beside the project file, wherever it is called"


def test_a_command_that_needs_no_raw_table_asks_no_engine(run: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context.ProjectContext, "engine", lambda *_: pytest.fail("no engine is asked"))
    write_project(RAW)
    done(run("fidelity"))
    assert Project.load().table(NAME).schema.full_name == NAME


@pytest.mark.spark
@pytest.mark.heavy
def test_a_raw_table_begins_and_grows_in_its_catalog(run: CommandLine, session: SparkSession) -> None:
    write_project(RAW)
    shown = RAW.replace("`", "")
    refused(run("query", NAME), f"`raw.table` {shown}", "has no such schema 'cdc_raw'", "`cdc-views land` creates it")
    done(land(run, 1, 2))
    place = Path(Project.load().table(NAME).location)
    assert place.name == "table"
    assert place.parent.name == "cdc_raw.db"
    done(land(run, 3))
    assert rows(session, RAW, "id, _kind") == [(1, "row"), (2, "row"), (3, "row")]
    assert [row["id"] for row in run.query(NAME, "--columns", "id", "--engine", "duckdb")] == [1, 2, 3]
    (found,) = run("status", "--format", "jsonl").rows
    assert (found["raw_facts"], "registered" in found) == (3, False)
    session.sql(f"DROP TABLE {RAW}")
    assert not place.exists(), "the catalog has the files of a table that `land` created"
    refused(run("query", NAME), f"`raw.table` {shown}", "has no such table")
    answer = land(run, 4)
    assert (answer.code, f"its raw table {shown} was there before" in answer.err) == (3, True)
    done(run("rebuild", NAME, "--accept", "--engine", "duckdb"))
    done(land(run, 5))
    assert [row["id"] for row in run.query(NAME, "--columns", "id", "--engine", "duckdb")] == [5]
    Path("bad.jsonl").write_text("nothing\n")
    assert run("land", "cassandra-mutation", "bad.jsonl", "--table", NAME).code == 1
    assert (place.parent / "table__quarantine" / "_delta_log").is_dir()


@pytest.mark.spark
@pytest.mark.heavy
def test_what_is_no_delta_table_is_refused(run: CommandLine, session: SparkSession) -> None:
    session.sql("CREATE SCHEMA IF NOT EXISTS cdc_raw")
    session.sql("CREATE VIEW cdc_raw.seen AS SELECT 1 AS a")
    session.sql("CREATE TABLE cdc_raw.other (a int) USING parquet")
    session.sql("CREATE TABLE cdc_raw.foreign (a int) USING DELTA")
    for name, what in (
        ("spark_catalog.cdc_raw.seen", "is a view; a Delta table was expected"),
        ("spark_catalog.cdc_raw.other", "is a table of parquet; a Delta table was expected"),
        ("spark_catalog.cdc_raw.foreign", "is a Delta table, but no raw table of cdc-views"),
        ("nowhere.cdc.orders", "Spark knows no catalog 'nowhere'; set `spark: {settings: {spark.sql.catalog.nowhere: …}}`"),
        ("spark_catalog.`no dots. here`.orders", "creates no schema 'no dots. here'"),
    ):
        write_project(name)
        refused(land(run, 1), what)


@pytest.mark.spark
@pytest.mark.heavy
def test_apply_registers_what_other_sessions_read(run: CommandLine, session: SparkSession) -> None:
    named = {"materialize": {"serving": True}, "view": {"name": "from"}}
    write_project(RAW, catalog="spark_catalog", table=named, warehouse="a lake's folder")
    view = "spark_catalog.shop.from"
    done(land(run, 1, 2))
    (told,) = done(run("apply", "--format", "jsonl")).rows
    assert (told["view"], told["state"]) == (view, "applied")
    done(run("materialize", "--engine", "duckdb"))
    done(land(run, 2, state="paid", node="n2"))
    assert rows(session, view) == [(1, "open"), (2, "paid")]
    assert rows(session, f"{view}__serving") == [(1, "open"), (2, "open")]
    done(run("rebuild", NAME, "--engine", "duckdb"))
    kept = Project.load().table(NAME).state_location
    assert kept.endswith("/2")
    assert kept in str(session.sql(f"DESCRIBE TABLE EXTENDED {view}__state").collect()), "the name follows the state"
    assert {row[0] for row in rows(session, f"{view}__state", "id")} == {1, 2}
    again = done(run("apply"))
    assert f"{view}__state is registered" in again.err
    assert f"{view}__serving is registered" in again.err
    (found,) = run("status", "--format", "jsonl").rows
    assert found["registered"] == f"{view}, {view}__state, {view}__serving"
    assert "TBLPROPERTIES ('cdc_views.view' = 'my-20shop/shop_orders') AS" in done(run("generate")).out
    serving = Path(Project.load().table(NAME).serving_location)
    session.sql(f"DROP VIEW {view}")
    for name in ("state", "serving"):
        session.sql(f"DROP TABLE {view}__{name}")
    assert all((place / "_delta_log").is_dir() for place in (Path(kept), serving)), "a dropped name deletes no file"


@pytest.mark.spark
@pytest.mark.heavy
def test_names_of_others_are_not_replaced(run: CommandLine, session: SparkSession, tmp_path: Path) -> None:
    write_project(None, catalog="spark_catalog")
    done(land(run, 1))
    session.sql("CREATE SCHEMA IF NOT EXISTS shop")
    session.sql("CREATE VIEW shop.orders AS SELECT 1 AS mine")
    refused(run("apply"), "spark_catalog.shop.orders: a view that is not of this project has the name", "drop it")
    session.sql("DROP VIEW shop.orders")
    session.sql("CREATE TABLE shop.orders (mine int) USING DELTA")
    refused(run("apply"), "a table at /", "/shop.db/orders that is not of this project has the name")
    session.sql("DROP TABLE shop.orders")
    done(run("materialize", "--engine", "duckdb"))
    session.sql(f"CREATE TABLE shop.orders__state (mine int) USING DELTA LOCATION '{tmp_path}/theirs'")
    refused(run("apply"), "spark_catalog.shop.orders__state: a table at", "/theirs that is not of this project")
    assert "/theirs" in str(session.sql("DESCRIBE TABLE EXTENDED shop.orders__state").collect())
    session.sql("DROP TABLE shop.orders__state")
    done(run("apply"))
    # a view that an earlier project file, without `catalog`, applied is this project's
    session.sql("DROP VIEW shop.orders")
    session.sql("DROP TABLE shop.orders__state")
    write_project(None)
    done(run("apply"))
    found = [session.catalog.tableExists(f"shop.orders{end}") for end in ("", "__state")]
    assert found == [True, False], "without `catalog` only the view is made"
    write_project(None, catalog="spark_catalog")
    done(run("apply"))
    assert "cdc_views.view" in str(session.sql("SHOW TBLPROPERTIES shop.orders").collect())


@pytest.mark.spark
@pytest.mark.heavy
def test_a_catalog_that_cannot_says_so(run: CommandLine, session: SparkSession) -> None:
    """Spark's catalog of a database by JDBC takes neither views nor tables of Delta."""
    kind = "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog"
    for name, value in (
        ("", kind),
        (".url", "jdbc:derby:memory:x;create=true"),
        (".driver", "org.apache.derby.iapi.jdbc.AutoloadedDriver"),
    ):
        session.conf.set(f"spark.sql.catalog.jdbc{name}", value)
    write_project("jdbc.APP.orders")
    refused(land(run, 1), "jdbc.APP.orders: catalog jdbc creates no Delta table there: [NOT_SUPPORTED_IN_JDBC_CATALOG")
    write_project(None, catalog="jdbc")
    done(land(run, 1))
    answer = done(run("apply", "--format", "jsonl"))
    assert answer.rows[0]["state"] == "no view"
    assert "jdbc.shop.orders: catalog jdbc takes no views; the tables are registered" in answer.err
    refused(
        run("materialize", "--engine", "duckdb"), "jdbc.shop.orders__state: catalog jdbc registers no Delta table of this place"
    )


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ("hdfs://namenode/cdc/orders", "hdfs:// is no store that cdc-views knows"),
        ("/nowhere/orders", "where no Delta table is; put the table's folder back"),
    ],
)
def test_a_place_that_only_spark_reads_is_refused(
    run: CommandLine, monkeypatch: pytest.MonkeyPatch, place: str, why: str
) -> None:
    @contextmanager
    def catalogs(_: context.ProjectContext) -> Iterator[Any]:
        yield SimpleNamespace(locate=lambda _: place)

    monkeypatch.setattr(context.ProjectContext, "catalogs", catalogs)
    write_project("main.cdc.orders")
    for command in (("query", NAME), ("status",), ("apply",)):
        refused(run(*command), "main.cdc.orders: ", place, why)
    refused(land(run, 1), "main.cdc.orders: ", place, why)


@pytest.mark.spark
@pytest.mark.heavy
def test_an_external_table_is_found_by_its_name(run: CommandLine, session: SparkSession, tmp_path: Path) -> None:
    place = tmp_path / "their lake" / "orders"
    write_deltalake(str(place), pa.table({"value": [event(1), event(2)]}))
    session.sql("CREATE SCHEMA IF NOT EXISTS cdc_raw")
    session.sql(f"CREATE TABLE cdc_raw.theirs USING DELTA LOCATION '{place}'")
    write_project("spark_catalog.cdc_raw.theirs", layout="as-found")
    assert Project.load().table(NAME).location == str(place)
    assert [row["id"] for row in run.query(NAME, "--engine", "duckdb")] == [1, 2]
    write_project("spark_catalog.cdc_raw.their", layout="as-found")
    refused(run("query", NAME), "has no such table; correct the name")
