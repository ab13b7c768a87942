"""`layout: as-found`: a Delta table of events that somebody else lands shows the rows that landing them would show."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from helpers.command_line import CommandLine, table, write_project
from helpers.found_tables import DATA, Event, as_columns, as_records, cells_type, connect_type, contents, find, found

from cdc_views import Project
from cdc_views.operations.ingest import adapted
from cdc_views.storage.relation_read import facts_of

pytestmark = pytest.mark.heavy

CQL = """\
CREATE TYPE ks.addr (street text, zip int);
CREATE TABLE ks.d (pk int, ck1 int, ck2 text, st text static, b blob, big bigint, bo boolean, d decimal, fl frozen<list<int>>,
  fu frozen<addr>, l list<int>, m map<text, int>, se set<text>, ts timestamp, u uuid, v int, w text, PRIMARY KEY (pk, ck1, ck2));
CREATE TABLE ks.kv2 (k text PRIMARY KEY, n int, v text);
"""
SAMPLES = {path.stem: json.loads(path.read_text(), parse_float=Decimal) for path in (DATA / "debezium_cassandra").glob("*.json")}
VALUE = SAMPLES.pop("debezium_value_schema")
STATEMENTS = {name: sample["debezium_events"] for name, sample in sorted(SAMPLES.items()) if sample["debezium_events"]}
BEFORE_EXPIRY = 1795251720


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """The command line in an empty folder with the schemas."""
    monkeypatch.chdir(tmp_path)
    Path("schema.cql").write_text(CQL)
    shutil.copy(DATA / "debezium" / "postgres_schema.sql", tmp_path)
    return CommandLine(capsys)


def nested(name: str, events: list[Event]) -> pa.Table:
    kind = connect_type(VALUE)
    if name == "ks.kv2":
        after = cells_type(k=pa.string(), n=pa.int32(), v=pa.string())
        kind = pa.struct([(field.name, after if field.name == "after" else field.type) for field in kind])
    return as_columns([event["value"] for event in events], kind)


def members(values: list[Event]) -> pa.Table:
    columns: dict[str, list[Any]] = {name: [value[name] for value in values] for name in ("op", "ts_ms")}
    known = [name for name in ("source", "before", "after") if name in values[0]]
    texts = {name: [json.dumps(value[name], default=float) for value in values] for name in known}
    return pa.table(columns | texts)


SHAPES: dict[str, Callable[[str, list[Event]], pa.Table]] = {
    "columns": nested,
    "texts": lambda _, events: as_records(json.loads(json.dumps(events, default=float))),
    "bytes": lambda _, events: as_records(json.loads(json.dumps(events, default=float)), is_bytes=True),
    "members": lambda _, events: members([event["value"] for event in events]),
    "structs": lambda name, events: pa.table({"value": nested(name, events).to_struct_array()}),
}


def landed_facts(project: Project, name: str) -> list[str]:
    target = project.table(name)
    rows = DeltaTable(target.raw.location).to_pyarrow_table()
    return sorted(repr(fact) for fact in facts_of(target.relation, rows))


def events_of(name: str) -> list[Event]:
    every = [event for events in STATEMENTS.values() for event in events if event["topic"] == f"lab.{name}"]
    return sorted(every, key=lambda event: event["value"]["source"]["pos"])


# --- the same rows as landing gives ------------------------------------------------------------------------------------


def test_every_statement_that_has_events_is_among_the_streams() -> None:
    assert sorted(SAMPLES.keys() - STATEMENTS.keys()) == ["counter", "static"]
    assert sum(map(len, STATEMENTS.values())) == len(events_of("ks.d")) + len(events_of("ks.kv2")) == 29


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", ["ks.d", "ks.kv2"])
def test_each_event_gives_the_facts_that_landing_it_gives(run: CommandLine, name: str, shape: str) -> None:
    events = events_of(name)
    write_project(table(name, "schema.cql", "debezium-cassandra"))
    assert run.land(name, *(json.dumps(event, default=float) for event in events), format="debezium-cassandra").code == 0
    expected = landed_facts(Project.load(), name)
    find(SHAPES[shape](name, events))
    write_project(found(name, "schema.cql", "debezium-cassandra"))
    adaptation = adapted(Project.load().table(name))
    assert adaptation is not None
    assert (adaptation.events, adaptation.quarantined) == (len(events), 0)
    assert landed_facts(Project.load(), name) == expected


@pytest.mark.parametrize("shape", ["columns", "bytes"])
def test_a_stream_shows_the_rows_that_landing_it_shows(run: CommandLine, shape: str) -> None:
    events = events_of("ks.d")
    write_project(table("ks.d", "schema.cql", "debezium-cassandra"))
    run.land("ks.d", *(json.dumps(event, default=float) for event in events), format="debezium-cassandra")
    asked = [("--as-of", str(instant)) for instant in (BEFORE_EXPIRY, 1795338200)]
    expected = [run.query("ks.d", *instant) for instant in asked]
    key = ("explain", "ks.d", "--key", '{"pk": 2, "ck1": 1, "ck2": "x"}', "--format", "jsonl", "--as-of", str(BEFORE_EXPIRY))
    explained = run(*key)
    find(SHAPES[shape]("ks.d", events))
    before = contents()
    write_project(found("ks.d", "schema.cql", "debezium-cassandra"))
    assert expected[0]
    assert [run.query("ks.d", *instant) for instant in asked] == expected
    assert run(*key) == explained
    assert (explained.code, len(explained.rows) > 1) == (0, True)
    assert contents() == before, "the external table was written to"


POSTGRES = [
    "debezium_pg_default", "debezium_pg_schemas_enabled", "debezium_pg_decimal_string_time_isostring_binary_hex",
    "debezium_pg_ExtractNewRecordState",
]  # fmt: skip


def postgres_events(file: str, *, name: str = "t_types") -> list[Event]:
    lines = (DATA / "debezium" / f"{file}.jsonl").read_text().splitlines()
    own = [json.loads(line) for line in lines if '"vc2":"renamed"' not in line and '"status"' not in line]
    return [event for event in own if event["destination"] == f"lab.public.{name}"]


def postgres_rows(run: CommandLine, events: list[Event]) -> list[dict[str, Any]]:
    write_project(table("public.t_types", "postgres_schema.sql", raw={"table": "landed"}))
    lines = [json.dumps({**event, "offset": offset}) for offset, event in enumerate(events)]
    assert run.land("public.t_types", *lines).code == 0
    return run.query("public.t_types")


@pytest.mark.parametrize("file", POSTGRES)
@pytest.mark.parametrize("count", [4, 99])
def test_relational_records_show_the_rows_that_landing_them_shows(run: CommandLine, file: str, count: int) -> None:
    events = postgres_events(file)[:count]
    expected = postgres_rows(run, events)
    assert expected
    find(as_records(events, is_bytes=count == 4), partition_by=["topic", "partition"] if count == 4 else None)
    write_project(found("public.t_types", "postgres_schema.sql", "debezium"))
    assert repr(run.query("public.t_types")) == repr(expected)


# as a sink lands the default modes with schemas: Connect's and Debezium's logical types are columns of their kind
ROW_TYPES: dict[str, pa.DataType] = {
    "id": pa.int32(), "big": pa.int64(), "small": pa.int16(), "n": pa.decimal128(12, 4),
    "n_unb": pa.struct([("scale", pa.int32()), ("value", pa.binary())]), "r": pa.float32(), "d": pa.float64(), "b": pa.bool_(),
    "t": pa.string(), "vc": pa.string(), "ch": pa.string(), "ts": pa.timestamp("us"), "tstz": pa.string(), "dt": pa.date32(),
    "tm": pa.int64(), "tmtz": pa.string(), "iv": pa.int64(), "j": pa.string(), "jb": pa.string(), "by": pa.binary(),
    "ai": pa.list_(pa.int32()), "at": pa.list_(pa.string()), "u": pa.string(), "ip": pa.string(), "mood": pa.string(),
    "toast": pa.string(), "hs": pa.binary(),
}  # fmt: skip
SOURCE = pa.struct([("connector", pa.string()), ("name", pa.string()), ("ts_ms", pa.timestamp("ms", tz="UTC")),
                    ("snapshot", pa.string()), ("db", pa.string()), ("schema", pa.string()), ("table", pa.string()),
                    ("lsn", pa.int64())])  # fmt: skip
ENVELOPE = pa.struct([("before", pa.struct(ROW_TYPES.items())), ("after", pa.struct(ROW_TYPES.items())), ("source", SOURCE),
                      ("op", pa.string()), ("ts_ms", pa.int64())])  # fmt: skip


@pytest.mark.parametrize("has_texts", [False, True])
def test_relational_events_in_typed_columns_show_the_rows_that_landing_them_shows(run: CommandLine, has_texts: bool) -> None:
    events, seen = [event for event in postgres_events("debezium_pg_default") if event["value"]], ""
    for until in (3, 4, len(events)):
        expected = postgres_rows(run, events[:until])
        shutil.rmtree("found", ignore_errors=True)
        values = [event["value"] for event in events[:until]]
        columns = members(values) if has_texts else as_columns(values, ENVELOPE)
        find(columns.append_column("of_their_own", pa.array([1] * until)))
        write_project(found("public.t_types", "postgres_schema.sql", "debezium"))
        shown = run.query("public.t_types")
        assert repr(shown) == repr(expected)
        for folder in ("landed", "warehouse"):
            shutil.rmtree(folder)
        seen += repr(shown)
    assert "'infinity'" in seen
    assert "-0043-03-15" in seen


def test_unwrapped_rows_in_typed_columns(run: CommandLine) -> None:
    ddl = "create table public.orders (id int primary key, total numeric(12,2), at timestamptz, note text);"
    Path("orders.sql").write_text(ddl)
    kind = pa.schema([("id", pa.int32()), ("total", pa.decimal128(12, 2)), ("at", pa.timestamp("us", tz="UTC")),
                      ("note", pa.string()), ("__deleted", pa.string()), ("__lsn", pa.int64()), ("day", pa.date32()),
                      ("gone", pa.string())])  # fmt: skip

    def row(lsn: int, number: int, **more: Any) -> dict[str, Any]:
        return {"id": number, "__lsn": lsn, "__deleted": "false", "day": lsn, **more}

    rows = [
        row(1, 1, total=Decimal("1.50"), at=0, note="a"),
        row(2, 2, total=Decimal("99999999.99"), at=-62135596800_000_001, note="b"),
        row(4, 1, total=None, at=5, note=None),
        row(3, 3, total=Decimal("0.00"), note="x"),
        row(5, 3, __deleted="true"),
        row(6, 4, gone="a column that the schema does not have"),
    ]
    find(pa.Table.from_pylist(rows, schema=kind), partition_by=["day"])
    write_project(found("public.orders", "orders.sql", "debezium"))
    answer = run("query", "public.orders", "--format", "jsonl")
    assert answer.rows == [
        {"id": 1, "total": None, "at": "1970-01-01 00:00:00.000005Z", "note": None},
        {"id": 2, "total": Decimal("99999999.99"), "at": "0000-12-31 23:59:59.999999Z", "note": "b"},
    ]
    assert "warning: 1 rows in quarantine" in answer.err
    assert "has no column 'gone'" in answer.err


def test_unwrapped_rows_in_the_order_of_a_binlog(run: CommandLine) -> None:
    Path("orders.sql").write_text("create table shop.orders (id int primary key, note text);")
    files = ["binlog.000002", "binlog.000010", "binlog.000002", "binlog.000002"]
    columns = {"id": [1, 1, 1, 1], "note": ["d", "last", "c", "b"], "__deleted": ["false"] * 4, "__file": files}
    find(pa.table({**columns, "__pos": pa.array([9, 1, 9, 7]), "__row": pa.array([1, 0, 0, 5])}))
    write_project(found("shop.orders", "orders.sql", "debezium"))
    assert run.query("shop.orders") == [{"id": 1, "note": "last"}]


def test_what_a_struct_left_out_is_null_and_what_a_text_left_out_is_absent(run: CommandLine) -> None:
    Path("orders.sql").write_text("create table public.orders (id int primary key, note text);")
    write_project(found("public.orders", "orders.sql", "debezium"))
    source = {"connector": "postgresql", "schema": "public", "table": "orders"}
    events = [
        {"op": op, "source": {**source, "lsn": lsn}, "after": {"id": 1, **row}}
        for op, lsn, row in (("c", 1, {"note": "kept"}), ("u", 2, {}))
    ]
    for values, shown in ((events, None), (list(map(json.dumps, events)), "kept")):
        find(pa.table({"value": values}))
        assert run.query("public.orders") == [{"id": 1, "note": shown}]
        for folder in ("found", "warehouse"):
            shutil.rmtree(folder)


def test_key_value_records_by_offset(run: CommandLine) -> None:
    Path("schema.yml").write_text("table: shop.prices\ncolumns: {sku: text, price: 'decimal(12,2)'}\nprimary_key: [sku]\n")
    events = [
        {"key": "007", "value": {"sku": "007", "price": "1.50"}},
        {"key": "1e3", "value": {"price": 2.5}},
        {"key": '"quoted"', "value": {"price": 3}},
        {"key": '{"sku": "object"}', "value": {"price": 12345678.91}},
        {"key": "007", "value": None},
        {"key": "12", "value": {"price": 4}},
    ]
    records = as_records(events).sort_by([("offset", "descending")])
    find(records.append_column("of_their_own", pa.array([1] * len(events))))
    write_project(found("shop.prices", "schema.yml", "key-value"))
    assert {row["sku"]: str(row["price"]) for row in run.query("shop.prices")} == {
        "1e3": "2.50", "quoted": "3.00", "object": "12345678.91", "12": "4.00",
    }  # fmt: skip


# --- records that are no events ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        (b"\xff", b"{}", "key is not UTF-8"),
        (b"{}", b"\x00\x00\x00\x00\x07{}", "value starts with a byte 0, as a schema registry's Avro"),
        (b"{}", b"{}}, {", "value is not JSON"),
        (b"{", b"{}", "key is not JSON"),
        (b"{}", b"[1]", ""),
        (b"{}", b'{"a": 1, "a": 2}', "occurs twice"),
    ],
)
def test_a_damaged_record_costs_itself_alone(run: CommandLine, key: bytes, value: bytes, reason: str) -> None:
    events = json.loads(json.dumps(events_of("ks.kv2")[:1]))
    good = as_records(events, is_bytes=True)
    bad = good.set_column(0, "key", pa.array([key])).set_column(1, "value", pa.array([value]))
    find(pa.concat_tables([good, bad]))
    write_project(found("ks.kv2", "schema.cql", "debezium-cassandra"))
    answer = run("query", "ks.kv2", "--format", "jsonl")
    assert answer.rows == [{"k": "k1", "n": 1, "v": "v"}]
    assert "1 rows in quarantine" in answer.err
    assert reason in answer.err


def test_an_unwrapped_record_without_an_offset_has_no_order(run: CommandLine) -> None:
    events = [{"key": {"id": 1}, "value": {"id": 1, "t": "a"}, "topic": "lab.public.t_types"}]
    find(as_records(events).drop_columns(["offset"]))
    write_project(found("public.t_types", "postgres_schema.sql", "debezium"))
    answer = run("query", "public.t_types", "--format", "jsonl")
    assert answer.rows == []
    assert "1 rows in quarantine" in answer.err
    assert "rows of a table come in no order" in answer.err
