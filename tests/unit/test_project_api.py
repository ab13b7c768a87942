"""The Python API: results in every form, instants, and nothing heavy before it is needed."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from helpers.tiny_project import NOW, event, make_project, write_lines

from cdc_views.api import Project, Table
from cdc_views.errors import ConfigError, UsageError
from cdc_views.model.schema import Column, Role, TableSchema
from cdc_views.model.types import EMPTY, Kind, ListOf, MapOf, Scalar, TupleOf, Udt
from cdc_views.operations.result import Result, pandas_frame
from cdc_views.rules.instants import epoch_micros, epoch_seconds
from cdc_views.storage.friendly import friendly_table
from cdc_views.storage.relation import Relation


@pytest.fixture
def orders(tmp_path: Path) -> Table:
    """The table shop.orders with two rows."""
    table = Project.load(make_project(tmp_path)).table("shop.orders")
    report = table.land(write_lines(tmp_path / "a.jsonl", event(1), event(2, state="<b>done</b>")), now=datetime(2026, 11, 21))
    assert report.events == 2
    return table


def test_rows_are_native_values_and_come_again(orders: Table) -> None:
    result = orders.query(as_of=NOW, where="id = 2", columns=["state", "id"])
    assert list(result.rows()) == [{"state": "<b>done</b>", "id": 2}]
    assert list(result.rows()) == list(result.rows())
    assert (len(result), result.as_of, result.columns, result.note) == (1, NOW, ("state", "id"), "")


def test_arrow_pandas_and_html(orders: Table) -> None:
    result = orders.query()
    assert result.to_arrow().to_pydict() == {"id": [1, 2], "line": [0, 0], "state": ["open", "<b>done</b>"], "note": [None, None]}
    pytest.importorskip("pandas")
    assert list(result.to_pandas()["id"]) == [1, 2]
    shown = result._repr_html_()
    assert ">state</th>" in shown
    assert ">&lt;b&gt;done&lt;/b&gt;</td>" in shown
    assert "<p>2 rows</p>" in shown


def test_what_a_notebook_shows_is_short_and_escaped(orders: Table) -> None:
    project = orders.project
    assert isinstance(project, Project)
    assert repr(orders) == "Table('shop.orders', duckdb, cassandra-mutation)"
    assert repr(project) == f"Project('shop', duckdb, 1 table, {str(project.file)!r})"
    assert repr(orders.query()) == "Result('shop.orders', 2 rows of id, line, state, note)"
    explanation, report = orders.explain({"id": 2, "line": 0}, as_of=NOW), orders.validate(as_of=NOW)
    assert repr(explanation).startswith("Explanation(shop.orders, id = 2, line = 0: the row exists at ")
    assert repr(report).startswith("Report('shop.orders', ")
    assert repr(orders.history()).startswith("History('shop.orders', 2 rows of ")
    shown = [one._repr_html_() for one in (project, orders, orders.query(), explanation, report, orders.history())]  # type: ignore[attr-defined]
    assert all(text.startswith(("<p>", "<table>")) and "</table>" in text for text in shown)
    assert not [text for text in shown if "<b>done" in text]
    assert "&lt;b&gt;done&lt;/b&gt;" in shown[3]


def test_a_project_is_a_collection_of_its_tables(orders: Table) -> None:
    project = orders.project
    assert isinstance(project, Project)
    assert project["shop.orders"] == project["orders"] == orders
    assert (len(project), list(project), project._ipython_key_completions_()) == (1, [orders], ["shop.orders"])
    with pytest.raises(UsageError, match=r"has no table 'order'; did you mean 'shop\.orders'"):
        project["order"]


def test_a_short_name_that_two_tables_have_is_refused(tmp_path: Path) -> None:
    (tmp_path / "s.cql").write_text("CREATE TABLE a.t (k int PRIMARY KEY, v int); CREATE TABLE b.t (k int PRIMARY KEY, v int);")
    table = "{{name: {0}.t, schema: s.cql, raw: {{format: cassandra-mutation}}}}"
    tables = ", ".join(table.format(keyspace) for keyspace in "ab")
    (tmp_path / "cdc_views.yml").write_text(f"name: x\nengine: duckdb\nwarehouse: ./w\ntables: [{tables}]\n")
    project = Project.load(tmp_path / "cdc_views.yml")
    assert project["b.t"].name == "b.t"
    with pytest.raises(UsageError, match=r"'t' may be a\.t and b\.t; give the whole name"):
        project["t"]


def test_paths_are_relative_to_the_project_file(orders: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    table = Project.load("../cdc_views.yml").table("shop.orders")
    assert len(table.query()) == 2
    assert Path(table.location).resolve() == tmp_path / "warehouse/raw/shop_orders"
    make_project(tmp_path, raw={"format": "cassandra-mutation", "table": "kept/orders"})
    assert Path(Project.load("../cdc_views.yml").table("shop.orders").location).resolve() == tmp_path / "kept/orders"


def test_what_landed_or_was_written_later_can_be_left_out(orders: Table, tmp_path: Path) -> None:
    later = event(3_000_000).replace('"partition": {"id": 3000000}', '"partition": {"id": 3}')
    orders.land(write_lines(tmp_path / "b.jsonl", later), now=datetime(2026, 11, 23))
    ids = lambda **bounds: [row["id"] for row in orders.query(as_of=NOW, **bounds).rows()]  # noqa: E731
    assert ids() == [1, 2, 3]
    assert ids(landed_as_of="2026-11-22") == [1, 2]
    assert ids(written_as_of=1) == [1, 2]
    assert ids(written_as_of=3) == [1, 2, 3]


@pytest.mark.parametrize(
    ("instant", "seconds"),
    [
        (0, 0),
        ("-5", -5),
        (" 1795251600 ", 1795251600),
        ("2026-11-21", 1795219200),
        ("2026-11-21T09:00:00", 1795251600),
        ("2026-11-21T09:00:00Z", 1795251600),
        ("2026-11-21t09:00:00z", 1795251600),
        ("2026-11-21 10:00:00+01:00", 1795251600),
        ("2026-11-21T09:00:00.999999", 1795251600),
        (datetime(2026, 11, 21, 9, 0, 0, 999999), 1795251600),
        (datetime(2026, 11, 21, 10, tzinfo=timezone(timedelta(hours=1))), 1795251600),
        ("1969-12-31T23:59:59.5Z", -1),
    ],
)
def test_instants(instant: Any, seconds: int) -> None:
    assert epoch_seconds(instant) == seconds
    assert epoch_micros(instant, option="x") == seconds * 1_000_000


@pytest.mark.parametrize("instant", ["", "now", "2026-13-01", "2026-11-21T25", "1.5", "infinity", 10**16])
def test_what_is_no_instant_is_refused_by_the_option_s_name(instant: Any) -> None:
    with pytest.raises(UsageError, match="landed_as_of is"):
        epoch_seconds(instant, option="landed_as_of")


def schema(*columns: Column) -> TableSchema:
    return TableSchema("ks", "t", (Column("id", Scalar(Kind.INT), Role.PARTITION), *columns))


def friendly(kind: Any, *values: Any, **overrides: str) -> pa.Table:
    return friendly_table(schema(Column("c", kind)), [{"c": value} for value in values], columns=["c"], overrides=overrides)


def test_friendly_types() -> None:
    assert friendly(Scalar(Kind.TIMESTAMP), 0, None, EMPTY).to_pylist() == [
        {"c": datetime(1970, 1, 1, tzinfo=timezone.utc)},
        {"c": None},
        {"c": None},
    ]
    assert friendly(Scalar(Kind.DATE), 0).schema.field("c").type == pa.date32()
    assert friendly(Scalar(Kind.TIME), 1).schema.field("c").type == pa.time64("ns")
    assert friendly(Scalar(Kind.TIME), -1).schema.field("c").type == pa.int64()
    assert friendly(Scalar(Kind.DECIMAL), Decimal("1.10")).to_pylist() == [{"c": "1.10"}]
    assert friendly(Scalar(Kind.VARINT), 12).to_pylist() == [{"c": "12"}]
    nested = MapOf(Scalar(Kind.TEXT), ListOf(Udt("ks", "u", (("A b", Scalar(Kind.INT)),))))
    assert friendly(nested, (("k", ((5,), (EMPTY,))),)).to_pylist() == [{"c": [("k", [{"A b": 5}, {"A b": None}])]}]
    assert friendly(TupleOf((Scalar(Kind.INT), Scalar(Kind.TEXT))), (1, None)).to_pylist() == [{"c": {"f0": 1, "f1": None}}]


def test_pandas_takes_times_and_dates_that_python_cannot_hold() -> None:
    pytest.importorskip("pandas")
    frame = pandas_frame(friendly(Scalar(Kind.TIME), 86_399_999_999_999))
    assert frame["c"].astype("int64").tolist() == [86_399_999_999_999]
    assert len(pandas_frame(friendly(Scalar(Kind.DATE), 4_000_000))) == 1
    assert len(pandas_frame(friendly(ListOf(Scalar(Kind.TIME)), (1,)))) == 1


EXACT = {
    "big": (Kind.BIGINT, 9_007_199_254_740_993),
    "tiny": (Kind.TINYINT, 1),
    "yes": (Kind.BOOLEAN, True),
    "nan": (Kind.DOUBLE, math.nan),
    "price": (Kind.DECIMAL, Decimal("12345678901234567.89")),
    "at": (Kind.TIMESTAMP, 1_795_251_600_123),
    "text": (Kind.TEXT, "x"),
}


def exact_result() -> Result:
    """A row of values that doubles would round, and one of nulls."""
    kinds = [Column(n, Scalar(k, 2, 19) if k is Kind.DECIMAL else Scalar(k)) for n, (k, _) in EXACT.items()]
    relation = Relation(schema(*kinds))
    names = tuple(EXACT)
    table = friendly_table(
        relation.schema, [{n: v for n, (_, v) in EXACT.items()}, dict.fromkeys(EXACT)], columns=names, overrides={}
    )

    class Known(Result):
        """A result whose Arrow table is known."""

        def to_arrow(self) -> pa.Table:
            """The table."""
            return table

    return Known(relation, names, pa.table({}), NOW)


def test_values_stay_exact_in_pandas() -> None:
    pd = pytest.importorskip("pandas")
    frame = exact_result().to_pandas()
    assert {name: str(kind) for name, kind in frame.dtypes.items()} == {
        "big": "Int64", "tiny": "Int8", "yes": "boolean", "nan": "Float64", "price": "object",
        "at": "datetime64[ms, UTC]", "text": "object",
    }  # fmt: skip
    first, nulls = frame.iloc[0], frame.iloc[1]
    assert int(first["big"]) == 9_007_199_254_740_993
    assert (first["price"], first["at"].isoformat()) == (Decimal("12345678901234567.89"), "2026-11-21T09:00:00.123000+00:00")
    assert math.isnan(first["nan"])
    assert all(value is pd.NA or value is None or value is pd.NaT for value in nulls), "NaN is not null, and null not NaN"


def test_whole_numbers_inside_others_stay_exact_in_pandas() -> None:
    pytest.importorskip("pandas")
    frame = pandas_frame(friendly(ListOf(Scalar(Kind.BIGINT)), (9_007_199_254_740_993, EMPTY)))
    assert list(frame["c"][0]) == [9_007_199_254_740_993, None]


def test_duckdb_takes_a_result() -> None:
    with duckdb.connect() as connection:
        for found in (exact_result().to_duckdb(), exact_result().to_duckdb(connection)):
            assert [str(kind) for kind in found.types[:5]] == ["BIGINT", "TINYINT", "BOOLEAN", "DOUBLE", "DECIMAL(19,2)"]
            assert found.filter("big IS NOT NULL").project("big, price").fetchall() == [
                (9_007_199_254_740_993, Decimal("12345678901234567.89"))
            ]


@pytest.mark.parametrize(
    ("module", "ask", "install"),
    [
        ("pandas", Result.to_pandas, "pip install 'cdc-views[pandas]'"),
        ("polars", Result.to_polars, "pip install 'cdc-views[polars]'"),
        ("pyspark", lambda result: result.to_spark(None), "pip install 'cdc-views[spark]'"),
    ],
)
def test_a_library_that_is_missing_is_named(
    module: str, ask: Callable[[Result], Any], install: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(UsageError, match=re.escape(install)):
        ask(exact_result())


def test_the_project_file_can_ask_for_decimals_that_fit() -> None:
    table = friendly(Scalar(Kind.DECIMAL), Decimal("1.1"), None, c="decimal(18,2)")
    assert table.schema.field("c").type == pa.decimal128(18, 2)
    assert table.to_pylist() == [{"c": Decimal("1.10")}, {"c": None}]
    with pytest.raises(ConfigError, match="does not fit"):
        friendly(Scalar(Kind.DECIMAL), Decimal("1.111"), c="decimal(18,2)")
    with pytest.raises(ConfigError, match="does not fit"):
        friendly(Scalar(Kind.VARINT), 10**30, c="decimal(18,2)")
    with pytest.raises(ConfigError, match="is not known"):
        friendly(Scalar(Kind.VARINT), 1, c="money")


def test_importing_the_api_stays_light() -> None:
    heavy = {"pyarrow", "duckdb", "deltalake", "pandas", "typer", "rich"}
    script = f"import sys, cdc_views.api; print(sorted({heavy!r} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert json.loads(found.stdout.replace("'", '"')) == []
