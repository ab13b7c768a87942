"""`cdc-views dbt export`: the same files on every run, nobody's files replaced, and templates that render to the plan's SQL."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import jinja2
import pytest
import sqlglot
import yaml
from helpers.dbt_types import contracted, relation_of, table_of_every_type
from helpers.tiny_project import CQL

from cdc_views.api import Project
from cdc_views.cli import main
from cdc_views.errors import ConfigError
from cdc_views.export.dbt import check_names_differ, files_of
from cdc_views.export.dbt.jinja import filled, literal
from cdc_views.export.dbt.sources import freshness_of
from cdc_views.operations.raw_files import plain_name
from cdc_views.plan.build import Ask
from cdc_views.project.models import DataTest
from cdc_views.schemas import read_schema
from cdc_views.sql import rows_sql

pytestmark = pytest.mark.heavy

MACROS = "macros/cdc_views/shop__orders.sql"
MARKS = ("{{ x }}", "{% raw %}", "{# no #}", "{{{", "}}", "%}", "{", "a{{'{'}}b", "${HOME}")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.chdir(tmp_path)
    Path("schema.cql").write_text(CQL)
    write_project("shop.orders")
    return Project.load("cdc_views.yml")


def write_project(*tables: str, schema: str = "schema.cql") -> None:
    raw = {"format": "cassandra-mutation"}
    listed = [{"name": name, "schema": schema, "raw": raw, "replication_factor": 3} for name in tables]
    Path("cdc_views.yml").write_text(yaml.safe_dump({"name": "shop", "engine": "duckdb", "tables": listed}))


class CompilerError(Exception):
    """What dbt would stop with."""


def rendered(text: str, macro: str, *arguments: Any) -> str:
    """Call a macro of a generated file as dbt does."""

    def refuse(message: str) -> None:
        raise CompilerError(message)

    template = jinja2.Environment(undefined=jinja2.StrictUndefined).from_string(text)
    exceptions = type("exceptions", (), {"raise_compiler_error": staticmethod(refuse)})
    return str(getattr(template.make_module({"exceptions": exceptions, "return": lambda value: value}), macro)(*arguments))


@pytest.mark.parametrize("text", MARKS)
def test_text_is_not_taken_for_a_template(text: str) -> None:
    assert jinja2.Template(literal(f"a {text} b")).render() == f"a {text} b"
    assert jinja2.Template(filled(f"{text} HERE", {"HERE": "relation"})).render(relation="raw") == f"{text} raw"


@pytest.mark.parametrize("dialect", ["duckdb", "spark", "bigquery"])
def test_a_macro_renders_to_the_plan_s_sql(project: Project, dialect: str) -> None:
    (table,) = project.tables
    text = files_of("shop", project.tables)[MACROS]
    sql = rows_sql(Ask(table.relation), dialect_name=dialect, strategy="auto", table="some_table", clock="1700000000")
    assert rendered(text, f"{dialect}__cdc_views__latest_row__shop__orders", "some_table", "1700000000") == sql
    assert sqlglot.parse_one(sql, read=dialect)
    by_clock = rendered(text, f"{dialect}__cdc_views__latest_row__shop__orders", "some_table")
    assert by_clock != sql
    assert "cdc_views_now" not in by_clock


def test_an_adapter_that_keeps_no_state_says_so(project: Project) -> None:
    text = files_of("shop", project.tables)[MACROS]
    with pytest.raises(CompilerError, match="bigquery has no way to write Bucket"):
        rendered(text, "bigquery__cdc_views__latest_cells__shop__orders", "t")
    with pytest.raises(CompilerError, match=r"no latest_row of shop.orders for this adapter"):
        rendered(text, "default__cdc_views__latest_row__shop__orders", "t")


def test_two_exports_write_the_same(project: Project) -> None:
    assert files_of("shop", project.tables) == files_of("shop", Project.load("cdc_views.yml").tables)
    assert main(["dbt", "export", "--out", "dbt"]) == 0
    before = {path: path.read_bytes() for path in Path("dbt").rglob("*") if path.is_file()}
    assert main(["dbt", "export", "--out", "dbt"]) == 0
    assert {path: path.read_bytes() for path in Path("dbt").rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("more", [(), ("--select", "shop.lines")], ids=["left", "not selected"])
def test_a_table_that_left_the_project_leaves_and_other_files_stay(project: Project, more: tuple[str, ...]) -> None:
    Path("schema.cql").write_text(CQL + CQL.replace("shop.orders", "shop.lines"))
    write_project("shop.orders", "shop.lines")
    assert main(["dbt", "export", "--out", "dbt"]) == 0
    own = Path("dbt/models/cdc_views/own.sql")
    own.write_text("select 1")
    write_project(*(["shop.orders"] if more else []), "shop.lines")
    assert main(["dbt", "export", "--out", "dbt", *more]) == 0
    names = {path.name for path in Path("dbt/models/cdc_views").iterdir()}
    assert {"own.sql", "shop__lines.sql", "shop__lines__state.sql"} <= names
    assert "shop__orders.sql" not in names
    assert not Path("dbt", MACROS).exists()


def test_somebody_s_file_is_not_replaced(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    theirs = Path("dbt", MACROS)
    theirs.parent.mkdir(parents=True)
    theirs.write_text("{% macro mine() %}{% endmacro %}")
    assert main(["dbt", "export", "--out", "dbt"]) == 2
    assert f"{theirs} was not written by `cdc-views dbt export`" in capsys.readouterr().err
    assert theirs.read_text() == "{% macro mine() %}{% endmacro %}"
    assert not Path("dbt/models").exists()


def test_out_that_is_a_file_is_refused(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    Path("file").write_text("")
    assert main(["dbt", "export", "--out", "file"]) == 2
    assert "name a folder" in capsys.readouterr().err


def test_hostile_names_stay_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of columns that Jinja and YAML take for something else come out of both as they are."""
    monkeypatch.chdir(tmp_path)
    columns = [name for name in MARKS if "$" not in name]
    columns += ["it's", "# no comment", "a: b", "cdc_views_relation", "cdc_views_now"]
    types = {"id": {"type": "int", "role": "partition"}, **{name: {"type": "text"} for name in columns}}
    Path("schema.yml").write_text(yaml.safe_dump({"table": "shop.orders", "columns": types}, sort_keys=False))
    write_project("shop.orders", schema="schema.yml")
    files = files_of("shop", Project.load("cdc_views.yml").tables)
    sql = rendered(files[MACROS], "duckdb__cdc_views__latest_row__shop__orders", "raw", "7")
    assert sqlglot.parse_one(sql, read="duckdb").named_selects == ["id", *columns]
    model = yaml.safe_load(files["models/cdc_views/_cdc_views__models.yml"])["models"][0]
    assert [jinja2.Template(column["name"]).render() for column in model["columns"]] == ["id", *columns]


def test_keys_with_a_float_are_not_tested_and_maps_not_compared(project: Project) -> None:
    """SQL compares floats otherwise than the source, and no engine compares maps."""
    Path("schema.cql").write_text("CREATE TABLE shop.orders (id float, line int, m map<text, int>, PRIMARY KEY (id, line));")
    models = yaml.safe_load(files_of("shop", project.tables)["models/cdc_views/_cdc_views__models.yml"])["models"]
    tests = [test for model in models for test in model["data_tests"]]
    assert {name for test in tests for name in test} == {
        f"cdc_views.{n}" for n in ("no_expired_visible", "shows_the_same", "watermark")
    }
    compared = [test["arguments"]["columns"] for one in tests for test in one.values() if "columns" in test["arguments"]]
    assert compared == [["id", "line"], ["id", "line"]]


@pytest.mark.parametrize(("second", "tests"), [("line", {"unique", "not_null"}), ('"Line"', {"cdc_views.one_row_per_key"})])
def test_a_key_that_needs_quotes_has_the_package_s_test_and_others_dbt_s(project: Project, second: str, tests: set[str]) -> None:
    Path("schema.cql").write_text(f"CREATE TABLE shop.orders (id int, {second} int, v text, PRIMARY KEY (id, {second}));")
    models = yaml.safe_load(files_of("shop", project.tables)["models/cdc_views/_cdc_views__models.yml"])["models"]
    (rows,) = [model for model in models if model["name"] == "shop__orders"]
    assert {name for test in rows["data_tests"] for name in test} - {"cdc_views.no_expired_visible"} == tests


def test_names_that_dbt_cannot_tell_apart_are_refused() -> None:
    assert plain_name("shop.Orders") != plain_name("shop.orders")
    with pytest.raises(ConfigError, match=r"a.b__c and a__b.c would both have the dbt model a__b__c"):
        check_names_differ(["a.b__c", "a__b.c"])


@pytest.mark.parametrize(
    ("tests", "limits"),
    [
        ([], {"warn_after": {"count": 1, "period": "day"}}),
        ([{"column": "a", "not_null": True}], {"warn_after": {"count": 1, "period": "day"}}),
        ([{"fresh_within": "2d"}], {"error_after": {"count": 2, "period": "day"}}),
        ([{"fresh_within": "90m"}, {"fresh_within": "120m"}], {"error_after": {"count": 90, "period": "minute"}}),
        ([{"fresh_within": "7205s", "severity": "warning"}], {"warn_after": {"count": 121, "period": "minute"}}),
    ],
)
def test_limits_of_freshness_are_the_narrowest_of_each_severity(tests: list[dict[str, Any]], limits: dict[str, Any]) -> None:
    assert freshness_of([DataTest.model_validate(test) for test in tests]) == limits


def test_an_unknown_column_that_is_described_is_refused(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    text = yaml.safe_load(Path("cdc_views.yml").read_text())
    text["tables"][0]["dbt"] = {"columns": {"sate": "Where it is."}}
    Path("cdc_views.yml").write_text(yaml.safe_dump(text))
    assert main(["dbt", "export", "--out", "dbt"]) == 2
    error = capsys.readouterr().err
    assert "dbt.columns" in error
    assert "state" in error


def test_raw_tables_are_told_relative_to_the_project_unless_it_says_otherwise(project: Project) -> None:
    text = yaml.safe_load(Path("cdc_views.yml").read_text())
    for raw, place in (("../else/raw", '"/../else/raw"'), ("/data/raw", '"/data/raw"'), ("s3://bucket/raw", '"s3://bucket/raw"')):
        text["tables"][0]["raw"]["table"] = raw
        Path("cdc_views.yml").write_text(yaml.safe_dump(text))
        sources = files_of("shop", Project.load("cdc_views.yml").tables)["models/cdc_views/cdc_views_raw/_cdc_views__sources.yml"]
        identifier = yaml.safe_load(sources)["sources"][0]["tables"][0]["identifier"]
        assert place in identifier
        assert ("CDC_VIEWS_ROOT" in identifier) is raw.startswith("..")


def test_types_of_a_contract_are_those_that_duckdb_gives(tmp_path: Path) -> None:
    project = table_of_every_type(tmp_path)
    relation = relation_of(project)
    sql = rows_sql(Ask(relation), dialect_name="duckdb", strategy="auto", table="raw", clock="0")
    with duckdb.connect() as connection:
        connection.register("raw", relation.arrow_schema().empty_table())
        given = {name: kind for name, kind, *_ in connection.execute(f"DESCRIBE ({sql})").fetchall()}
        nulls = ", ".join(f"CAST(NULL AS {kind}) AS {name}" for name, kind in contracted(project, "duckdb").items())
        assert {name: kind for name, kind, *_ in connection.execute(f"DESCRIBE (SELECT {nulls})").fetchall()} == given


def test_a_column_is_described_by_the_project_file_else_by_its_schema(project: Project) -> None:
    columns = {"id": {"type": "int", "description": "Its number {{ x }}."}, "line": "int"}
    columns |= {name: {"type": "text", "description": f"Its {name}."} for name in ("state", "note")}
    schema = {"table": "shop.orders", "columns": columns, "primary_key": ["id", "line"]}
    Path("schema.yml").write_text(yaml.safe_dump(schema, sort_keys=False))
    write_project("shop.orders", schema="schema.yml")
    text = yaml.safe_load(Path("cdc_views.yml").read_text())
    text["tables"][0]["dbt"] = {"columns": {"state": "Where it is."}}
    Path("cdc_views.yml").write_text(yaml.safe_dump(text))
    models = files_of("shop", Project.load("cdc_views.yml").tables)["models/cdc_views/_cdc_views__models.yml"]
    found = {one["name"]: jinja2.Template(one["description"]).render() for one in yaml.safe_load(models)["models"][0]["columns"]}
    assert found == {"id": "Its number {{ x }}.", "line": "clustering key, int", "state": "Where it is.", "note": "Its note."}


def test_a_schema_s_comments_decide_nothing(project: Project) -> None:
    (table,) = project.tables
    column = table.schema.columns[0]
    described = replace(column, description="Its number.")
    assert (described, repr(described)) == (column, repr(column))
    record = {
        "type": "record",
        "name": "orders",
        "namespace": "shop",
        "fields": [{"name": "id", "type": "int", "doc": "Its number."}],
    }
    Path("orders.avsc").write_text(json.dumps(record))
    assert read_schema(Path("orders.avsc"), table="shop.orders", keyspace="shop", key_columns=["id"]).columns[0].description == (
        "Its number."
    )
