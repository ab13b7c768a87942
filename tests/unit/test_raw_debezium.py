"""`debezium` against captured streams: what PostgreSQL and MariaDB would show after each statement."""

from __future__ import annotations

import json
import random
import re
import uuid
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdc_views.errors import MalformedEventError
from cdc_views.formats.base import SourceLine, order_key
from cdc_views.formats.debezium.format import Debezium, DebeziumOptions
from cdc_views.model.schema import Column, Role, TableSchema
from cdc_views.model.types import Kind, ListOf, LogicalType, Scalar
from cdc_views.rules.codec.jsonread import from_json
from cdc_views.rules.codec.times import MICROS_A_DAY, PG_INFINITY, parse_date, parse_micros
from cdc_views.rules.facts import Fact, FactKind
from cdc_views.rules.oracle import Row, latest_rows

DATA = Path(__file__).parents[1] / "data" / "debezium"
NOW = 1800000000
PG_DEFAULT = "debezium_pg_default"
PG_SCHEMAS = "debezium_pg_schemas_enabled"
PG_TEXTS = "debezium_pg_decimal_string_time_isostring_binary_hex"
PG_FLAT = "debezium_pg_ExtractNewRecordState"
HTTP = "http_bodies"
MARIADB = "debezium_mariadb_default"


def _table(full_name: str, kinds: dict[str, Kind | LogicalType]) -> TableSchema:
    keyspace, _, name = full_name.rpartition(".")
    types = {column: Scalar(kind) if isinstance(kind, Kind) else kind for column, kind in kinds.items()}
    roles = [Role.PARTITION, *[Role.REGULAR] * (len(types) - 1)]
    return TableSchema(keyspace, name, tuple(Column(c, t, r) for (c, t), r in zip(types.items(), roles, strict=True)))


PG_KINDS: dict[str, Kind | LogicalType] = {
    "id": Kind.INT, "big": Kind.BIGINT, "small": Kind.SMALLINT, "n": Kind.DECIMAL, "n_unb": Kind.DECIMAL, "r": Kind.FLOAT,
    "d": Kind.DOUBLE, "b": Kind.BOOLEAN, "t": Kind.TEXT, "vc": Kind.TEXT, "ch": Kind.TEXT, "ts": Kind.DATETIME,
    "tstz": Kind.INSTANT, "dt": Kind.DATE, "tm": Kind.TIME, "tmtz": Kind.TEXT, "iv": Kind.DURATION, "j": Kind.JSON,
    "jb": Kind.JSON, "by": Kind.BLOB, "ai": ListOf(Scalar(Kind.INT)), "at": ListOf(Scalar(Kind.TEXT)), "u": Kind.UUID,
    "ip": Kind.INET, "mood": Kind.TEXT, "toast": Kind.TEXT, "hs": Kind.BLOB,
}  # fmt: skip
TYPES = _table("public.t_types", PG_KINDS)
RENAMED = _table("public.t_types", {("vc2" if name == "vc" else name): kind for name, kind in PG_KINDS.items()})
FULL = _table("public.t_full", {"id": Kind.INT, "v": Kind.TEXT, "toast": Kind.TEXT, "extra": Kind.INT})
NOPK = _table("public.t_nopk", {"a": Kind.INT, "b": Kind.TEXT})
MARIADB_KINDS: dict[str, Kind | LogicalType] = {
    "id": Kind.INT, "ubig": Kind.VARINT, "tiny1": Kind.TINYINT, "tiny": Kind.TINYINT, "n": Kind.DECIMAL, "f": Kind.FLOAT,
    "d": Kind.DOUBLE, "b1": Kind.BOOLEAN, "b8": Kind.BLOB, "vc": Kind.TEXT, "lat": Kind.TEXT, "txt": Kind.TEXT,
    "bin": Kind.BLOB, "bl": Kind.BLOB, "dt": Kind.DATE, "tm": Kind.TIME, "dtm": Kind.DATETIME, "ts": Kind.INSTANT,
    "y": Kind.INT, "en": Kind.TEXT, "st": Kind.TEXT, "js": Kind.JSON, "uu": Kind.UUID, "ip": Kind.TEXT, "pt": Kind.BLOB,
    "gen": Kind.INT,
}  # fmt: skip
MARIADB_TYPES = _table("lab.t_types", MARIADB_KINDS)
MARIADB_LATER = _table("lab.t_types", {**MARIADB_KINDS, "txt2": Kind.TEXT, "extra": Kind.INT})

FIRST: Row = {
    "id": 1, "big": 9007199254740993, "small": -7, "n": Decimal("12345.6789"), "n_unb": Decimal(10**20), "r": 1.5, "d": 2.5,
    "b": True, "t": "snap", "vc": "vc", "ch": "ch   ", "ts": parse_micros("2024-01-02 03:04:05.123456"),
    "tstz": parse_micros("2024-01-02 01:04:05.123456Z"), "dt": parse_date("2024-02-29"), "tm": 45_296_789_000_000,
    "tmtz": "10:34:56Z", "iv": (0, 0, 93_784 * 10**9), "j": '{"a": 1}', "jb": '{"b": [1, 2]}', "by": b"\xde\xad\xbe\xef",
    "ai": (1, 2, None), "at": ("x", "y,z"), "u": uuid.UUID("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"), "ip": "10.0.0.1",
    "mood": "ok", "toast": "TTTTTTTTTTTT...CUT", "hs": b"\xaa",
}  # fmt: skip
SECOND: Row = {
    **FIRST, "id": 2, "n": Decimal("-0.0001"), "n_unb": Decimal("123456789012345678901234567890.123456789"), "d": float("nan"),
    "b": False, "t": 'ins ☃ "q"', "ts": PG_INFINITY, "tstz": -1, "dt": parse_date("0044-03-15 BC"), "tm": 86_400 * 10**9,
    "tmtz": "08:00:00Z", "iv": (0, 0, -2_543_400 * 10**9), "j": '{"a": 1.0, "a": 2}', "by": b"\x00\xff",
    # the source has {{1,2},{3,4}}: named in the fidelity report
    "ai": (None, None), "at": (), "u": uuid.UUID("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a12"), "ip": "0:0:0:0:0:0:0:1",
    "toast": "UUUUUUUUUUUU...CUT", "hs": b"\x01",
}  # fmt: skip
THIRD: Row = {**dict.fromkeys(FIRST), "id": 3}
UPDATED: Row = {**SECOND, "t": "upd", "n": Decimal("1.5000")}
MOVED: Row = {**UPDATED, "id": 22, "toast": None}  # the source has UUUU…: rule S4, named in the fidelity report
RETOASTED: Row = {**MOVED, "toast": "VVVVVVVVVVVV...CUT"}


@dataclass(frozen=True)
class Stream:
    """A captured stream of one table, and how its values differ from the default modes'."""

    file: str
    schema: TableSchema = TYPES
    scales: tuple[tuple[str, int], ...] = ()
    differs: tuple[tuple[int, str, Any], ...] = ()

    @property
    def format(self) -> Debezium:
        return Debezium(DebeziumOptions(scales=dict(self.scales)))


_CUT_TO_MILLIS = ((1, "ts", FIRST["ts"] // 1000 * 1000), (1, "n_unb", Decimal("1.0E+20")))
_A_DOUBLE = tuple((i, "n_unb", Decimal("1.2345678901234568E+29")) for i in (2, 22))
_ISO_INTERVALS = ((1, "iv", (0, 1, 7_384 * 10**9)), *((i, "iv", (-1, 1, 0)) for i in (2, 22)))
_MIDNIGHT = tuple((i, "tm", 0) for i in (2, 22))  # isostring writes 24:00:00 as 00:00:00
POSTGRES = [
    Stream(PG_DEFAULT, scales=(("n", 4),)),
    Stream(HTTP, scales=(("n", 4),)),
    Stream(PG_SCHEMAS),
    Stream(PG_TEXTS, differs=_ISO_INTERVALS + _MIDNIGHT),
    Stream(PG_FLAT, scales=(("n", 4),), differs=_CUT_TO_MILLIS + _A_DOUBLE),
]


def lines(file: str) -> list[str]:
    return (DATA / f"{file}.jsonl").read_text().splitlines()


def decoded(stream: Stream, schema: TableSchema | None = None) -> list[list[Fact] | str]:
    """Facts of each line, or the reason it is malformed."""
    found: list[list[Fact] | str] = []
    for number, text in enumerate(lines(stream.file), 1):
        try:
            found.append(stream.format.decode(SourceLine(text, number), schema or stream.schema))
        except MalformedEventError as error:
            found.append(str(error))
    return found


def states(stream: Stream, schema: TableSchema | None = None) -> list[list[Row]]:
    """The table's rows after each event that changed them, first to last."""
    facts: list[Fact] = []
    found: list[list[Row]] = [[]]
    for event in decoded(stream, schema):
        if isinstance(event, list):
            facts += event
        rows = latest_rows(schema or stream.schema, facts, now=NOW)
        if shown(rows) != shown(found[-1]):
            found.append(rows)
    return found[1:]


def shown(rows: list[Row]) -> list[str]:
    """Rows with each value's own form, so that NaN equals NaN and 1.0 is not 1.00."""
    return [repr(sorted(row.items())) for row in rows]


def expected(stream: Stream, *rows: Row) -> list[Row]:
    changed = []
    for row in rows:
        changed.append(
            {**row, **{column: value for id_, column, value in stream.differs if id_ == row["id"] and row[column] is not None}}
        )
    return changed


# --- streams ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", POSTGRES, ids=lambda s: s.file)
def test_postgres_rows_after_each_statement(stream: Stream) -> None:
    history = [
        (FIRST,),
        (FIRST, SECOND),
        (FIRST, SECOND, THIRD),
        (FIRST, UPDATED, THIRD),
        (FIRST, THIRD),  # the first half of the key's change
        (FIRST, THIRD, MOVED),
        (FIRST, THIRD, RETOASTED),
        (FIRST, RETOASTED),
        (FIRST,),
    ]
    assert [shown(rows) for rows in states(stream)] == [shown(expected(stream, *rows)) for rows in history]


def test_rows_equal_what_postgres_itself_showed_after_each_statement() -> None:
    """`postgres_rows.jsonl` is the table as PostgreSQL 15 had it; but for a 2-dimensional array and rule S4's loss."""
    answers = [json.loads(text, parse_float=Decimal) for text in lines("postgres_rows")]
    seen = [rows for rows in states(POSTGRES[0]) if [row["id"] for row in rows] != [1, 3]]  # half of a key's change
    true = [rows for n, rows in enumerate(answers) if n == 0 or rows != answers[n - 1]]
    assert len(seen) == len(true) == 8
    for ours, theirs in zip(seen, true, strict=True):
        for row, answer in zip(ours, theirs, strict=True):
            lost = {"ai"} if row["id"] in (2, 22) else set()
            lost |= {"toast"} if row["id"] == 22 and row["toast"] is None else set()
            wanted = {name: _answered(PG_KINDS[name], value) for name, value in answer.items() if name not in lost}
            assert shown([{name: row[name] for name in wanted}]) == shown([wanted])


def _answered(kind: Kind | LogicalType, value: Any) -> Any:
    if value is None or isinstance(value, list):
        return None if value is None else tuple(value)
    if kind is Kind.BLOB:
        value = f"0x{value.removeprefix('0x')}"
    assert isinstance(kind, Kind)
    return float("nan") if value == "NaN" else from_json(Scalar(kind), value)


@pytest.mark.parametrize("stream", POSTGRES, ids=lambda s: s.file)
def test_postgres_table_with_full_identity_transactions_truncate_and_a_new_column(stream: Stream) -> None:
    toast = "FFFFFFFFFFFF...CUT"
    snap, upd = ({"id": 1, "v": v, "toast": toast, "extra": None} for v in ("snap", "upd"))
    a, b = ({"id": 2, "v": v, "toast": None, "extra": None} for v in ("a", "b"))
    nine = {"id": 9, "v": "after-ddl", "toast": None, "extra": 5}
    history = [[snap], [upd], [upd, a], [upd, b], [upd], [], [nine]]
    if stream.file == PG_FLAT:  # an unwrapped stream drops truncations
        history[5:] = [[upd, nine]]
    assert states(stream, FULL) == history


def test_a_renamed_column_is_quarantined_until_the_schema_has_it() -> None:
    stream = POSTGRES[0]
    reasons = [event for event in decoded(stream) if isinstance(event, str) and "vc2" in event]
    (reason,) = reasons
    assert re.search(r"update the schema, then .*did you mean 'vc'", reason)
    assert [row["vc2"] for rows in states(stream, RENAMED) for row in rows if row["id"] == 22] == ["renamed"]


def test_mariadb_rows_after_each_statement() -> None:
    stream = Stream(MARIADB, MARIADB_LATER, scales=(("n", 6),))
    one: Row = {
        "id": 1, "ubig": (1 << 64) - 1, "tiny1": 1, "tiny": -5, "n": Decimal("-12345.678900"), "f": 1.5, "d": 2.5, "b1": True,
        "b8": b"\x01\x02", "vc": "snap ☃😀", "lat": "é", "txt": "txt", "bin": b"\x00\xff", "bl": b"\xde\xad\xbe\xef",
        "dt": parse_date("2024-02-29"), "tm": -45_296_789_000_000, "dtm": parse_micros("2024-01-02 03:04:05.123456"),
        "ts": parse_micros("2024-01-02 03:04:05.123456"), "y": 2024, "en": "b", "st": "x,z", "js": '{"a": [1, 2]}',
        "uu": uuid.UUID("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"), "ip": "::1",
        "pt": bytes.fromhex("0101000000000000000000f03f0000000000000040"), "gen": -10, "txt2": None, "extra": None,
    }  # fmt: skip
    two: Row = {
        **one, "id": 2, "tiny1": 0, "n": Decimal("0.000001"), "b1": False, "b8": b"\x01\x00", "vc": "ins ☃",
        "dt": parse_date("1000-01-01"), "tm": 3_020_399 * 10**9, "dtm": parse_date("+10000-01-01") * MICROS_A_DAY - 1,
        "ts": 1_000_000, "y": 1901, "en": "c", "st": "", "js": '{"a": 1.0}', "pt": None, "ip": "10.0.0.1",
        "uu": uuid.UUID("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a12"),
    }  # fmt: skip
    three: Row = {**dict.fromkeys(one), "id": 3}
    updated = {**two, "vc": "upd", "n": Decimal("1.000001")}
    moved = {**updated, "id": 22}
    four: Row = {**three, "id": 4, "extra": 7}
    history = [
        [one], [one, two], [one, two, three], [one, updated, three], [one, three], [one, three, moved], [one, moved],
        [one, four, moved], [one, {**four, "txt2": "r"}, moved], [one, {**four, "txt2": "r"}],
    ]  # fmt: skip
    assert [shown(rows) for rows in states(stream)] == [shown(rows) for rows in history]


def test_mariadb_table_without_a_key_is_ordered_by_row_within_a_statement() -> None:
    nopk = _table("lab.t_nopk", {"a": Kind.INT, "b": Kind.TEXT})
    found = states(Stream(MARIADB, nopk))
    assert found[-3:] == [[{"a": 1, "b": "z"}, {"a": 2, "b": "z"}], [{"a": 2, "b": "z"}], []]


def test_events_of_other_tables_are_malformed_and_name_both() -> None:
    reasons = [event for event in decoded(Stream(PG_DEFAULT, NOPK)) if isinstance(event, str)]
    assert any("public.t_types, where public.t_nopk was expected" in reason for reason in reasons)
    assert all(("where" in reason and "public.t_nopk" in reason) or "key column" in reason for reason in reasons)


def test_transaction_markers_and_schema_changes_give_no_facts() -> None:
    for file, schema in ((PG_DEFAULT, TYPES), (MARIADB, MARIADB_TYPES)):
        notices = [t for t in lines(file) if '"status":' in t or '"ddl":' in t]
        assert notices
        assert all(Debezium().decode(SourceLine(t), schema) == [] for t in notices)


@pytest.mark.parametrize("name", ["public.t_types", "lab.public.t_types", "t_types"])
def test_names_a_table_may_go_by(name: str) -> None:
    keyspace, _, table = name.rpartition(".")
    schema = TableSchema(keyspace, table, TYPES.columns)
    assert Debezium(DebeziumOptions(scales={"n": 4})).decode(SourceLine(lines(PG_DEFAULT)[0]), schema)


# --- order --------------------------------------------------------------------------------------------------------------


def test_a_snapshot_read_is_older_than_a_change_at_its_position() -> None:
    (snapshot,) = Debezium(DebeziumOptions(scales={"n": 4})).decode(SourceLine(lines(PG_DEFAULT)[0]), TYPES)
    assert _written(snapshot) == order_key(26912616)


def test_both_halves_of_a_key_change_survive_at_one_position() -> None:
    stream = next(s for s in POSTGRES if s.file == PG_SCHEMAS)  # without transaction metadata: one order key for both
    facts = [fact for event in decoded(stream) if isinstance(event, list) for fact in event]
    moved = next(fact for fact in facts if fact.partition == (22,))
    assert [f.partition for f in facts if _written(f) == _written(moved)] == [(2,), (22,)]
    assert _written(moved) % (1 << 32) == 1


def _written(fact: Fact) -> int:
    found = fact.liveness or fact.deletion
    assert found is not None
    return found.written


def test_binlog_order_is_file_then_position_then_row() -> None:
    def written(file: str, position: int, row: int) -> int:
        source = {"connector": "mysql", "db": "lab", "table": "t", "file": file, "pos": position, "row": row, "snapshot": "false"}
        event = {"before": None, "after": {"id": 1}, "source": source, "op": "c"}
        (fact,) = Debezium().decode(SourceLine(json.dumps(event)), _table("lab.t", {"id": Kind.INT}))
        return _written(fact)

    order = [written("bin.000002", 5, 0), written("bin.000002", 5, 1), written("bin.000002", 9, 0), written("bin.000010", 4, 0)]
    assert order == sorted(set(order))


def test_an_order_that_the_event_gives_comes_before_file_and_position() -> None:
    def written(order: Any) -> int:
        source = {"connector": "mariadb", "db": "lab", "table": "t", "file": "bin.000009", "pos": 1, "row": 0, "order": order}
        event = {"before": None, "after": {"id": 1}, "source": source, "op": "c"}
        (fact,) = Debezium().decode(SourceLine(json.dumps(event)), _table("lab.t", {"id": Kind.INT}))
        return _written(fact)

    ascending = [[0, 5, 0], [0, 5, 1], [0, 1 << 48, 0], [1, 1, 0], [1, 1, 3]]
    assert [written(order) for order in ascending] == sorted(order_key(p, ordinal=o, epoch=e) for e, p, o in ascending)
    for wrong in ([0, 5], [0, -1, 0], [1 << 30, 0, 0], "0-1-5", [0, 1, 1.5]):
        with pytest.raises(MalformedEventError, match=r"source\.order"):
            written(wrong)


def test_an_unwrapped_event_without_metadata_is_ordered_by_offset_and_else_by_line() -> None:
    def event(line: int, offset: int | None, value: Any) -> list[Fact]:
        text = json.dumps({"key": {"id": 1}, "value": value, "offset": offset})
        return Debezium().decode(SourceLine(text, line), _table("public.t", {"id": Kind.INT, "v": Kind.INT}))

    write, again, gone = event(9, 4, {"id": 1, "v": 1}), event(1, 5, {"id": 1, "v": 2}), event(2, 6, None)
    assert [_written(f[0]) for f in (write, again, gone)] == [order_key(n) for n in (4, 5, 6)]
    assert _written(event(9, None, {"id": 1})[0]) == order_key(9)
    schema = _table("public.t", {"id": Kind.INT, "v": Kind.INT})
    assert latest_rows(schema, [*write, *again], now=NOW) == [{"id": 1, "v": 2}]
    assert latest_rows(schema, [*gone, *again, *write], now=NOW) == []


def test_a_truncation_is_a_deletion_of_the_table() -> None:
    found = [f for event in decoded(POSTGRES[0], FULL) if isinstance(event, list) for f in event if f.kind is FactKind.TABLE]
    assert [fact.deletion.deleted_at for fact in found if fact.deletion] == [1795251454]


def test_an_update_that_moves_a_row_deletes_the_old_one() -> None:
    source = {"connector": "postgresql", "db": "l", "schema": "public", "table": "t", "lsn": 7}
    event = {"before": {"id": 1, "v": 1}, "after": {"id": 2, "v": 1}, "source": source, "op": "u"}
    facts = Debezium().decode(SourceLine(json.dumps(event)), _table("public.t", {"id": Kind.INT, "v": Kind.INT}))
    assert [(f.partition, f.deletion is None) for f in facts] == [((2,), True), ((1,), False)]


# --- laws ---------------------------------------------------------------------------------------------------------------

STREAMS = [*POSTGRES, Stream(PG_DEFAULT, FULL), Stream(PG_DEFAULT, NOPK), Stream(MARIADB, MARIADB_LATER, (("n", 6),))]


@pytest.mark.parametrize("stream", STREAMS, ids=lambda s: f"{s.file}-{s.schema.name}")
@settings(max_examples=15, deadline=None)
@given(at=st.randoms(use_true_random=False))
def test_any_order_and_any_repetition_give_the_same_rows(stream: Stream, at: random.Random) -> None:
    facts = [fact for event in decoded(stream) if isinstance(event, list) for fact in event]
    mixed = [*facts, *at.sample(facts, len(facts) // 2)]
    at.shuffle(mixed)
    for cut in (len(mixed), len(mixed) // 2):
        seen = latest_rows(stream.schema, mixed[:cut] + facts, now=NOW)
        assert shown(seen) == shown(latest_rows(stream.schema, facts, now=NOW))


@pytest.mark.parametrize("stream", STREAMS, ids=lambda s: f"{s.file}-{s.schema.name}")
def test_decoding_is_deterministic(stream: Stream) -> None:
    assert repr(decoded(stream)) == repr(decoded(stream))


JUNK = st.sampled_from(
    [None, True, -1, 0, 1 << 70, 1.5, "", "x", "\ud800", [], {}, [None], {"a": 1}, [[1]], "1e999999999", "\u0661", "00"]
)
FUZZED = [(text, stream) for stream in STREAMS for text in lines(stream.file)]


@settings(max_examples=10 * settings().max_examples, deadline=None)
@given(st.sampled_from(FUZZED), st.randoms(use_true_random=False), st.booleans(), JUNK)
def test_a_damaged_event_decodes_or_is_malformed(line: tuple[str, Stream], at: random.Random, drop: bool, junk: Any) -> None:
    text, stream = line
    document = json.loads(text)
    _damage(document, at, drop=drop, junk=junk)
    with suppress(MalformedEventError):
        latest_rows(stream.schema, stream.format.decode(SourceLine(json.dumps(document)), stream.schema), now=NOW)


def _damage(document: Any, at: random.Random, *, drop: bool, junk: Any) -> None:
    """Walk down a random path and drop or replace what is there."""
    parent, key = document, at.choice(sorted(document))
    while isinstance(parent[key], dict | list) and parent[key] and at.random() < 0.8:
        parent = parent[key]
        key = at.choice(sorted(parent)) if isinstance(parent, dict) else at.randrange(len(parent))
    if drop:
        del parent[key]
    else:
        parent[key] = junk


@pytest.mark.parametrize(
    "text", ["", "1", '"x"', "[]", "{", '{"key":1,"value":[]}', '{"op":"c"}', "NaN", "null", '{"schema":null,"payload":null}']
)
def test_what_is_no_event_is_malformed(text: str) -> None:
    with pytest.raises(MalformedEventError):
        Debezium().decode(SourceLine(text), TYPES)
