"""What is large or strangely named: valid and below BigQuery's limits, or refused before anything is sent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cdc_views_bigquery import limits
from cdc_views_bigquery.config import SCHEME
from helpers.bigquery_rows import PLACE, check_rows
from helpers.bigquery_warehouses import Served, make_raw
from helpers.dialect_cases import Table, assert_same
from helpers.histories import NOW

from cdc_views.cli import main
from cdc_views.engines.base import Read, ViewDefinition
from cdc_views.errors import UnsupportedError
from cdc_views.model.schema import Column, Role, TableSchema
from cdc_views.model.types import Kind, ListOf, LogicalType, Scalar, TupleOf, Udt
from cdc_views.rules.cells import Cell, Deletion, Liveness
from cdc_views.rules.facts import Fact, FactKind
from cdc_views.storage.relation import RawTable, Relation

INT, TEXT = Scalar(Kind.INT), Scalar(Kind.TEXT)


def wide(columns: int, kind: LogicalType = TEXT, *, static: bool = False) -> Relation:
    """A table of so many regular columns."""
    key = (Column("id", INT, Role.PARTITION), Column("c", TEXT, Role.CLUSTERING))
    statics = (Column("s", TEXT, Role.STATIC),) if static else ()
    return Relation(TableSchema("shop", "wide", (*key, *statics, *(Column(f"column_{i:04d}", kind) for i in range(columns)))))


def target(relation: Relation, strategy: str = "auto") -> object:
    from cdc_views_bigquery.ddl import Target

    return Target(relation, "my-project.shop_raw.wide", "my-project.shop.wide", strategy)


def facts(columns: int) -> list[Fact]:
    """Rows whose cells are in the first, the last or no part of the view, one of them deleted, one of an empty key."""

    def row(key: str, cells: dict[str, Cell], **more: object) -> Fact:
        return Fact(FactKind.ROW, (1,), (key,), cells=cells, **more)  # type: ignore[arg-type]

    first, last = "column_0000", f"column_{columns - 1:04d}"
    return [
        row("first", {first: Cell(5, "old")}),
        row("first", {first: Cell(6, "new")}),
        row("last", {last: Cell(5, "x")}),
        row("both", {first: Cell(5, "a"), last: Cell(6, "b")}),
        row("", {last: Cell(5, "empty key")}),
        row("marker", {}, liveness=Liveness(5)),
        row("gone", {first: Cell(5, "a"), last: Cell(5, "b")}),
        row("gone", {}, deletion=Deletion(5, 5)),
        row("half", {first: Cell(5, "a"), last: Cell(7, "b")}),
        row("half", {}, deletion=Deletion(6, 5)),
    ]


def raw_of(relation: Relation) -> RawTable:
    """Its raw table in the server."""
    return RawTable(f"{SCHEME}{PLACE.raw_table('t')}", relation)


def _shows_the_oracles_rows(url: str, columns: int, *, functions: bool = True) -> None:
    """What `apply` makes shows them; without `functions`, none is made."""
    from cdc_views_bigquery.config import BigQueryConfig
    from cdc_views_bigquery.ddl import Kind, target_of
    from cdc_views_bigquery.engine import BigQueryEngine

    table = Table(wide(columns), facts(columns))
    raw = raw_of(table.relation)
    view = ViewDefinition("my-project.shop", "t", raw)
    with BigQueryEngine(PLACE, BigQueryConfig(endpoint=url)) as engine:
        if functions:
            engine.apply(view)
        else:
            made = [statement for statement in engine.statements(target_of(view)) if statement.kind is not Kind.FUNCTION]
            for statement in made:
                engine.connection.run(statement.sql, what="testing")
        engine.load(raw, table.relation.rows(table.facts, landed_at=0))
        found = engine.connection.rows("SELECT * FROM `my-project.shop.t`", what="testing").to_pylist()
    assert_same(table.expected(1_800_000_000), found)


@pytest.mark.slow
def test_a_view_too_long_for_one_is_cut_into_parts_that_amount_to_it(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    from cdc_views_bigquery import ddl
    from cdc_views_bigquery import wide as parting

    monkeypatch.setattr(parting, "COLUMNS", 2)
    monkeypatch.setattr(ddl, "LONGEST_VIEW", 1000)
    _shows_the_oracles_rows(server.url, 5)
    assert _planned(server.url, 5) == "none"
    assert {name for name in server.store.things if "__part" in name} == {f"my-project.shop.t__part{n}" for n in (1, 2, 3)}
    assert len(server.store.datasets["my-project.shop_raw"]["access"]) == 4


def _planned(url: str, columns: int) -> str:
    """What `plan` says of the view: BigQuery is asked by a dry run about all of its columns at once."""
    from cdc_views_bigquery.config import BigQueryConfig
    from cdc_views_bigquery.engine import BigQueryEngine

    with BigQueryEngine(PLACE, BigQueryConfig(endpoint=url)) as engine:
        return engine.plan(ViewDefinition("my-project.shop", "t", raw_of(wide(columns)))).change


def _are_below_limits(server: Served, *, views: int) -> None:
    """What was sent since the server was empty, and the views that are in it."""
    sent = [job["query"]["query"] for job in server.store.query_jobs]
    assert max(len(text.encode()) for text in sent) <= limits.QUERY_BYTES
    texts = [thing.query for thing in server.store.things.values() if thing.query]
    assert len(texts) == views
    assert max(map(len, texts), default=0) <= limits.VIEW_CHARACTERS
    assert sum(map(len, texts)) <= limits.RESOLVED_BYTES


@pytest.mark.slow
def test_views_of_1000_columns_are_below_every_limit_and_show_the_oracles_rows(server: Served) -> None:
    _shows_the_oracles_rows(server.url, 1000, functions=False)
    _are_below_limits(server, views=6)


@pytest.mark.slow
def test_the_query_and_the_function_of_1000_columns_are_ones_that_googlesql_takes(server: Served) -> None:
    """Their rows would take ten minutes there: `test_the_query_of_200_columns_gives_the_oracles_rows`."""
    from cdc_views_bigquery import ddl
    from cdc_views_bigquery.config import BigQueryConfig
    from cdc_views_bigquery.ddl import full_name
    from cdc_views_bigquery.engine import BigQueryEngine

    raw = raw_of(wide(1000))
    with BigQueryEngine(PLACE, BigQueryConfig(endpoint=server.url)) as engine:
        make_raw(engine, raw)
        engine.connection.run(ddl.dataset("my-project.shop", engine.config).sql, what="testing")
        function = ddl.function(ddl.Target(raw.relation, full_name(raw), "my-project.shop.t"))
        engine.connection.run(function.sql, what="testing")
        found = engine.connection.dry_run(engine.sql(Read(raw, NOW)), what="testing")
    assert len(found.fields) >= 1002
    _are_below_limits(server, views=0)


@pytest.mark.slow
def test_the_query_of_200_columns_gives_the_oracles_rows(server: Served) -> None:
    check_rows(Table(wide(200), facts(200)), server.url, "aggregate")
    _are_below_limits(server, views=1)


def _refused(relation: Relation, match: str, *, strategy: str = "auto") -> None:
    from cdc_views_bigquery import ddl
    from cdc_views_bigquery.config import BigQueryConfig

    def make() -> None:
        for made in (ddl.raw_table, ddl.views):
            made(target(relation, strategy), BigQueryConfig())  # type: ignore[arg-type]

    with pytest.raises(UnsupportedError, match=match):
        make()


def test_what_is_beyond_a_limit_is_refused_with_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    from cdc_views_bigquery import ddl

    deep: LogicalType = INT
    for _ in range(16):
        deep = TupleOf((deep,))
    _refused(wide(1, deep), r"nests \d+ STRUCTs in column 'column_0000', and BigQuery takes 15")
    _refused(wide(1, ListOf(ListOf(INT))), "BigQuery has no ARRAY of ARRAY")
    _refused(wide(2600), r"has 10,4\d\d columns, and BigQuery takes 10,000")
    monkeypatch.setattr(ddl, "LONGEST_VIEW", 100)
    _refused(wide(1, static=True), "static columns cannot be cut into parts")
    monkeypatch.setattr(limits, "VIEW_CHARACTERS", 100)
    _refused(wide(1), r"of 3 columns, takes [\d,]+ characters, and BigQuery keeps views of at most 100")
    monkeypatch.setattr(limits, "QUERY_BYTES", 100)
    _refused(wide(1), r"takes [\d,]+ bytes, and BigQuery takes statements of at most 100")


def test_one_more_view_than_may_read_raw_is_refused(server: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from helpers.bigquery_warehouses import project

    monkeypatch.setattr(limits, "AUTHORIZED", 1)
    names = ["shop.t1", "shop.t2"]
    tables = [{"name": name, "schema": "tables.cql", "raw": {"format": "cassandra-mutation"}} for name in names]
    loaded = project(tmp_path, server.url, tables=tables)
    (tmp_path / "tables.cql").write_text("\n".join(f"CREATE TABLE {name} (id int PRIMARY KEY, v text);" for name in names))
    loaded.table("shop.t1").apply()
    with pytest.raises(UnsupportedError, match="shop_raw lets 1 views read it, and BigQuery takes 1"):
        loaded.table("shop.t2").apply()


@pytest.mark.slow
def test_self_join_of_too_many_columns_says_what_to_use() -> None:
    from cdc_views_bigquery import ddl

    with pytest.raises(UnsupportedError, match="use strategy aggregate or window"):
        ddl.views(target(wide(1000), "self_join"), None)  # type: ignore[arg-type]


@pytest.mark.slow
def test_nested_and_repeated_types_and_hostile_names(server: Served) -> None:
    from helpers.golden_cases import HOSTILE

    from cdc_views.model.naming import physical_name
    from cdc_views.sql.dialects import dialect

    rule = dialect("bigquery").column_name
    names = [n for n in HOSTILE if rule.match(n) and len(physical_name(n)) <= 280]
    assert len(names) > 10
    folded = {name.casefold(): name for name in names}
    nested = Udt("k", "u", tuple((n, ListOf(TEXT)) for n in folded.values()), frozen=False)
    columns = [Column(n, TEXT) for n in folded.values()]
    schema = TableSchema("shop", "t", (Column("the key", INT, Role.PARTITION), *columns, Column("home", nested)))
    cells = {name: Cell(5, f"of {i}") for i, name in enumerate(folded.values())}
    check_rows(Table(Relation(schema), [Fact(FactKind.ROW, (1,), cells=cells)]), server.url, "aggregate")
    shown = server.store.things["my-project.shop.t"].resource["schema"]["fields"]
    assert [field["name"] for field in shown] == ["the key", *folded.values(), "home"]


def test_a_name_that_no_view_can_have_is_refused() -> None:
    schema = TableSchema("shop", "t", (Column("id", INT, Role.PARTITION), Column("_TABLE_x", TEXT)))
    _refused(Relation(schema), "no view columns called '_TABLE_x'")


@pytest.mark.slow
def test_100_tables_are_applied_and_each_says_so(server: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from helpers.bigquery_warehouses import project

    count = 100
    texts = [f"CREATE TABLE shop.t{n} (id int PRIMARY KEY, v text);" for n in range(count)]
    tables = [{"name": f"shop.t{n}", "schema": "tables.cql", "raw": {"format": "cassandra-mutation"}} for n in range(count)]
    loaded = project(tmp_path, server.url, tables=tables)
    (tmp_path / "tables.cql").write_text("\n".join(texts))
    assert main(["generate", "--out", str(tmp_path / "sql"), "--project", str(loaded.file)]) == 0
    files = list((tmp_path / "sql").rglob("*.sql"))
    assert len(files) == len(("raw", "view", "function", "setup", "run", "settle")) * count + len(("datasets",))
    assert max(len(file.read_bytes()) for file in files) <= limits.QUERY_BYTES

    def changes() -> list[str]:
        capsys.readouterr()
        assert main(["plan", "--format", "jsonl", "--project", str(loaded.file)]) == 0
        return [json.loads(line)["change"] for line in capsys.readouterr().out.splitlines()]

    assert changes() == ["create"] * count
    assert main(["apply", "--project", str(loaded.file)]) == 0
    assert changes() == ["none"] * count
    _are_below_limits(server, views=count)
    assert len(server.store.datasets["my-project.shop_raw"]["access"]) == count <= limits.AUTHORIZED
