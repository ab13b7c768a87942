"""Tables of events that somebody else lands, captured and random, and what a view of the facts made of them shows."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa

from cdc_views.formats.base import RawFormat, SourceLine
from cdc_views.formats.registry import format_class
from cdc_views.landing.external.shapes import Reading, plain_columns
from cdc_views.landing.external.texts import is_text
from cdc_views.plan.build import Ask
from cdc_views.rules.codec.times import datetime_text
from cdc_views.rules.facts import Fact
from cdc_views.schemas import read_text
from cdc_views.sql import events_sql, rows_sql
from cdc_views.sql.external import EventsOf, plan_of_events
from cdc_views.storage.relation import Relation
from helpers.found_tables import DATA, Event, as_columns, as_records, cells_type

MARK = "__debezium_unavailable_value"
Show = Callable[[str, Mapping[str, pa.Table]], list[str]]
"""Runs a SELECT over tables; returns each row's text, sorted."""

POSTGRES = {
    "id": "int primary key", "big": "bigint", "small": "smallint", "r": "real", "d": "double precision", "b": "bool", "t": "text",
    "vc": "varchar(20)", "ch": "char(5)", "ts": "timestamp(6)", "tstz": "timestamptz", "dt": "date", "j": "json", "jb": "jsonb",
    "u": "uuid", "mood": "text", "toast": "text",
}  # fmt: skip
TYPED = {**POSTGRES, "n": "numeric(12,4)", "tm": "time", "by": "bytea"}
MARIADB = {
    "id": "int primary key auto_increment", "tiny1": "tinyint(1)", "tiny": "tinyint", "f": "float", "d": "double",
    "vc": "varchar(50)", "lat": "varchar(20)", "txt": "text", "dt": "date", "tm": "time(6)", "dtm": "datetime(6)",
    "ts": "timestamp(6) null", "y": "year", "en": "enum('a','b','c')", "st": "set('x','y','z')", "js": "json", "uu": "uuid",
    "gen": "int",
}  # fmt: skip


def created(name: str, columns: Mapping[str, str]) -> str:
    """The statement that creates a table."""
    listed = ", ".join(f"{column} {kind}" for column, kind in columns.items())
    return f"create table {name} ({listed});"


@dataclass(frozen=True)
class EventTable:
    """Rows that a sink landed, and how their source's table is declared."""

    ddl: str
    rows: pa.Table
    name: str = "public.t_types"
    format: str = "debezium"
    options: Mapping[str, Any] = field(default_factory=dict)
    key: str = "key"

    @property
    def adapter(self) -> RawFormat:
        """The adapter that lands such events."""
        found = format_class(self.format)
        return found.configured(found.options.model_validate(dict(self.options))) if found.options else found()

    @property
    def relation(self) -> Relation:
        """The raw table that it would make."""
        kind = "cql" if self.format == "debezium-cassandra" else "sql"
        schema = read_text(self.ddl, path=Path(f"schema.{kind}"), keyspace="", key_columns=()).tables[self.name]
        return Relation(schema, self.adapter.order)

    @property
    def reading(self) -> Reading:
        """How its rows are read."""
        return Reading.of(
            self.format, self.relation.schema, columns=self.rows.schema, partitions=frozenset(), where="the external table"
        )

    def facts(self) -> list[Fact]:
        """The facts that the copying adapter makes."""
        read, facts = self.reading.reader(self.rows.schema, where="the external table"), list[Fact]()
        for row in self.rows.cast(plain_columns(self.rows.schema)).to_pylist():
            found = read(row)
            assert not found.reason, found
            facts += self.adapter.decode(SourceLine(found.text, 0, 0), self.relation.schema)
        return facts

    def check(self, dialect: str, show: Show, *, now: int = 0) -> str:
        """Check that the view of the events shows the rows of the view of their facts; return its query."""
        relation = self.relation
        raw = relation.rows(self.facts(), landed_at=0)
        wanted = show(rows_sql(Ask(relation), dialect_name=dialect, strategy="auto", table="raw", clock=str(now)), {"raw": raw})
        sql = events_sql(relation, self.plan(dialect), dialect_name=dialect, table="found", clock=str(now))
        assert show(sql, {"found": self.rows}) == wanted
        return sql

    def plan(self, dialect: str) -> Any:
        """The plan of the view of the events."""
        is_json = "value" in self.rows.column_names and is_text(self.rows.schema.field("value").type)
        sample = [json.loads(value) for value in self.rows.column("value").to_pylist() if value] if is_json else []
        of = EventsOf(self.relation, self.adapter, self.reading, dialect)
        return plan_of_events(of, self.rows.schema, key=self.key, sample=sample)


def captured(file: str, columns: Collection[str], *, topic: str = "lab.public.t_types", count: int = 99) -> list[Event]:
    """Captured events of one table, with some of its columns, and with their metadata."""
    lines = [json.loads(line) for line in (DATA / "debezium" / f"{file}.jsonl").read_text().splitlines()]
    own = [event for event in lines if event["destination"] == topic and "vc2" not in json.dumps(event["value"])][:count]
    return [{**event, "value": _of_columns(event["value"], columns)} for event in own]


def _of_columns(value: Any, columns: Collection[str]) -> Any:
    if value is None or "payload" in value:
        return value and {**value, "payload": _of_columns(value["payload"], columns)}
    if "source" not in value:
        return {name: part for name, part in value.items() if name in columns or name.startswith("__")}
    images = {name: _image(value.get(name), columns) for name in ("before", "after")}
    return {**value, **images}


def _image(row: Any, columns: Collection[str]) -> Any:
    return row and {name: part for name, part in row.items() if name in columns}


_KINDS = {
    "id": pa.int32(), "big": pa.int64(), "small": pa.int16(), "n": pa.decimal128(12, 4), "r": pa.float32(), "d": pa.float64(),
    "b": pa.bool_(), "ts": pa.timestamp("us"), "dt": pa.date32(), "tm": pa.int64(), "by": pa.binary(),
}  # fmt: skip
"""The types of columns that a sink does not make texts."""
_SOURCE = pa.struct([("connector", pa.string()), ("ts_ms", pa.timestamp("ms", tz="UTC")), ("snapshot", pa.string()),
                     ("db", pa.string()), ("schema", pa.string()), ("table", pa.string()), ("lsn", pa.int64())])  # fmt: skip
_PLACE = pa.struct([("id", pa.string()), ("total_order", pa.int64())])


def envelope(columns: Mapping[str, pa.DataType], **more: pa.DataType) -> pa.StructType:
    """The type of an event whose images have some columns."""
    image = pa.struct(columns.items())
    return pa.struct({"before": image, "after": image, "source": _SOURCE, "op": pa.string(), "ts_ms": pa.int64(), **more}.items())


def _typed(columns: Collection[str], *, count: int) -> pa.Table:
    events = [event for event in captured("debezium_pg_default", columns, count=count) if event["value"]]
    kind = envelope({name: _KINDS.get(name, pa.string()) for name in columns}, transaction=_PLACE)
    return as_columns([event["value"] for event in events], kind)


def _unwrapped() -> pa.Table:
    kind = {"id": pa.int32(), "total": pa.decimal128(12, 2), "at": pa.timestamp("us", tz="UTC"), "note": pa.string(),
            "day": pa.date32(), "__deleted": pa.string(), "__lsn": pa.int64()}  # fmt: skip
    rows = [
        {"id": 1, "total": Decimal("1.50"), "at": 0, "note": "a"},
        {"id": 2, "total": Decimal("99999999.99"), "at": -62135596799_000_001, "note": "b", "day": 3},
        {"id": 3, "total": Decimal("0.00"), "note": "x"},
        {"id": 1, "total": None, "at": 5, "note": None},
        {"id": 3, "__deleted": "true"},
        {"id": 2, "total": Decimal(2), "at": 7, "note": MARK},
    ]
    placed = [{"__deleted": "false", "__lsn": lsn, **row} for lsn, row in enumerate(rows, 1)]
    return pa.Table.from_pylist(placed[::-1], schema=pa.schema(kind.items()))


def _keys_and_values() -> pa.Table:
    records = [
        {"key": "007", "value": {"sku": "007", "n": 5, "t": "a"}},
        {"key": "1e3", "value": {"n": 2}},
        {"key": '"quoted"', "value": {"n": 3, "t": None}},
        {"key": '{"sku": "object"}', "value": {"n": 7, "t": "x"}},
        {"key": "007", "value": None},
        {"key": "12", "value": {"n": 4}},
        {"key": "1e3", "value": {"t": "later"}},
    ]
    return as_records(records)


_ORDERS = "create table public.orders (id int primary key, total numeric(12,2), at timestamptz, note text, day date);"
_PRICES = "create table shop.prices (sku text primary key, n int, t text);"
_VALUES = pa.struct([("n", pa.int32()), ("t", pa.string())])


def event_tables(*, without: Collection[str] = ()) -> dict[str, EventTable]:
    """Captured and written events of each form that SQL reads; the captured ones `without` some columns."""
    found: dict[str, EventTable] = {}
    postgres, typed, mariadb = ({n: k for n, k in kinds.items() if n not in without} for kinds in (POSTGRES, TYPED, MARIADB))
    ddl, of_types = created("public.t_types", postgres), created("public.t_types", typed)
    for count in (4, 99):
        texts = {mode: captured(f"debezium_pg_{mode}", postgres, count=count) for mode in _MODES}
        columns = _typed(typed, count=count)
        of_mariadb = captured("debezium_mariadb_default", mariadb, topic="mlab.lab.t_types", count=count)
        found |= {
            f"postgres, text, {count}": EventTable(ddl, as_records(texts["default"])),
            f"postgres, bytes, {count}": EventTable(ddl, as_records(texts["default"], is_bytes=True)),
            f"postgres, schemas, {count}": EventTable(ddl, as_records(texts["schemas_enabled"]), options=_MICROS),
            f"postgres, unwrapped, {count}": EventTable(ddl, as_records(texts["ExtractNewRecordState"])),
            f"postgres, columns, {count}": EventTable(of_types, columns),
            f"postgres, structs, {count}": EventTable(of_types, pa.table({"value": columns.to_struct_array()})),
            f"mariadb, text, {count}": EventTable(created("lab.t_types", mariadb), as_records(of_mariadb), "lab.t_types"),
        }
    structs = {"key": [{"sku": "a"}, {"sku": "b"}, {"sku": "a"}], "offset": [5, 6, 7]}
    values = pa.array([{"n": 1, "t": "x"}, {"n": 2, "t": None}, None], _VALUES)
    return {
        **found,
        "unwrapped, columns": EventTable(_ORDERS, _unwrapped(), "public.orders"),
        "key-value, text": EventTable(_PRICES, _keys_and_values(), "shop.prices", "key-value"),
        "key-value, structs": EventTable(_PRICES, pa.table({**structs, "value": values}), "shop.prices", "key-value"),
    }


_MICROS = {"units": {"ts": "micros"}}
_MODES = ("default", "schemas_enabled", "ExtractNewRecordState")

# --- Cassandra's ---------------------------------------------------------------------------------------------------------

_CQL = """CREATE TABLE ks.d (pk int, ck1 int, ck2 text, b blob, big bigint, bo boolean, ts timestamp, u uuid, v int, w text,
  PRIMARY KEY (pk, ck1, ck2));"""
_OF_CQL = {"pk": pa.int32(), "ck1": pa.int32(), "ck2": pa.string(), "b": pa.binary(), "big": pa.int64(), "bo": pa.bool_(),
           "ts": pa.int64(), "u": pa.string(), "v": pa.int32(), "w": pa.string()}  # fmt: skip
_PARTS = pa.list_(pa.struct([("name", pa.string()), ("value", pa.string()), ("type", pa.string())]))
_END = pa.struct([("method", pa.string()), ("values", _PARTS)])
_CASSANDRA = pa.struct([("ts_us", pa.int64()), ("snapshot", pa.string()), ("keyspace", pa.string()), ("table", pa.string()),
                        ("file", pa.string()), ("pos", pa.int64()), ("cluster", pa.string())])  # fmt: skip


def of_cassandra(events: Iterable[Event]) -> EventTable:
    """Events of `ks.d` as nested columns, without the columns that SQL does not read."""
    cells = cells_type(**_OF_CQL)
    after = pa.struct([*cells, ("_range_start", _END), ("_range_end", _END)])
    kind = pa.struct([("ts_ms", pa.int64()), ("op", pa.string()), ("source", _CASSANDRA), ("after", after)])
    return EventTable(_CQL, as_columns(events, kind), "ks.d", "debezium-cassandra")


def captured_of_cassandra() -> EventTable:
    """The captured events of `ks.d`, with the columns that SQL reads."""
    samples = [json.loads(path.read_text()) for path in sorted((DATA / "debezium_cassandra").glob("*.json"))]
    events = [e["value"] for sample in samples for e in sample.get("debezium_events") or () if e["topic"] == "lab.ks.d"]
    return of_cassandra([{**event, "after": {n: event["after"].get(n) for n in (*_OF_CQL, *_ENDS)}} for event in events])


def rows_of_cassandra() -> EventTable:
    """The captured events of `ks.kv2`, which has no clustering columns, as JSON."""
    samples = [json.loads(path.read_text()) for path in sorted((DATA / "debezium_cassandra").glob("*.json"))]
    events = [e for sample in samples for e in sample.get("debezium_events") or () if e["topic"] == "lab.ks.kv2"]
    ddl = "CREATE TABLE ks.kv2 (k text PRIMARY KEY, n int, v text);"
    return EventTable(ddl, as_records(events), "ks.kv2", "debezium-cassandra")


_ENDS = ("_range_start", "_range_end")
_WRITTEN = 1_700_000_000_000_000


def random_of_cassandra(rng: Random, *, count: int) -> EventTable:
    """Random events of a few rows: ties of write times, expiries, deletions of rows, ranges and partitions, snapshot reads."""
    events = [_mutation(rng) for _ in range(count)]
    return of_cassandra([*events, *rng.sample(events, k=count // 4)])


def _mutation(rng: Random) -> Event:
    op = rng.choices(("i", "u", "d", "range", "partition"), (5, 5, 2, 1, 0.5))[0]
    at = _WRITTEN + rng.randrange(12) * 500_000
    keys = {"pk": rng.randrange(2), "ck1": rng.randrange(3), "ck2": rng.choice(("a", "b"))}
    values = {"b": rng.choice((None, "", "AAE=")), "big": rng.choice((None, -1, 1 << 40)), "bo": rng.choice((None, True, False)),
              "ts": rng.choice((None, -1, 1_700_000_000_123)), "v": rng.choice((None, 0, -5, 5)),
              "u": rng.choice((None, "A0EEBC99-9c0b-4ef8-bb6d-6bb9bd380a11")), "w": rng.choice((None, "", "x", "☃"))}  # fmt: skip
    expiry = rng.choice((None, None, at + 3_000_000, at + 1_500_001, at + 60_000_000))
    after: dict[str, Any] = {name: {"value": value, "deletion_ts": None, "set": True} for name, value in keys.items()}
    if op in "iu":
        is_set = {name: rng.random() < 0.6 for name in values}
        after |= {n: {"value": v, "deletion_ts": at if v is None else expiry, "set": is_set[n]} for n, v in values.items()}
    elif op != "d":
        after |= {name: {"value": None, "deletion_ts": at, "set": True} for name in ("ck1", "ck2")}
    if op == "range":
        after |= dict.fromkeys(("ck1", "ck2")) | _ends_of(rng)
    source = {"ts_us": at, "snapshot": "true" if op == "i" and rng.random() < 0.1 else "false", "keyspace": "ks", "table": "d",
              "file": "CommitLog-7-1.log", "pos": 5, "cluster": "lab"}  # fmt: skip
    return {"ts_ms": at // 1000 + 700, "op": {"range": "r", "partition": "d"}.get(op, op), "source": source, "after": after}


def _ends_of(rng: Random) -> dict[str, Any]:
    start, end = sorted(rng.randrange(3) for _ in range(2))
    sizes = rng.randrange(3), rng.randrange(3)
    ends = {}
    for name, side, first, size in zip(_ENDS, ("START", "END"), (start, end), sizes, strict=True):
        values = [{"name": "ck1", "value": str(first), "type": "t"}, {"name": "ck2", "value": rng.choice("ab"), "type": "t"}]
        ends[name] = {"method": f"{rng.choice(('INCL', 'EXCL'))}_{side}_BOUND", "values": values[:size]}
    return ends


# --- random events -----------------------------------------------------------------------------------------------------

_ORDER = created(
    "shop.orders",
    {"id": "int primary key", "state": "text", "price": "numeric(12,2)", "note": "text", "at": "timestamp(6)", "n": "bigint",
     "day": "date", "seen": "timestamptz"},
)  # fmt: skip
_ORDER_OF_MYSQL = created(
    "shop.orders",
    {"id": "int primary key auto_increment", "state": "varchar(20)", "price": "decimal(12,2)", "note": "text",
     "at": "datetime(6)", "n": "bigint", "day": "date", "seen": "timestamp(6)"},
)  # fmt: skip
_SOURCES = {
    "postgresql": _SOURCE,
    "mysql": pa.struct([("connector", pa.string()), ("snapshot", pa.string()), ("db", pa.string()), ("table", pa.string()),
                        ("file", pa.string()), ("pos", pa.int64()), ("row", pa.int32())]),
}  # fmt: skip
_COLUMNS = {"id": pa.int32(), "state": pa.string(), "price": pa.decimal128(12, 2), "note": pa.string(), "at": pa.int64(),
            "n": pa.int64(), "day": pa.date32(), "seen": pa.timestamp("us", tz="UTC")}  # fmt: skip
_LSN = 26_912_616
_INSTANTS = (None, 0, 1704164645123, 1704164645123456, -62_135_596_800_000_000, 253402300799999, 9223372036825200000)


def random_events(rng: Random, *, count: int, is_typed: bool, of: str = "postgresql", decimals: str = "string") -> EventTable:
    """Events of a few keys: late, twice, of other tables, without values that did not change; and truncations.

    `decimals` is how JSON has them; with `precise`, bytes and one decimal of many digits are there, too.
    """
    events = [_change(rng, position, of=of, is_typed=is_typed) for position in range(1, count + 1)]
    if decimals == "precise" and not is_typed:
        for image in (event[name] for event in events for name in ("before", "after") if event[name]):
            _in_base64(rng, image, marks=of == "postgresql")
    events += rng.sample(events, k=count // 4)
    rng.shuffle(events)
    ddl = _ORDER if of == "postgresql" else _ORDER_OF_MYSQL
    if is_typed:
        return EventTable(ddl, as_columns(events, envelope(_COLUMNS, source=_SOURCES[of])), "shop.orders")
    begin = {"status": "BEGIN", "id": "7", "event_count": None, "data_collections": None, "ts_ms": 5}
    others: list[Any] = [None, {"ts_ms": 5}, begin]
    records = [{"key": {"id": 0}, "value": event, "topic": "lab.shop.orders"} for event in [*events, *others]]
    if decimals == "precise":
        more = {"postgresql": ", big numeric(24, 6), by bytea);", "mysql": ", big decimal(24, 6), by blob);"}
        ddl = ddl.removesuffix(");") + more[of]
    return EventTable(ddl, as_records(records), "shop.orders", options={"decimals": decimals, "binary": "base64"})


def _in_base64(rng: Random, image: Event, *, marks: bool) -> None:
    """Write decimals as Debezium does by default, in as few bytes as they take or in more, and add bytes."""
    if image.get("price") is not None:
        image["price"] = _unscaled(rng, Decimal(image["price"]).scaleb(2), most=7)
    numbers = (None, 0, 1, -1, -128, 128, 10**24 - 1, -(10**24) + 1, 1 << 59, -(1 << 60), 1 << 63)
    texts = (None, "", "AAE=", base64.b64encode(b"0x").decode(), *((base64.b64encode(MARK.encode()).decode(),) if marks else ()))
    big = rng.choice(numbers)
    if rng.random() < 0.9:
        image["big"] = None if big is None else _unscaled(rng, Decimal(big), most=15)
    if rng.random() < 0.9:
        image["by"] = rng.choice(texts)


def _unscaled(rng: Random, number: Decimal, *, most: int) -> str:
    whole = int(number)
    least = (whole if whole >= 0 else ~whole).bit_length() // 8 + 1
    return base64.b64encode(whole.to_bytes(rng.choice((least, most)), "big", signed=True)).decode()


def _change(rng: Random, position: int, *, of: str, is_typed: bool) -> Event:
    op = rng.choices(("c", "u", "r", "d", "t"), (4, 6, 1, 3, 0.3))[0]
    marks = (MARK,) if of == "postgresql" else ()
    row: dict[str, Any] = {
        "id": rng.randrange(4),
        "state": rng.choice((None, "", "new", "paid", "☃", *marks)),
        "price": rng.choice((None, "0.00", "-1.50", "9999999999.99")),
        "note": rng.choice((None, "x", "y" * 30, *marks)),
        "at": rng.choice(_INSTANTS),
        "n": rng.choice((None, 0, -1, 9_007_199_254_740_993, -(1 << 63))),
        "day": rng.choice((None, 0, -1, 19_782)),
        "seen": rng.choice((None, 0, -1, 1704164645123456)),
    }
    if not is_typed and rng.random() < 0.1:
        row["note"] = rng.choice(({"a": [1, "x"]}, [], 7))  # as an hstore or an interval comes
    if not is_typed and op != "d":
        row = {name: value for name, value in row.items() if name == "id" or rng.random() < 0.9}
    if not is_typed and row.get("seen") is not None:
        row["seen"] = f"{datetime_text(row['seen'])}Z".replace(" ", "T")
    if is_typed and row["price"] is not None:
        row["price"] = _base64(row["price"])
    images = {"before": row if op == "d" else None, "after": row if op in "cur" else None}
    return {
        **images,
        "source": _place(position, of=of, op=op),
        "op": op,
        "ts_ms": 5,
        **({} if is_typed else {"transaction": None}),
    }


def _place(position: int, *, of: str, op: str) -> dict[str, Any]:
    common = {"connector": of, "table": "orders", "snapshot": "true" if op == "r" else "false"}
    if of == "postgresql":
        return {**common, "db": "lab", "schema": "shop", "lsn": _LSN + position * 8, "ts_ms": 5}
    # a file's number counts, not its text; one statement writes several rows, and a snapshot reads a row once
    row = position % 3
    place = {"file": f"binlog.{9 + position // 12:06}", "pos": position // 3 * 100 + (row if op == "r" else 4), "row": row}
    return {**common, "db": "shop", **place}


def _base64(text: str) -> str:
    return base64.b64encode(int(Decimal(text).scaleb(2)).to_bytes(8, "big", signed=True)).decode()
