"""Reading tables at a snapshot: each row once, from a key on, names as they come."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from cdc_producers.postgres import snapshots, values
from cdc_producers.postgres.catalog import PostgresTable, read_table
from cdc_producers.postgres.connections import connect
from cdc_producers.postgres.shapes import Landed
from cdc_producers.postgres.slots import exported_snapshot
from cdc_producers.postgres.snapshots import greatest, read_rows, reading
from services.postgres import Postgres

from cdc_views.landing import Position

pytestmark = pytest.mark.heavy

DDL = """CREATE TABLE public."a%b" ("k%s" text, "K ""2" int, "v%%" text, PRIMARY KEY ("k%s", "K ""2"));
INSERT INTO public."a%b"
SELECT k, i, CASE WHEN i % 3 = 0 THEN k || '%s' END FROM unnest(ARRAY['a', 'B', 'b%', '']) k, generate_series(1, 7) i;
"""
NAMES = ("k%s", 'K "2', "v%%")
DATE = 1082


@pytest.fixture
def opened(postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Any, PostgresTable]]:
    for name, value in postgres.environment.items():
        monkeypatch.setenv(name, value)
    postgres.sql(DDL)
    connection = connect()
    table = read_table(connection, "public.a%b")
    connection.close()
    with exported_snapshot("ours", is_temporary=True) as snapshot, reading(snapshot) as made:
        postgres.sql('DELETE FROM public."a%b"')
        yield made, table


@pytest.mark.parametrize("chunk_rows", [1, 3, 7, 100])
def test_each_row_is_read_once_in_the_order_of_its_key(opened: tuple[Any, PostgresTable], chunk_rows: int) -> None:
    connection, table = opened
    found = list(read_rows(connection, table, NAMES, chunk_rows=chunk_rows))
    assert [row[:2] for row in found] == [(k, str(i)) for k in ("", "B", "a", "b%") for i in range(1, 8)]
    assert {row[2] for row in found} == {None, "%s", "B%s", "a%s", "b%%s"}


@pytest.mark.parametrize("chunk_rows", [2, 100])
def test_rows_after_a_key_and_with_a_value_alone(opened: tuple[Any, PostgresTable], chunk_rows: int) -> None:
    connection, table = opened
    rest = list(read_rows(connection, table, NAMES[:2], after=("a", "6"), chunk_rows=chunk_rows))
    assert rest == [("a", "7"), *(("b%", str(i)) for i in range(1, 8))]
    part = read_rows(connection, table, NAMES, after=("B", "3"), any_set=("v%%",), chunk_rows=chunk_rows)
    assert [row[:2] for row in part] == [
        ("B", "6"), ("a", "3"), ("a", "6"), ("b%", "3"), ("b%", "6"),
    ]  # fmt: skip


def test_the_last_key_is_the_servers_to_say_and_one_that_is_gone_counts_for_nothing(opened: tuple[Any, PostgresTable]) -> None:
    connection, table = opened
    assert greatest(connection, table, [("a", "1"), ("B", "7"), ("zz", "1"), ("", "2")]) == ("a", "1")
    assert greatest(connection, table, [("zz", "1")]) is None
    assert greatest(connection, table, []) is None


@pytest.mark.parametrize(
    ("type_ids", "goes_on"),
    [
        *(((kind,), True) for kind in (values.INT2, values.INT4, values.INT8, values.TEXT, values.UUID, values.NUMERIC)),
        ((DATE,), False),
        ((values.INT4, values.UUID), True),
        ((values.INT4, DATE), False),
    ],
)
def test_a_snapshot_that_stopped_goes_on_behind_keys_of_some_types(
    type_ids: tuple[int, ...], goes_on: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "exists", lambda raw: True)
    monkeypatch.setattr(snapshots, "last_read_keys", lambda raw, **_: [("k",)])
    monkeypatch.setattr(snapshots, "greatest", lambda connection, table, keys: keys[-1])
    key = [SimpleNamespace(name=f"k{number}", type_id=type_id) for number, type_id in enumerate(type_ids)]
    lander = SimpleNamespace(raw="there")
    target: Any = SimpleNamespace(lander=lambda stream: lander, schema=SimpleNamespace(row_key=key))
    table: Any = SimpleNamespace(columns=key, primary_key=tuple(one.name for one in key))
    nothing: Any = None
    ours = snapshots.PostgresSnapshots("s", {}, nothing, nothing, nothing, nothing, nothing)
    assert ours._after(None, table, target, Landed(Position(5, 1), None)) == (("k",) if goes_on else None)


def test_values_are_as_the_server_prints_them(postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in postgres.environment.items():
        monkeypatch.setenv(name, value)
    texts = ["", "\\N", "\\", "a\tb\nc\rd\be\ff\vg", "\\x41", "\\.", "☃ %s"]
    postgres.sql('CREATE TABLE public.t (id int PRIMARY KEY, "v" text, n numeric, a text[], w timestamptz)')
    for number, text in enumerate(texts):
        postgres.sql("INSERT INTO public.t VALUES (%s, %s, 1.10, ARRAY[%s, NULL], '2026-01-01 00:00+01')", (number, text, text))
    postgres.sql("INSERT INTO public.t (id) VALUES (99)")
    connection = connect()
    table = read_table(connection, "public.t")
    connection.close()
    with exported_snapshot("ours", is_temporary=True) as snapshot, reading(snapshot) as made:
        *found, last = read_rows(made, table, ("id", "v", "n", "w"))
        assert found == [(str(i), text, "1.10", "2025-12-31 23:00:00+00") for i, text in enumerate(texts)]
        assert last == ("99", None, None, None)
        arrays = [row[1] for row in read_rows(made, table, ("id", "a"))]
    assert arrays == [row[0] for row in postgres.sql("SELECT a::text FROM public.t ORDER BY id")]
