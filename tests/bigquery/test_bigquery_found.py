"""`layout: as-found` with `engine: bigquery`: tables as Connect's sinks make them show the rows that the oracle shows."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from cdc_views_bigquery.merging.columns import _type
from helpers.bigquery_warehouses import WAREHOUSE, Served
from helpers.event_tables import random_events
from helpers.found_tables import DATA, Event, as_columns, as_records, cells_type, connect_type

from cdc_views import Project
from cdc_views.cli import main
from cdc_views.errors import UnsupportedError, UsageError
from cdc_views.formats.base import SourceLine
from cdc_views.landing.denylist import Denylist, ErasedKey, add
from cdc_views.operations.ingest import adapted
from cdc_views.rules.facts import Fact
from cdc_views.rules.oracle import latest_rows

if TYPE_CHECKING:
    Captured = pytest.CaptureFixture[str]

FOUND = "my-project.kafka.events"
AS_OF = 1795251720
CQL = """\
CREATE TYPE ks.addr (street text, zip int);
CREATE TABLE ks.d (pk int, ck1 int, ck2 text, st text static, b blob, big bigint, bo boolean, d decimal, fl frozen<list<int>>,
  fu frozen<addr>, l list<int>, m map<text, int>, se set<text>, ts timestamp, u uuid, v int, w text, PRIMARY KEY (pk, ck1, ck2));
CREATE TABLE ks.kv2 (k text PRIMARY KEY, n int, v text);
CREATE TABLE ks.sets (k text PRIMARY KEY, m map<text, int>, se set<text>, d decimal);
"""
SAMPLES = {path.stem: json.loads(path.read_text(), parse_float=Decimal) for path in (DATA / "debezium_cassandra").glob("*.json")}
VALUE = SAMPLES.pop("debezium_value_schema")


def project(folder: Path, url: str, name: str, schema: str, format: str, **raw: Any) -> Project:
    """A project of one table, which somebody else lands."""
    table = {"name": name, "schema": schema, "raw": {"format": format, "layout": "as-found", "table": "kafka.events", **raw}}
    body = {"name": "p", "engine": "bigquery", "warehouse": WAREHOUSE, "bigquery": {"endpoint": url}, "tables": [table]}
    (folder / "schema.cql").write_text(CQL)
    shutil.copy(DATA / "debezium" / "postgres_schema.sql", folder)
    (folder / "cdc_views.yml").write_text(json.dumps(body))
    return Project.load(folder / "cdc_views.yml")


def find(server: Served, rows: pa.Table, *, json_columns: Iterable[str] = ()) -> None:
    """Append to the external table, which is made as a sink makes it."""
    store = server.store
    if FOUND not in store.things:
        texts = dict.fromkeys(json_columns, "JSON")
        columns = ", ".join(f"`{f.name}` {texts.get(f.name) or _type(f.type, f.name)}" for f in rows.schema)
        made = {"query": {"query": f"CREATE TABLE `{FOUND}` ({columns})"}}
        store.datasets.setdefault("my-project.kafka", {"access": []})
        store.executed(made["query"], "made")
    store.sql.append(FOUND, map(_entries, rows.to_pylist(maps_as_pydicts=None)))


def _entries(value: Any) -> Any:
    """Maps as lists of entries; Arrow has them as pairs."""
    if isinstance(value, dict):
        return {name: _entries(part) for name, part in value.items()}
    if isinstance(value, list):
        return [{"key": i[0], "value": _entries(i[1])} if isinstance(i, tuple) else _entries(i) for i in value]
    return value


def expected(loaded: Project, lines: Iterable[str], *, now: int = AS_OF) -> list[dict[str, Any]]:
    """The oracle's rows of the events."""
    (table,) = loaded.tables
    facts: list[Fact] = []
    for n, line in enumerate(lines):
        facts += table.format.decode(SourceLine(line, n + 1, n), table.schema)
    return latest_rows(table.schema, facts, now=now)


def shown(loaded: Project, *, now: int = AS_OF) -> list[dict[str, Any]]:
    return list(Project.load(loaded.file).tables[0].query(as_of=now).rows())


def same(found: list[dict[str, Any]], wanted: list[dict[str, Any]]) -> None:
    assert found
    assert sorted(map(repr, found)) == sorted(map(repr, wanted))


def cassandra_events(name: str) -> list[Event]:
    every = [event for sample in SAMPLES.values() for event in sample["debezium_events"] or () if event["topic"] == f"lab.{name}"]
    return sorted(every, key=lambda event: event["value"]["source"]["pos"])


def kv2_events(count: int) -> list[Event]:
    """Inserts of as many rows, and an update of the first."""
    (inserted, *_) = cassandra_events("ks.kv2")
    events = [json.loads(json.dumps(inserted, default=float)) for _ in range(count + 1)]
    for n, event in enumerate(events):
        event["value"]["source"]["pos"] = n
        event["value"]["ts_ms"] = event["value"]["source"]["ts_ms"] = 1_795_251_000_000 + n
        event["value"]["source"]["ts_us"] = event["value"]["source"]["ts_ms"] * 1000
        event["key"]["k"] = event["value"]["after"]["k"]["value"] = f"k{n % count}"
    return events


def with_kafka(rows: pa.Table, keys: list[Any], *, key: str = "kafkaKey", data: str = "kafkaData") -> pa.Table:
    """As the sink does with `kafkaKeyFieldName` and `kafkaDataFieldName`."""
    place = [{"topic": "t", "partition": 0, "offset": n, "insertTime": 1_795_251_757_635_000} for n in range(rows.num_rows)]
    whole, instant = pa.int64(), pa.timestamp("us", "UTC")
    fields = [("topic", pa.string()), ("partition", whole), ("offset", whole), ("insertTime", instant)]
    return rows.append_column(data, pa.array(place, pa.struct(fields))).append_column(key, pa.array(keys))


@pytest.mark.slow
def test_records_of_a_row_each_are_read_and_what_came_since(server: Served, tmp_path: Path) -> None:
    events = kv2_events(3)
    after = cells_type(k=pa.string(), n=pa.int32(), v=pa.string())
    kind = pa.struct([(field.name, after if field.name == "after" else field.type) for field in connect_type(VALUE)])
    rows = with_kafka(as_columns([event["value"] for event in events], kind), [{"k": "x"}] * len(events))
    loaded = project(tmp_path, server.url, "ks.kv2", "schema.cql", "debezium-cassandra")
    lines = [json.dumps(event, default=float) for event in events]
    find(server, rows.slice(0, 2))
    same(shown(loaded), expected(loaded, lines[:2]))
    find(server, rows.slice(2))
    before = adapted(loaded.tables[0])
    assert before is not None
    assert (before.events, before.is_rebuilt) == (len(events) - 2, False)
    same(shown(loaded), expected(loaded, lines))
    nothing = adapted(loaded.tables[0])
    assert [(one.events, one.files) for one in (nothing,) if one] == [(0, 0)]
    reads = [text for job in server.store.query_jobs if f"FROM `{FOUND}` AS _row" in (text := job["query"]["query"])]
    assert [text.count("WHERE") for text in reads[-2:]] == [1, 1], "each looks at the whole table"
    (tmp_path / "schema.cql").write_text(CQL.replace("n int, v text", "n int, v text, more int"))
    again = adapted(Project.load(loaded.file).tables[0])
    assert [(one.events, one.is_rebuilt) for one in (again,) if one] == [(len(events), True)], "another schema reads everything"


POSTGRES = ("debezium_pg_default", "debezium_pg_schemas_enabled", "debezium_pg_ExtractNewRecordState")


def postgres_events(file: str) -> list[Event]:
    lines = (DATA / "debezium" / f"{file}.jsonl").read_text().splitlines()
    own = [_without_nulls(json.loads(line)) for line in lines if '"vc2":"renamed"' not in line and '"status"' not in line]
    return [event for event in own if event["destination"] == "lab.public.t_types"]


def _without_nulls(value: Any) -> Any:
    """Without nulls in arrays, which BigQuery cannot keep."""
    if isinstance(value, dict):
        return {name: _without_nulls(part) for name, part in value.items()}
    return [_without_nulls(item) for item in value if item is not None] if isinstance(value, list) else value


@pytest.mark.slow
def test_older_events_of_a_forgotten_key_are_not_taken_in(
    server: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = (DATA / "debezium" / "debezium_pg_default.jsonl").read_text().splitlines()
    events = [json.loads(line) for line in lines if '"destination":"lab.public.t_types"' in line.replace(" ", "")]
    loaded = project(tmp_path, server.url, "public.t_types", "postgres_schema.sql", "debezium")
    table, file = loaded.tables[0], tmp_path / "forgotten.jsonl"
    (key,) = {event["value"]["after"]["id"] for event in events[:1]}
    add(file, ErasedKey.parse(table.schema, {"id": key}), forgotten=(AS_OF + 86_400) * 1_000_000, through=None)
    monkeypatch.setattr("cdc_views.operations.ingest.forgotten_of", lambda table: Denylist.read(file))
    find(server, as_records(events))
    done = adapted(table)
    assert done is not None
    images = [event["value"] and [event["value"][name] or {} for name in ("before", "after")] for event in events]
    about = [both for both in images if both and key in {image.get("id") for image in both}]
    assert 0 < done.events <= len(events) - len(about)
    quarantined = server.store.sql.records("my-project.shop_raw.public_t__types__quarantine")
    assert sum(row["event"] == b"" and row["replay"] == 0 for row in quarantined) >= len(about) > 0
    assert key not in {row["id"] for row in shown(loaded)}


@pytest.mark.slow
def test_an_event_with_null_in_an_array_goes_to_quarantine(server: Served, tmp_path: Path) -> None:
    lines = (DATA / "debezium" / "debezium_pg_default.jsonl").read_text().splitlines()
    events = [json.loads(line) for line in lines if '"destination":"lab.public.t_types"' in line.replace(" ", "")]
    loaded = project(tmp_path, server.url, "public.t_types", "postgres_schema.sql", "debezium")
    find(server, as_records(events[:3]))
    done = adapted(loaded.tables[0])
    assert done is not None
    quarantined = server.store.sql.records("my-project.shop_raw.public_t__types__quarantine")
    assert (done.events, done.quarantined, len(quarantined)) == (1, 2, 2)
    assert {bad["reason"] for bad in quarantined} == {"ai holds null in an array, which BigQuery cannot keep"}


@pytest.mark.slow
@pytest.mark.parametrize("columns", [(), ("key", "value")], ids=["text", "json"])
@pytest.mark.parametrize("file", POSTGRES)
def test_relational_records_show_the_oracles_rows(server: Served, tmp_path: Path, file: str, columns: tuple[str, ...]) -> None:
    events = postgres_events(file)
    loaded = project(tmp_path, server.url, "public.t_types", "postgres_schema.sql", "debezium")
    find(server, as_records(events), json_columns=columns)
    wanted = expected(loaded, [json.dumps({**event, "offset": n}) for n, event in enumerate(events)])
    same(shown(loaded), wanted)


TYPED: dict[str, pa.DataType] = {
    "id": pa.int64(),
    "big": pa.int64(),
    "small": pa.int64(),
    "n": pa.decimal128(12, 4),
    "r": pa.float64(),
    "d": pa.float64(),
    "n_unb": pa.struct([("scale", pa.int64()), ("value", pa.binary())]),
    "b": pa.bool_(),
    "t": pa.string(),
    "by": pa.binary(),
    **dict.fromkeys(("vc", "ch", "tstz", "tmtz", "j", "jb", "u", "ip", "mood", "toast"), pa.string()),
    "tm": pa.int64(),
    "iv": pa.int64(),
}
"""Columns of the table as the sink makes them, but for arrays, and for dates beyond BigQuery's."""


@pytest.mark.slow
def test_relational_events_in_typed_columns_show_the_oracles_rows(server: Served, tmp_path: Path) -> None:
    row = pa.struct(TYPED.items())
    texts = [(name, pa.string()) for name in ("connector", "name", "db", "schema", "table", "snapshot")]
    source = pa.struct([*texts, ("lsn", pa.int64()), ("ts_ms", pa.timestamp("us", "UTC"))])
    kind = pa.struct([("before", row), ("after", row), ("source", source), ("op", pa.string()), ("ts_ms", pa.int64())])
    values = [event["value"] for event in postgres_events("debezium_pg_default") if event["value"]]
    for value in values:
        for image in ("before", "after"):
            value[image] = value[image] and {name: value[image].get(name) for name in TYPED}
    loaded = project(tmp_path, server.url, "public.t_types", "postgres_schema.sql", "debezium")
    micros = [{**value, "source": {**value["source"], "ts_ms": value["source"]["ts_ms"] * 1000}} for value in values]
    find(server, as_columns(micros, kind))
    same(shown(loaded), expected(loaded, map(json.dumps, values)))


@pytest.mark.slow
def test_events_whose_members_are_json_show_the_oracles_rows(server: Served, tmp_path: Path) -> None:
    events = cassandra_events("ks.d")
    columns: dict[str, list[Any]] = {name: [event["value"][name] for event in events] for name in ("op", "ts_ms")}
    columns |= {n: [json.dumps(event["value"][n], default=float) for event in events] for n in ("source", "after")}
    loaded = project(tmp_path, server.url, "ks.d", "schema.cql", "debezium-cassandra")
    find(server, pa.table(columns), json_columns=("source", "after"))
    same(shown(loaded), expected(loaded, [json.dumps(event, default=float) for event in events]))


@pytest.mark.slow
def test_keys_and_values_beside_each_other_under_names_of_ones_own(server: Served, tmp_path: Path) -> None:
    values = [{"n": 1, "v": "a"}, {"n": 2, "v": None}, {"n": 3, "v": "c"}]
    keys = [{"k": "x"}, {"k": "x"}, {"k": "y"}]
    loaded = project(tmp_path, server.url, "ks.kv2", "schema.cql", "key-value", kafka_key="_key", kafka_data="_meta")
    find(server, with_kafka(pa.Table.from_pylist(values), keys, key="_key", data="_meta").take([1, 0, 2]))
    pairs = enumerate(zip(keys, values, strict=True))
    lines = [json.dumps({"key": key, "value": value, "offset": n}) for n, (key, value) in pairs]
    same(shown(loaded), expected(loaded, lines))
    wrong = project(tmp_path, server.url, "ks.kv2", "schema.cql", "key-value")
    with pytest.raises(UsageError, match="are no events of format key-value"):
        shown(wrong)


@pytest.mark.slow
def test_maps_and_sets_that_are_empty_there_are_those_that_were_null(server: Served, tmp_path: Path) -> None:
    after = cells_type(k=pa.string(), m=pa.map_(pa.string(), pa.int32()), se=pa.list_(pa.string()))
    kind = pa.struct([(f.name, after if f.name == "after" else f.type) for f in connect_type(VALUE)])
    events = []
    for n, (m, se) in enumerate([({"a": 1}, ["x", "y"]), (None, None), ({"b": 2}, [])]):
        event = json.loads(json.dumps(cassandra_events("ks.kv2")[0], default=float))
        cells = {"k": f"k{n}", "m": m, "se": se}
        event["value"]["after"] = {c: {"value": v, "deletion_ts": None, "set": True} for c, v in cells.items()}
        event["value"]["source"]["table"] = "sets"
        event["value"]["source"]["pos"] = n
        events.append(event["value"])
    loaded = project(tmp_path, server.url, "ks.sets", "schema.cql", "debezium-cassandra")
    find(server, as_columns(events, kind))
    same(shown(loaded), expected(loaded, map(json.dumps, events)))


@pytest.mark.parametrize(
    ("name", "column", "kind", "expected_words"),
    [
        ("ks.d", "fl", pa.list_(pa.int64()), "'fl' is an ARRAY there, and BigQuery keeps no null arrays"),
        ("ks.sets", "d", pa.decimal128(20, 4), "'d' is a number there, and BigQuery's keep no scale"),
        ("public.t_types", "ai", pa.list_(pa.int64()), "'ai' is an ARRAY there, and BigQuery keeps no null arrays"),
    ],
)
def test_what_bigquery_has_lost_is_refused_by_name(
    server: Served, tmp_path: Path, name: str, column: str, kind: pa.DataType, expected_words: str
) -> None:
    of_rows = name.startswith("public.")
    after = pa.struct([(column, kind)]) if of_rows else cells_type(**{column: kind})
    find(server, pa.table({"op": pa.array([], pa.string()), "source": pa.array([], pa.string()), "after": pa.array([], after)}))
    schema, form = ("postgres_schema.sql", "debezium") if of_rows else ("schema.cql", "debezium-cassandra")
    loaded = project(tmp_path, server.url, name, schema, form)
    with pytest.raises(UnsupportedError, match=expected_words):
        shown(loaded)


@pytest.mark.slow
def test_rows_that_go_and_rows_that_are_no_events(server: Served, tmp_path: Path, capsys: Captured) -> None:
    events = kv2_events(3)
    lines = [json.dumps(event, default=float) for event in events]
    loaded = project(tmp_path, server.url, "ks.kv2", "schema.cql", "debezium-cassandra")
    values = [*lines, "{no json"]
    find(server, pa.table({"value": values}))
    assert main(["query", "ks.kv2", "--project", str(loaded.file), "--as-of", str(AS_OF), "--format", "jsonl"]) == 0
    assert "1 rows in quarantine" in capsys.readouterr().err
    server.store.sql.define(FOUND, server.store.sql.columns(FOUND))
    server.store.sql.append(FOUND, [{"value": line} for line in lines[1:]])
    again = adapted(loaded.tables[0])
    assert again is not None
    assert (again.is_rebuilt, again.events, again.quarantined) == (True, len(lines) - 1, 0)
    same(shown(loaded), expected(loaded, lines[1:]))


@pytest.mark.slow
def test_views_and_state_are_made_of_it(server: Served, tmp_path: Path, capsys: Captured) -> None:
    events = kv2_events(3)
    lines = [json.dumps(event, default=float) for event in events]
    loaded = project(tmp_path, server.url, "ks.kv2", "schema.cql", "debezium-cassandra")
    find(server, pa.table({"value": pa.array(lines[:2], pa.binary())}))
    for command in ("plan", "apply", "materialize", "status"):
        assert main([command, "--project", str(loaded.file), "--format", "jsonl"]) == 0
    find(server, pa.table({"value": pa.array(lines[2:], pa.binary())}))
    assert main(["materialize", "--project", str(loaded.file), "--format", "jsonl"]) == 0
    same(shown(loaded), expected(loaded, lines))
    assert "`my-project.shop_state.ks_kv2__facts`" in str(server.store.query_jobs[-1]["query"]["query"])
    server.store.sql.define(FOUND, server.store.sql.columns(FOUND))
    server.store.sql.append(FOUND, [{"value": line.encode()} for line in lines[1:]])
    same(shown(loaded), expected(loaded, lines[1:]))
    assert main(["materialize", "--project", str(loaded.file), "--format", "jsonl"]) == 0
    assert "state built" in capsys.readouterr().out
    same(shown(loaded), expected(loaded, lines[1:]))
    assert "`my-project.shop_state.ks_kv2__facts`" in str(server.store.query_jobs[-1]["query"]["query"])
    before = server.store.sql.records(FOUND)
    assert main(["land", "debezium-cassandra", "x.jsonl", "--table", "ks.kv2", "--project", str(loaded.file)]) == 2
    assert "somebody else lands its events" in capsys.readouterr().err
    assert server.store.sql.records(FOUND) == before


def orders_events(server: Served, rng: Random, *, json_columns: bool) -> None:
    """Random events of `shop.orders` as the sink lands them: their members as columns, keys and places beside them."""
    events = random_events(rng, count=20, is_typed=not json_columns).rows
    if json_columns:
        values = [json.loads(value) for value in events.column("value").to_pylist() if value and '"op"' in value]
        columns = {name: [value[name] for value in values] for name in ("op", "ts_ms")}
        columns |= {n: [value[n] and json.dumps(value[n]) for value in values] for n in ("source", "before", "after")}
        events = pa.table(columns)
    keys = [{"id": 0}] * events.num_rows
    find(server, with_kafka(events, keys), json_columns=("source", "before", "after") if json_columns else ())


@pytest.mark.heavy
@pytest.mark.parametrize("json_columns", [False, True])
def test_a_view_of_what_the_sink_lands_needs_no_copy_and_shows_the_same(
    server: Served, tmp_path: Path, capsys: Captured, json_columns: bool
) -> None:
    found = random_events(Random(5), count=1, is_typed=False)
    orders_events(server, Random(30), json_columns=json_columns)

    def rows(reading: str) -> list[str]:
        options = {"options": {"decimals": "string"}} if json_columns else {}
        loaded = project(tmp_path, server.url, "shop.orders", "schema.sql", "debezium", reading=reading, **options)
        (tmp_path / "schema.sql").write_text(found.ddl)
        for command in ("plan", "apply", "status"):
            assert main([command, "--project", str(loaded.file), "--format", "jsonl"]) == 0, capsys.readouterr().err
        assert "shop_raw" not in capsys.readouterr().out or reading == "copy"
        with Project.load(loaded.file).remote() as warehouse:
            view = warehouse.connection.deployed("my-project.shop.orders")
            return sorted(map(repr, warehouse.connection.rows(view.query, what="reading the view").to_pylist()))

    direct = rows("sql")
    assert not any(name.startswith("my-project.shop_raw") for name in server.store.things)
    assert server.store.datasets["my-project.kafka"]["access"] == [], "its readers' rights are their owner's matter"
    assert len(shown(Project.load(tmp_path / "cdc_views.yml"))) == len(direct) > 1
    assert any(name.startswith("my-project.shop_raw") for name in server.store.things), "`query` reads a copy"
    assert direct == rows("copy")


@pytest.mark.heavy
def test_the_folder_of_a_table_that_somebody_else_lands_makes_no_raw_table(server: Served, tmp_path: Path) -> None:
    orders_events(server, Random(30), json_columns=False)
    loaded = project(tmp_path, server.url, "shop.orders", "schema.sql", "debezium")
    (tmp_path / "schema.sql").write_text(random_events(Random(5), count=1, is_typed=False).ddl)
    out = tmp_path / "sql"
    assert main(["generate", "--out", str(out), "--project", str(loaded.file)]) == 0
    files = sorted(str(file.relative_to(out)) for file in out.rglob("*") if file.is_file())
    assert files == ["1_datasets.sql", "4_views/shop.orders.sql", "README.md", "scheduled/shop_orders/refresh.sql"]
    with loaded.remote() as warehouse:
        for file in (*files[:2], files[3]):
            for statement in filter(str.strip, (out / file).read_text().split(";\n")):
                warehouse.connection.run(statement.rstrip(";\n"), what=f"running {file}")
        names = ("my-project.shop.orders", "my-project.shop_state.shop_orders__rows")
        read = [warehouse.connection.rows(f"SELECT * FROM `{name}`", what="reading").to_pylist() for name in names]
    same(*read)
    assert len(read[0]) > 1
    told = [what in (out / "README.md").read_text() for what in ("`scheduled/shop_orders/refresh.sql`", "_landed(", "setup.sql")]
    assert told == [True, False, False]
