"""Captured Debezium streams through the command line: DDL in, events in, the source's rows out."""

from __future__ import annotations

import json
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from helpers.command_line import CommandLine, table, write_project
from helpers.debezium_rows import FULL_NINE, ONE, RETOASTED, THREE, UPDATED, Row, shown

pytestmark = pytest.mark.heavy

DATA = Path(__file__).parents[1] / "data"
DEFAULT = "debezium_pg_default"
SCHEMAS = "debezium_pg_schemas_enabled"
TEXTS = "debezium_pg_decimal_string_time_isostring_binary_hex"
FLAT = "debezium_pg_ExtractNewRecordState"
POSTGRES = [DEFAULT, SCHEMAS, TEXTS, FLAT]


# what the modes of a connector themselves change: see its fidelity report
_MODES: dict[str, dict[int, Row]] = {
    TEXTS: {1: {"iv": "P0Y0M1DT2H3M4S"}, 2: {"iv": "P0Y-1M1DT0H0M0S", "tm": "00:00:00.000000000"}},
    FLAT: {1: {"ts": "2024-01-02 03:04:05.123000", "n_unb": Decimal("1.0E+20")}, 2: {"n_unb": Decimal("1.2345678901234568E+29")}},
}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """The command line in an empty folder that has the DDL of the streams."""
    monkeypatch.chdir(tmp_path)
    for source in ("debezium/postgres_schema.sql", "debezium/mariadb_schema.sql"):
        Path(Path(source).name).write_text((DATA / source).read_text())
    return CommandLine(capsys)


def postgres(name: str = "t_types", **more: Any) -> str:
    """Write a project of one PostgreSQL table and return its name."""
    write_project(table(f"public.{name}", "postgres_schema.sql", **more))
    return f"public.{name}"


def lines_of(file: str, name: str = "") -> list[str]:
    """The lines of a stream; with a table's name, its own and those of no table."""
    found = (DATA / "debezium" / f"{file}.jsonl").read_text().splitlines()
    topics = {line: json.loads(line)["destination"] for line in found}
    return [line for line in found if not name or topics[line].count(".") < 2 or topics[line].endswith(f".{name}")]


def as_sent(file: str, row: Row) -> Row:
    """A row as a connector in that stream's modes sends it."""
    changes = _MODES.get(file, {}).get(1 if row["id"] == 1 else 2, {})
    return {**row, **{name: value for name, value in changes.items() if row[name] is not None}}


@pytest.mark.parametrize("file", POSTGRES)
def test_postgres_rows_at_the_end_of_a_stream(run: CommandLine, file: str) -> None:
    name = postgres()
    own = [line for line in lines_of(file, "t_types") if '"vc2":"renamed"' not in line]
    assert run.land(name, *own).code == 0
    assert shown(run.query(name)) == shown([as_sent(file, ONE)])


@pytest.mark.parametrize("file", POSTGRES)
def test_postgres_rows_before_and_after_a_key_changes(run: CommandLine, file: str) -> None:
    name = postgres()
    own = [line for line in lines_of(file, "t_types") if '"status"' not in line]
    assert run.land(name, *own[:4]).code == 0
    before = [as_sent(file, row) for row in (ONE, UPDATED, THREE)]
    assert shown(run.query(name)) == shown(before)
    retoasted = next(i for i, line in enumerate(own) if "VVVV" in line)
    assert run.land(name, *own[: retoasted + 1]).code == 0
    after = [as_sent(file, row) for row in (ONE, THREE, RETOASTED)]
    assert shown(run.query(name)) == shown(after)


@pytest.mark.parametrize("file", POSTGRES)
def test_order_and_repetition_do_not_matter(run: CommandLine, file: str) -> None:
    name = postgres()
    own = [line for line in lines_of(file, "t_types") if '"vc2":"renamed"' not in line]
    late = next(i for i, line in enumerate(own) if "VVVV" in line) + 1
    mixed = [*own[:late], *own[: late // 2]]
    random.Random(5).shuffle(mixed)
    assert run.land(name, *mixed).code == 0
    expected = shown([as_sent(file, row) for row in (ONE, THREE, RETOASTED)])
    assert shown(run.query(name)) == expected
    assert run.land(name, *own[:late], file="again.jsonl").code == 0
    assert shown(run.query(name)) == expected


def test_landing_a_file_twice_lands_it_once(run: CommandLine) -> None:
    name = postgres()
    own = lines_of(TEXTS, "t_types")[:4]
    run.land(name, *own)
    again = run("land", "debezium", "events.jsonl", "--table", name, "--format", "jsonl").rows[0]
    assert (again["events"], again["skipped_bytes"]) == (0, Path("events.jsonl").stat().st_size)


def test_a_stream_of_several_tables_quarantines_the_others_events_and_lands_its_own(run: CommandLine) -> None:
    name = postgres()
    answer = run.land(name, *lines_of(TEXTS))
    assert answer.code == 1
    assert "an event of table public.t_full, where public.t_types was expected" in answer.err
    assert shown(run.query(name)) == shown([as_sent(TEXTS, ONE)])


@pytest.mark.parametrize("file", POSTGRES)
def test_full_identity_a_transaction_a_truncation_and_a_new_column(run: CommandLine, file: str) -> None:
    name = postgres("t_full")
    own = lines_of(file, "t_full")
    with_new_column = [line for line in own if '"extra"' in line]
    older = [line for line in own if line not in with_new_column]
    assert run.land(name, *older).code == 0
    updated = {"id": 1, "v": "upd", "toast": "FFFFFFFFFFFF...CUT"}
    survivors = [updated] if file == FLAT else []  # an unwrapped stream drops truncations
    assert run.query(name) == survivors
    answer = run.land(name, *with_new_column, file="later.jsonl")
    assert answer.code == 1
    assert "update the schema" in answer.err
    ddl = Path("postgres_schema.sql")
    ddl.write_text(ddl.read_text() + "alter table t_full add column extra int;\n")
    assert run("replay", name).code == 0
    assert run.query(name) == [*({**row, "extra": None} for row in survivors), FULL_NINE]


def test_toast_that_a_key_change_leaves_out_is_null_until_it_is_sent_again(run: CommandLine) -> None:
    name = postgres()
    own = lines_of(SCHEMAS, "t_types")
    moved = next(i for i, line in enumerate(own) if '"op":"c"' in line and '"id":22' in line)
    run.land(name, *own[: moved + 1])
    assert [row["toast"] for row in run.query(name)] == ["TTTTTTTTTTTT...CUT", None, None]
    run.land(name, *own[: moved + 2])
    assert [row["toast"] for row in run.query(name)] == ["TTTTTTTTTTTT...CUT", None, "VVVVVVVVVVVV...CUT"]


def test_an_update_keeps_toast_that_it_leaves_out(run: CommandLine) -> None:
    name = postgres()
    run.land(name, *[line for line in lines_of(DEFAULT, "t_types") if '"status"' not in line][:4])
    assert run.query(name, "--where", "id = 2", "--columns", "toast", "--columns", "t") == [
        {"toast": "UUUUUUUUUUUU...CUT", "t": "upd"}
    ]


def test_options_say_what_a_schema_file_without_scales_cannot(run: CommandLine) -> None:
    ddl = Path("postgres_schema.sql")
    ddl.write_text(ddl.read_text().replace("numeric(12,4)", "numeric"))
    name = postgres()
    own = [line for line in lines_of(DEFAULT, "t_types") if '"status"' not in line][:4]
    answer = run.land(name, *own)
    assert answer.code == 1
    assert "declare the column's scale" in answer.err
    postgres(raw={"options": {"scales": {"n": 4}, "units": {"tm": "micros", "ts": "micros"}, "binary": "base64"}})
    assert run("replay", name).code == 0
    assert shown(run.query(name)) == shown([ONE, UPDATED, THREE])


def test_mariadb_rows(run: CommandLine) -> None:
    write_project(table("lab.t_types", "mariadb_schema.sql"))
    one: Row = {
        "id": 1, "ubig": (1 << 64) - 1, "tiny1": 1, "tiny": -5, "n": Decimal("-12345.678900"), "f": Decimal("1.5"),
        "d": Decimal("2.5"), "b1": True, "b8": "0x0102", "vc": "snap ☃😀", "lat": "é", "txt": "txt", "bin": "0x00ff",
        "bl": "0xdeadbeef", "dt": "2024-02-29", "tm": "-12:34:56.789000000", "dtm": "2024-01-02 03:04:05.123456",
        "ts": "2024-01-02 03:04:05.123456Z", "y": 2024, "en": "b", "st": "x,z", "js": {"a": [1, 2]},
        "uu": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "ip": "::1", "gen": -10,
        "pt": "0x0101000000000000000000f03f0000000000000040",
    }  # fmt: skip
    moved: Row = {
        **one, "id": 22, "tiny1": 0, "n": Decimal("1.000001"), "b1": False, "b8": "0x0100", "vc": "upd", "dt": "1000-01-01",
        "tm": "838:59:59.000000000", "dtm": "9999-12-31 23:59:59.999999", "ts": "1970-01-01 00:00:01Z", "y": 1901, "en": "c",
        "st": "", "js": {"a": Decimal("1.0")}, "uu": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a12", "ip": "10.0.0.1", "pt": None,
    }  # fmt: skip
    four: Row = {**dict.fromkeys(one), "id": 4, "extra": 7, "txt2": "r"}
    own = lines_of("debezium_mariadb_default", "t_types")
    altered = next(i for i, line in enumerate(own) if '"extra"' in line)
    assert run.land("lab.t_types", *own[:altered]).code == 0
    assert shown(run.query("lab.t_types")) == shown([one, moved])
    # renaming `txt` is told to the schema file as one column more: earlier events keep their name
    ddl = Path("mariadb_schema.sql")
    ddl.write_text(
        ddl.read_text() + "alter table lab.t_types add column extra int; alter table lab.t_types add column txt2 text;\n"
    )
    assert run.land("lab.t_types", *own).code == 0
    assert shown(run.query("lab.t_types")) == shown([{**one, "extra": None, "txt2": None}, four])


CQL = """\
CREATE TYPE ks.addr (street text, zip int);
CREATE TABLE ks.d (pk int, ck1 int, ck2 text, st text static, b blob, big bigint, bo boolean, d decimal, fl frozen<list<int>>,
  fu addr, l list<int>, m map<text, int>, se set<text>, ts timestamp, u uuid, v int, w text, PRIMARY KEY (pk, ck1, ck2));
CREATE TABLE ks.kv2 (k text PRIMARY KEY, n int, v text);
"""
BEFORE_EXPIRY = ("--as-of", "1795251720")


def cassandra_events() -> list[str]:
    """The events of all samples in the order of the commit log."""
    samples = [json.loads(path.read_text()) for path in (DATA / "debezium_cassandra").glob("*.json")]
    events = [event for sample in samples for event in sample.get("debezium_events", [])]
    return [json.dumps(event) for event in sorted(events, key=lambda event: event["value"]["source"]["pos"])]


def cassandra(run: CommandLine, name: str, *, until: str = "") -> list[str]:
    """Land the events of one table up to the first that holds `until`; returns what was landed."""
    Path("schema.cql").write_text(CQL)
    write_project(*(table(each, "schema.cql", "debezium-cassandra") for each in ("ks.d", "ks.kv2")))
    own = [line for line in cassandra_events() if f'"topic": "lab.{name}"' in line]
    if until:
        own = own[: next(i for i, line in enumerate(own) if until in line)]
    assert run.land(name, *own, format="debezium-cassandra").code == 0
    return own


def test_cassandra_rows_at_the_end_of_the_stream(run: CommandLine) -> None:
    own = cassandra(run, "ks.d")
    nothing = dict.fromkeys(("st", "b", "big", "bo", "d", "fl", "fu", "l", "m", "se", "ts", "u"))
    expected = [
        {"pk": 2, "ck1": 1, "ck2": "x", **nothing, "v": 1, "w": "mix"},
        # (3, 1, 'x') was deleted and inserted in one batch, of which Debezium emits the deletion alone: UNSAFE
        {"pk": 4, "ck1": 2, "ck2": "lwt", **nothing, "v": 1, "w": None},
        {"pk": 5, "ck1": 1, "ck2": "pkonly", **nothing, "v": None, "w": None},
    ]
    assert run.query("ks.d") == expected
    mixed = [*own, *own[::2]]
    random.Random(7).shuffle(mixed)
    run.land("ks.d", *mixed, format="debezium-cassandra", file="again.jsonl")
    assert run.query("ks.d") == expected


def test_cassandra_rows_before_the_deletions(run: CommandLine) -> None:
    cassandra(run, "ks.d", until='"op": "d"')
    found = {row["ck1"]: row for row in run.query("ks.d", *BEFORE_EXPIRY)}
    assert {ck1: (row["v"], row["w"]) for ck1, row in found.items()} == {
        1: (11, None), 2: (20, "ttl"), 3: (None, None), 4: (None, None), 5: (5, None),
    }  # fmt: skip
    assert (found[3]["m"], found[3]["fl"]) == ({"a": 5, "z": 26}, [9, 8])
    types = {name: found[4][name] for name in ("ts", "big", "b", "u", "bo")}
    assert types == {
        "ts": "2024-01-02 03:04:05.678Z", "big": 9007199254740993, "b": "0xcafe", "bo": True,
        "u": "123e4567-e89b-12d3-a456-426614174000",
    }  # fmt: skip
    later = {row["ck1"]: row["w"] for row in run.query("ks.d", "--as-of", "1795338200")}
    assert later == {1: None, 3: None, 4: None, 5: None}  # the TTLs of row 2 ran out


def test_cassandra_events_of_another_table_are_quarantined(run: CommandLine) -> None:
    cassandra(run, "ks.kv2", until='"op": "d"')
    assert run.query("ks.kv2") == [{"k": "k1", "n": 1, "v": "v"}]
    answer = run.land("ks.kv2", *cassandra_events(), format="debezium-cassandra", file="all.jsonl")
    assert answer.code == 1
    assert "an event of table ks.d, where ks.kv2 was expected" in answer.err
    assert run.query("ks.kv2") == []


def test_key_value_rows_by_offset(run: CommandLine) -> None:
    Path("schema.yml").write_text(
        "table: shop.prices\ncolumns: {sku: text, price: 'decimal(12,2)', at: instant, tags: json}\nprimary_key: [sku]\n"
    )
    write_project(table("shop.prices", "schema.yml", "key-value"))

    def event(offset: int, sku: str, value: Any) -> str:
        return json.dumps({"key": {"sku": sku}, "value": value, "topic": "prices", "partition": 0, "offset": offset})

    events = [
        event(10, "a", {"sku": "a", "price": "1.50", "at": "2024-01-02T03:04:05.5+01:00", "tags": '{"x": [1]}'}),
        event(11, "b", {"sku": "b", "price": 2.5, "at": None, "tags": None}),
        event(12, "c", {"sku": "c", "price": "AN4="}),
        event(13, "b", None),
        event(14, "a", {"sku": "a", "price": "1.75", "at": "2024-01-02T03:04:05.5+01:00", "tags": None}),
    ]
    random.Random(3).shuffle(events)
    assert run.land("shop.prices", *events, events[0], format="key-value").code == 0
    assert shown(run.query("shop.prices")) == shown(
        [
            {"sku": "a", "price": Decimal("1.75"), "at": "2024-01-02 02:04:05.500000Z", "tags": None},
            {"sku": "c", "price": Decimal("2.22"), "at": None, "tags": None},
        ]
    )
    ambiguous = event(15, "d", {"sku": "d", "price": "1234"})
    answer = run.land("shop.prices", ambiguous, format="key-value", file="more.jsonl")
    assert answer.code == 1
    assert "also the base64 of another one" in answer.err
