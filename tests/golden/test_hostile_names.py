"""Names of columns, views, schemas, user types' fields and comments that some engine or printer takes for something else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
import sqlglot
from helpers.golden_cases import HOSTILE, INT, LONG, TEXT, key, relation
from sqlglot import exp

from cdc_views.errors import UnsupportedError
from cdc_views.model.naming import physical_name
from cdc_views.model.schema import Column
from cdc_views.model.types import Udt
from cdc_views.rules.cells import Cell, Liveness
from cdc_views.rules.codec.serialized import serialize
from cdc_views.rules.facts import Fact, FactKind
from cdc_views.sql import ViewSql, generate
from cdc_views.sql.dialects import Dialect, dialect, dialect_class, dialect_names
from cdc_views.storage.relation import Relation

if TYPE_CHECKING:
    from services.trino import Trino

    from cdc_views.engines.duckdb.engine import DuckDbEngine


def of_names(target: Dialect, *, fields: bool) -> tuple[Relation, list[str]]:
    """A table with a column of every hostile name that the dialect can hold, told apart by case where it must be."""
    longest = (target.max_name_bytes or 1000) - len("_deletion_")
    names = [n for n in HOSTILE if target.column_name.match(n) and len(physical_name(n)) <= longest and n != "select"]
    home = Udt("k", "u", tuple((n, TEXT) for n in names), frozen=False)
    others = [Column(n, INT if i % 2 else TEXT) for i, n in enumerate(names)]
    columns = [key('k e`y"', INT) if target.column_name.match("`") else key("k ey", INT), *others]
    made = relation(*columns, *([Column("home", home)] if fields else []))
    return made, [c.name for c in made.schema.columns]


def statement(name: str, made: Relation, view: ViewSql, *, note: str = "", table: str = "raw_orders") -> str:
    return generate(made, dialect_name=name, strategy="aggregate", view=view, table=table, note=note)


DIALECTS = dialect_names()
QUICK = ("duckdb", "bigquery")


@pytest.mark.parametrize("name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.heavy) for n in DIALECTS])
def test_every_column_keeps_its_name_in_one_statement(name: str) -> None:
    made, names = of_names(dialect(name), fields=True)
    found = sqlglot.parse(statement(name, made, ViewSql("s", "v")), read=dialect(name).sqlglot_name)
    assert [type(s) for s in found] == [exp.Create]
    assert [s.alias_or_name for s in found[0].expression.selects] == names


WORST = ('a"b', "`", "a'b", "it's; DROP TABLE orders; --", "*/", "a\r\n-- b", "a\\'b", "{{ jinja }}", "$1")
"""One of each kind."""


@pytest.mark.parametrize("hostile", [n if n in WORST else pytest.param(n, marks=pytest.mark.heavy) for n in HOSTILE])
@pytest.mark.parametrize("name", DIALECTS)
def test_views_schemas_and_notes_stay_where_they_are(name: str, hostile: str) -> None:
    target = dialect(name)
    made = relation(key("id", INT), Column("v", TEXT), name=hostile)
    if not target.relation_name.match(hostile):
        with pytest.raises(UnsupportedError, match="has no views or schemas called"):
            statement(name, made, ViewSql("s", hostile))
        return
    text = statement(name, made, ViewSql(hostile, hostile), note=f"{hostile}\n{hostile}*/ DROP VIEW x")
    found = sqlglot.parse(text, read=target.sqlglot_name)
    assert [type(s) for s in found] == [exp.Create]
    assert ".".join(p.name for p in found[0].this.parts) == f"{hostile}.{hostile}"
    assert [s.alias_or_name for s in found[0].expression.selects] == ["id", "v"]


REFUSED = [(name, hostile) for name in DIALECTS for hostile in HOSTILE if not dialect(name).column_name.match(hostile)]


@pytest.mark.parametrize(("name", "hostile"), REFUSED)
def test_a_column_that_a_dialect_cannot_hold_is_refused_before_any_text(name: str, hostile: str) -> None:
    with pytest.raises(UnsupportedError, match="has no view columns called"):
        statement(name, relation(key("id", INT), Column(hostile, TEXT)), ViewSql("s", "v"))


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize("where", ["column", "view", "schema", "field"])
def test_nul_is_refused(name: str, where: str) -> None:
    home = Udt("k", "u", (("a\0b" if where == "field" else "a", TEXT),), frozen=False)
    made = relation(key("id", INT), Column("a\0b" if where == "column" else "a", TEXT), Column("home", home))
    view = ViewSql("a\0b" if where == "schema" else "s", "a\0b" if where == "view" else "v")
    if where == "field":  # only physical names of fields are identifiers everywhere; a literal has no NUL either
        assert "\0" not in statement(name, made, view)
        return
    with pytest.raises(UnsupportedError, match=r"NUL|has no"):
        statement(name, made, view)


@pytest.mark.parametrize("name", [n for n in DIALECTS if dialect_class(n).max_name_bytes is not None])
def test_names_that_an_engine_would_cut_are_refused(name: str) -> None:
    for made, view in (
        (relation(key("id", INT), Column(LONG, TEXT)), ViewSql("s", "v")),
        (relation(key("id", INT)), ViewSql("s", LONG)),
    ):
        with pytest.raises(UnsupportedError, match="names of at most"):
            statement(name, made, view)


def test_steps_are_cut_before_they_are_told_apart() -> None:
    from cdc_views.model.types import ListOf

    lists = [Column(f"{'l' * 40}{i}", ListOf(INT, frozen=False)) for i in range(3)]
    tree = sqlglot.parse_one(statement("postgres", relation(key("id", INT), *lists), ViewSql("s", "v")), read="postgres")
    steps = [cte.alias for cte in tree.find_all(exp.CTE)]
    assert len({step.encode()[:63] for step in steps}) == len(steps)


def raw_rows(made: Relation) -> pa.Table:
    """One row: every text column "t", every integer 7."""
    regulars = [c for c in made.schema.regulars if not c.type.is_multicell]
    cells = {c.name: Cell(1, v, serialize(c.type, v)) for c in regulars for v in ["t" if c.type == TEXT else 7]}
    fact = Fact(FactKind.ROW, (7,), (), Liveness(1), cells=cells)
    return made.rows([fact], landed_at=0)


def expected_row(made: Relation) -> list[Any]:
    return ["t" if c.type == TEXT else None if c.type.is_multicell else 7 for c in made.schema.columns]


@pytest.mark.heavy
def test_duckdb_runs_them(duckdb_engine: DuckDbEngine) -> None:
    made, names = of_names(dialect("duckdb"), fields=True)
    connection = duckdb_engine.connection.cursor()
    connection.register("raw_orders", raw_rows(made))
    assert run_duckdb(connection, made, ViewSql("s", "v"), "note") == (names, [expected_row(made)])
    small = relation(key("id", INT), Column("v", TEXT))
    connection.register("raw_orders", raw_rows(small))
    for hostile in HOSTILE:
        assert run_duckdb(connection, small, ViewSql(f"s{hostile}", hostile), hostile) == (["id", "v"], [[7, "t"]])


def run_duckdb(connection: Any, made: Relation, view: ViewSql, note: str) -> tuple[list[str], list[list[Any]]]:
    schema, name = (part.replace('"', '""') for part in (view.schema, view.name))
    connection.execute(f'CREATE SCHEMA IF NOT EXISTS "{schema}"')
    connection.execute(statement("duckdb", made, view, note=note))
    found = connection.execute(f'SELECT * FROM "{schema}"."{name}"')
    return [d[0] for d in found.description], [list(row) for row in found.fetchall()]


@pytest.mark.slow
def test_clickhouse_runs_them(tmp_path: Path) -> None:
    from helpers.dialect_clickhouse import clickhouse

    made, names = of_names(dialect("clickhouse"), fields=True)
    with clickhouse(tmp_path) as session:
        source = session.load(raw_rows(made))
        (found,) = session.view_rows(statement("clickhouse", made, ViewSql("d", "v"), table=source), "v")
        assert [*found] == names
        assert list(found.values())[:-1] == expected_row(made)[:-1]
        small = relation(key("id", INT), Column("v", TEXT))
        session.load(raw_rows(small))
        for hostile in HOSTILE:
            text = statement("clickhouse", small, ViewSql("d", f"v{hostile}"), table=source, note=hostile)
            assert session.view_rows(text, f"v{hostile}") == [{"id": 7, "v": "t"}]


@pytest.mark.live
def test_postgres_runs_them() -> None:
    from helpers.dialect_postgres import database

    with database() as tables:
        created_views("postgres", tables, tables.execute)


@pytest.mark.live
def test_trino_runs_them(trino_server: Trino) -> None:
    from helpers.dialect_trino import TrinoTables

    created_views("trino", TrinoTables(trino_server), trino_server.sql)


def created_views(name: str, tables: Any, execute: Callable[[str], object]) -> None:
    """Create the view of hostile columns, and one of each hostile name in a schema of that name; compare their rows."""
    made, names = of_names(dialect(name), fields=True)
    tables.load("raw_orders", raw_rows(made))
    execute("CREATE SCHEMA s")
    execute(statement(name, made, ViewSql("s", "v"), note="x\n*/", table=RAW[name]))
    (found,) = tables.query("SELECT * FROM s.v")
    assert [*found] == names
    assert list(found.values()) == expected_row(made)
    small = relation(key("id", INT), Column("v", TEXT))
    execute("DROP VIEW s.v")
    tables.load("raw_orders", raw_rows(small))
    for hostile in [n for n in HOSTILE if dialect(name).relation_name.match(n)]:
        quoted = '"' + hostile.replace('"', '""') + '"'
        execute(f"CREATE SCHEMA IF NOT EXISTS {quoted}")  # Trino has one of names that differ in case
        execute(statement(name, small, ViewSql(hostile, hostile), note=hostile, table=RAW[name]))
        assert tables.query(f"SELECT * FROM {quoted}.{quoted}") == [{"id": 7, "v": "t"}]


RAW = {"postgres": "public.raw_orders", "trino": "memory.default.raw_orders"}


@pytest.mark.slow
def test_googlesql_runs_them() -> None:
    from helpers.dialect_zetasql import GoogleSql

    made, names = of_names(dialect("bigquery"), fields=True)
    engine = GoogleSql()
    engine.register("raw_orders", raw_rows(made))
    text = statement("bigquery", made, ViewSql("s", "v"), note="x\n*/")
    found = engine.query(text.split(" AS\n", 1)[1])
    assert [list(row) for row in found] == [names]
    assert [list(row.values()) for row in found] == [expected_row(made)]


@pytest.mark.spark
def test_spark_runs_them(spark_engine: Any) -> None:
    made, names = of_names(dialect("spark"), fields=False)
    session = spark_engine.session
    session.createDataFrame(raw_rows(made)).createOrReplaceTempView("raw_orders")
    text = statement("spark", made, ViewSql("s", "v"), note="x\n*/")
    found = session.sql(text.split(" AS\n", 1)[1])
    assert found.columns == names
    assert [list(row) for row in found.collect()] == [expected_row(made)]
