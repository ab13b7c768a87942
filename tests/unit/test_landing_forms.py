"""Many events at once: rows and quarantine are the same as one by one, and ordinary events are read at once."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from random import Random
from typing import Any

import pytest
from deltalake import DeltaTable
from helpers.debezium_texts import Texts, schema
from hypothesis import given, settings
from hypothesis import strategies as st

from cdc_views.formats.base import SourceLine
from cdc_views.formats.debezium.format import Debezium
from cdc_views.landing import Position, StreamEvent, StreamLander, formed, land, quarantine_location, tokens
from cdc_views.landing.denylist import Denylist, Entry
from cdc_views.landing.formed import FormReader
from cdc_views.model.schema import TableSchema
from cdc_views.schemas import read_schema
from cdc_views.storage.relation import RawTable, Relation

NOW = datetime(2026, 11, 22, tzinfo=timezone.utc)
SAMPLES = Path(__file__).parents[1] / "data" / "debezium"


class OneByOne(Debezium):
    """The format without forms: what defines how events are read."""

    has_forms = False


def reader(table: TableSchema) -> FormReader:
    return FormReader(Relation(table, Debezium.order), Debezium())


def taken(found: FormReader, contents: Sequence[bytes]) -> list[int]:
    """Read events; the indexes of those that were read at once, whose rows are as those of the decoder."""
    indexes: list[int] = []
    for part in found.read(contents, lines=range(1, len(contents) + 1), landed_at=7):
        part.table.validate(full=True)
        decoded = [found.format.decode(SourceLine(contents[i].decode(), i + 1), found.relation.schema) for i in part.events]
        assert [len(facts) for facts in decoded] == [1] * len(decoded)
        expected = found.relation.rows([facts[0] for facts in decoded], landed_at=7)
        assert part.table.schema.equals(expected.schema)
        assert repr(part.table.to_pylist()) == repr(expected.to_pylist())  # which tells -0.0 from 0.0
        indexes += part.events
    return sorted(indexes)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_rows_of_random_events_are_those_of_the_decoder(seed: int) -> None:
    rng = Random(seed)
    table = schema(rng)
    found = reader(table)
    for _ in range(2):
        taken(found, Texts(table, rng).batch(30))


@pytest.mark.slow
@settings(max_examples=3000, deadline=None)
@given(st.integers(0, 2**32))
def test_rows_of_many_random_events_are_those_of_the_decoder(seed: int) -> None:
    rng = Random(seed)
    table = schema(rng)
    taken(reader(table), Texts(table, rng, oddness=rng.choice([0.0, 0.05, 0.3])).batch(60))


def landed(folder: Path, table: TableSchema, contents: Sequence[bytes], format: Debezium) -> tuple[list[str], list[str]]:
    """Land events from a stream; what the raw table and its quarantine hold, printed."""
    raw = RawTable(str(folder), Relation(table, Debezium.order))
    lander = StreamLander(raw, format, "s")
    for start in (0, len(contents) // 2):
        part = [StreamEvent(Position(i), content) for i, content in enumerate(contents)][start : start + len(contents) // 2]
        lander.land(part, through=part[-1].position, now=NOW)
    return shown(raw.location), shown(quarantine_location(raw))


def shown(location: str) -> list[str]:
    if not DeltaTable.is_deltatable(location):
        return []
    return [repr(row) for row in DeltaTable(location).to_pyarrow_table().to_pylist()]


@settings(max_examples=4, deadline=None)
@given(st.integers(0, 2**32))
def test_a_stream_lands_the_same_rows_in_the_same_order_and_quarantines_the_same(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    rng = Random(seed)
    table = schema(rng)
    contents = Texts(table, rng, decay=0.1).batch(40)
    folder = tmp_path_factory.mktemp("forms")
    assert landed(folder / "at_once", table, contents, Debezium()) == landed(folder / "single", table, contents, OneByOne())


@settings(max_examples=4, deadline=None)
@given(st.integers(0, 2**32))
def test_files_land_the_same_rows_and_quarantine_the_same(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    rng = Random(seed)
    table = schema(rng)
    folder = tmp_path_factory.mktemp("forms")
    file = folder / "events.jsonl"
    file.write_bytes(b"\n".join(Texts(table, rng, decay=0.1).batch(40)))
    found = []
    for name, format in (("at_once", Debezium()), ("single", OneByOne())):
        raw = RawTable(str(folder / name), Relation(table, Debezium.order))
        report = land(raw, format, [file], now=NOW, batch_rows=15)
        # commits may end elsewhere where events tell of two rows
        found.append((report, sorted(shown(raw.location)), sorted(shown(quarantine_location(raw)))))
    assert found[0] == found[1]


ORDERS_DDL = """CREATE TABLE public.orders (id bigint PRIMARY KEY, note text, paid boolean, amount numeric(12,2),
 placed timestamptz, weight double precision, ref uuid, day date, small smallint);"""


@pytest.fixture
def orders(tmp_path: Path) -> TableSchema:
    (tmp_path / "orders.sql").write_text(ORDERS_DDL)
    return read_schema(tmp_path / "orders.sql", table="public.orders", keyspace="public")


def written(number: int, *, op: str = "c", **columns: str) -> bytes:
    """An event as the PostgreSQL producer writes it."""
    row = {
        "id": str(number),
        "note": f'"n{number} \\"x\\" ☃"' if number % 3 else "null",
        "paid": "true",
        "amount": f"{number}.50",
        "placed": '"2024-01-02 03:04:05.123456+00"',
        "weight": "0.1",
        "ref": '"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"',
        "day": '"2024-02-29"',
        "small": str(number % 1000),
    } | columns
    image = "{" + ",".join(f'"{name}":{text}' for name, text in row.items()) + "}"
    before, after = (f'{{"id":{number}}}', "null") if op == "d" else ("null", image)
    source = (
        '{"connector":"postgresql","name":"s","db":"d","schema":"public","table":"orders","ts_ms":1795251447213,'
        f'"snapshot":"false","txId":7,"lsn":{number * 100}}}'
    )
    transaction = f'{{"id":"7:1","total_order":{number}}}'
    return f'{{"before":{before},"after":{after},"source":{source},"transaction":{transaction},"op":"{op}","ts_ms":5}}'.encode()


def test_ordinary_events_are_read_at_once(orders: TableSchema) -> None:
    found = reader(orders)
    contents = [written(number, op="ccud"[number % 4]) for number in range(1, 401)]
    assert len(taken(found, contents)) >= 400 - 3 * 2  # three forms, each learned from its third event
    assert taken(found, contents) == list(range(400))


def test_rows_that_were_inserted_and_updated_are_of_one_form(orders: TableSchema) -> None:
    found = reader(orders)
    contents = [written(number, op="cu"[number % 2]) for number in range(1, 41)]
    parts = found.read(contents, lines=range(1, 41), landed_at=7)
    assert [part.events for part in parts] == [list(range(2, 40))]
    assert taken(found, [*contents, written(41, op="r"), written(42, op="x")]) == list(range(40))
    unwrapped = [kafka(number, flat(number).replace('"__op":"c"', f'"__op":"{"cu"[number % 2]}"')) for number in range(1, 41)]
    assert [part.events for part in reader(orders).read(unwrapped, lines=range(40), landed_at=7)] == [list(range(2, 40))]


def test_every_sample_of_debezium_without_nested_values_is_read_at_once() -> None:
    table = read_schema(SAMPLES / "postgres_schema.sql", table="public.t_full", keyspace="public")
    for name in ("default", "schemas_enabled", "decimal_string_time_isostring_binary_hex"):
        lines = (SAMPLES / f"debezium_pg_{name}.jsonl").read_bytes().splitlines()
        mine = [line for line in lines if b'"table":"t_full"' in line]
        found = reader(table)
        taken(found, mine * 3)
        assert len(taken(found, mine)) >= len(mine) - 2  # a truncation and an update of the key are read one by one


def kafka(number: int, value: str, key: str | None = None) -> bytes:
    place = f'"topic":"lab.public.orders","partition":{number % 3},"offset":{number},"timestamp":1795251447213'
    named = f'{{"id":{number}}}' if key is None else key
    return f'{{{place},"key":{named},"value":{value}}}'.encode()


def flat(number: int) -> str:
    return f'{{"id":{number},"note":"n","paid":null,"__op":"c","__table":"orders","__lsn":{number * 9},"__source_txId":{number}}}'


@pytest.mark.parametrize(
    "contents",
    [
        [kafka(number, "null") for number in range(1, 21)],
        [kafka(number, "null", str(number)) for number in range(1, 21)],
        [kafka(number, flat(number)) for number in range(1, 21)],
        [flat(number).replace('"c"', '"c","__deleted":"true"').encode() for number in range(1, 21)],
        [kafka(number, written(number).decode()) for number in range(1, 21)],
    ],
    ids=["tombstones", "tombstones of a scalar key", "unwrapped", "unwrapped deletions of a file", "envelopes"],
)
def test_what_else_is_read_at_once(orders: TableSchema, contents: list[bytes]) -> None:
    found = reader(orders)
    assert taken(found, contents) == list(range(2, 20))
    assert taken(found, contents) == list(range(20))


def test_arrays_and_values_that_were_not_sent_are_read_at_once() -> None:
    table = read_schema(SAMPLES / "postgres_schema.sql", table="public.t_types", keyspace="public")
    for name in ("default", "schemas_enabled", "ExtractNewRecordState"):
        lines = (SAMPLES / f"debezium_pg_{name}.jsonl").read_bytes().splitlines()
        mine = [line for line in lines if b"t_types" in line and b'"ai":[' in line and b"vc2" not in line]
        found = reader(table)
        taken(found, mine * 12)  # forms differ by what is null, and values by what they look like
        assert taken(found, mine) == list(range(len(mine)))


@pytest.mark.parametrize(
    ("column", "text"),
    [
        ("id", "null"),
        ("id", "9223372036854775808"),
        ("small", "32768"),
        ("amount", '"NaN"'),
        ("placed", '"infinity"'),
        ("day", '"2024-02-30"'),
        ("ref", '"a0eebc99"'),
        ("note", '"__debezium_unavailable_value"'),
        ("note", '"\\ud800"'),
        ("note", '"a","note":"b"'),
        ("note", '"a","other":"b"'),
        ("weight", "1e400"),
    ],
)
def test_an_odd_value_costs_its_own_event_at_most(orders: TableSchema, column: str, text: str) -> None:
    found = reader(orders)
    contents = [written(number) for number in range(1, 21)]
    taken(found, contents)
    contents[10] = written(11, **{column: text})
    assert set(taken(found, contents)) >= set(range(20)) - {10}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"op":"c"', b'"op":"c","op":"c"'),
        (b'"op":"c"', b'"op" :"c","note":":","op":"c"'),
        (b'"note":"n7', b'"note":":","note":"n7'),
        (b'"note":"n7', b'"note":"a\\":","note":"n7'),
        (b'"note":"n7', b'"note" :"\\":","note":"n7'),
        (b'"note":"n7', b'"note":"x","n\\u006fte":"n7'),
        (b'"txId":7', b'"txId":7,"txId":7'),
        (b'"txId":7', b'"txId":{"a":1,"a":2}'),
        (b'"txId":7', b'"txId":1e99999999999999999999'),
        (b'"txId":7', b'"txId":' + b"[" * 990 + b"]" * 990),
        (b'"txId":7', b'"txId":NaN'),
        (b'"txId":7', b'"txId":"\xff"'),
        (b'"txId":7', b'"txId":"\xed\xa0\x80"'),
        (b'"txId":7', b'"txId":"\x01"'),
        (b'"amount":7.50', b'"amount":"\xff"'),
        (b'"amount":7.50', b'"amount":1e99999999999999999999'),
        (b'"lsn":700', b'"lsn":-0'),
        (b'"total_order":7', b'"total_order":7.0'),
        (b'"op":"c"', b'"op":"c","odd":1'),
        (b'{"before"', b'\xef\xbb\xbf{"before"'),
        (b'"ts_ms":5}', b'"ts_ms":5}{}'),
        (b'"ts_ms":5}', b'"ts_ms":5}x'),
    ],
)
def test_text_that_another_parser_may_take_is_left_to_the_decoder(orders: TableSchema, old: bytes, new: bytes) -> None:
    found = reader(orders)
    contents = [written(number) for number in range(1, 21)]
    taken(found, contents)
    contents[6] = written(7, note='"n7"').replace(old, new)
    assert new in contents[6]
    assert taken(found, contents) == [index for index in range(20) if index != 6]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"n7"', b'"{\\"a\\":1,\\"a\\":2}"'),
        (b'"n7"', b'": a"'),
        (b'"n7"', b'" :"'),
        (b'"n7"', b'"\\\\"'),
        (b'"note":', b'"n\\u006fte" : '),
        (b'"txId":7', b'\n"txId":\t7.5e1'),
        (b'"txId":7', b'"txId":[null,"\\u0041"]'),
        (b'"amount":7.50', b'"amount":{"scale":2,"value":"/w=="}'),
    ],
)
def test_ordinary_json_of_any_spelling_is_read_at_once(orders: TableSchema, old: bytes, new: bytes) -> None:
    found = reader(orders)
    contents = [written(number) for number in range(1, 21)]
    taken(found, contents)
    contents[6] = written(7, note='"n7"').replace(old, new)
    assert new in contents[6]
    assert taken(found, contents) == list(range(20))


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32))
def test_damaged_text_is_read_as_the_decoder_reads_it_or_left_to_it(seed: int) -> None:
    rng = Random(seed)
    table = schema(rng)
    found, contents = reader(table), Texts(table, rng, decay=0.0).batch(20)
    found.read(contents, lines=range(1, 21), landed_at=7)
    for index, content in enumerate(contents):
        at, size = rng.randrange(len(content)), rng.choice([0, 0, 1, 5])
        part = rng.choice([b'"', b":", b" ", b"\\", b"{", b"0", b"-", b'"op":"c",', b"\xc3", b"\x00", content[at - 9 : at]])
        contents[index] = content[:at] + part + content[at + size :]
    taken(found, contents)


def test_the_property_fails_where_a_conversion_is_wrong(orders: TableSchema, monkeypatch: pytest.MonkeyPatch) -> None:
    found = reader(orders)
    contents = [written(number) for number in range(1, 21)]
    taken(found, contents)
    right = tokens._scale_bytes
    monkeypatch.setattr(tokens, "_scale_bytes", lambda scale: right(scale + 1))
    with pytest.raises(AssertionError):
        taken(found, contents)


def test_a_form_that_reads_its_sample_otherwise_than_the_decoder_is_not_used(
    orders: TableSchema, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = tokens._scale_bytes
    monkeypatch.setattr(tokens, "_scale_bytes", lambda scale: right(scale + 1))
    assert taken(reader(orders), [written(number) for number in range(1, 21)]) == []


def test_no_more_forms_are_learned_than_are_tried(orders: TableSchema) -> None:
    found = reader(orders)
    for left_out in range(100):
        text = written(1).decode().replace('"txId"', f'"x{left_out}"')
        found.read([text.encode()] * 4, lines=[1] * 4, landed_at=0)
    assert len(found._forms) == formed._MOST_FORMS


def test_a_long_event_is_read_with_the_others(orders: TableSchema) -> None:
    found = reader(orders)
    contents = [written(number) for number in range(1, 6)]
    contents[4] = written(5, note=f'"{"x" * (1 << 20)}"')
    assert taken(found, contents) == [2, 3, 4]


def test_where_keys_were_forgotten_events_are_looked_at_one_by_one(
    orders: TableSchema, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any, **__: Any) -> None:
        raise AssertionError("read at once")

    monkeypatch.setattr(FormReader, "read", refused)
    forgotten = Denylist(tmp_path / "f.jsonl", secret=b"s", entries={("row", "key"): Entry("key", "row", 1)})
    raw = RawTable(str(tmp_path / "raw"), Relation(orders, Debezium.order))
    lander = StreamLander(raw, Debezium(), "s", forgotten)
    monkeypatch.setattr(Denylist, "is_current", lambda self: True)
    report = lander.land([StreamEvent(Position(1), written(1))], through=Position(1), now=NOW)
    assert report.events == 1
