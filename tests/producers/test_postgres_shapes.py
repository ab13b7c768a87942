"""Changes of PostgreSQL's tables that its log has nothing of: read again, or told and kept in mind."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cdc_producers.postgres.catalog import PostgresColumn, PostgresTable, Storage
from cdc_producers.postgres.shapes import Difference, Partitions, Shapes
from cdc_producers.source import Emitted
from helpers.captured import Said
from helpers.command_line import CommandLine
from helpers.kept_positions import Table
from helpers.postgres_views import wait_until_landed
from helpers.producing import Producer, eventually
from services.postgres import Postgres

from cdc_views.errors import UsageError

PARTS = tuple(Storage(number, f"public.p{number}", f"public.p{number}", number, False, frozenset({"id"}), 7) for number in (1, 2))
ALL_REWRITTEN = tuple(replace(part, file=9, is_fresh=True) for part in PARTS)
COLUMNS = (PostgresColumn(1, "id", 23, -1, 7), PostgresColumn(2, "v", 25, -1, 7))
TABLE = PostgresTable(
    9, "public", "p", COLUMNS, ("id",), frozenset({"id"}), 0, is_partitioned=True, storages=PARTS
)  # fmt: skip
PLAIN = replace(TABLE, is_partitioned=False, storages=(replace(PARTS[0], number=9, attached=0),))


def columns(**changes: Any) -> tuple[PostgresColumn, ...]:
    return (COLUMNS[0], replace(COLUMNS[1], **changes))


def part(**changes: Any) -> tuple[Storage, ...]:
    return (PARTS[0], replace(PARTS[1], **changes))


def noted(table: PostgresTable) -> Any:
    """Targets that have landed what is noted of a table."""
    targets: Any = {"p": Table()}
    items: list[Emitted] = []
    Shapes("s", targets).note("p", table, lsn=5, emit=items.append)
    for item in items:
        targets["p"].lander(item.stream).land([], through=item.position, now=None)
    return targets


@pytest.mark.parametrize(
    ("table", "now", "found"),
    [
        (TABLE, {}, Difference()),
        (TABLE, {"columns": columns(name="renamed")}, Difference(("renamed",), is_noted=False)),
        (TABLE, {"columns": columns(type_id=23)}, Difference(("v",), is_noted=False)),
        (PLAIN, {"columns": columns(written=8)}, Difference(is_noted=False)),
        (PLAIN, {"storages": (replace(PLAIN.storages[0], file=3),)}, Difference(is_noted=False)),
        (
            PLAIN,
            {"columns": columns(written=8), "storages": (replace(PLAIN.storages[0], file=3),)},
            Difference(("v",), is_noted=False),
        ),
        (TABLE, {"columns": COLUMNS[:1]}, Difference()),
        (TABLE, {"columns": columns(type_id=20), "storages": ALL_REWRITTEN}, Difference(("v",), is_noted=False)),
        (
            TABLE,
            {"columns": columns(name="w"), "storages": part(file=8, is_fresh=True)},
            Difference(("w",), emptied=("public.p2",), is_noted=False),
        ),
        (TABLE, {"storages": PARTS[:1]}, Difference(has_gone=True)),
        (TABLE, {"storages": part(attached=8)}, Difference(has_gone=True)),
        (
            TABLE,
            {"storages": (*PARTS, replace(PARTS[0], number=3))},
            Difference(came=(replace(PARTS[0], number=3),), is_noted=False),
        ),
        (TABLE, {"storages": part(file=8, is_fresh=True)}, Difference(emptied=("public.p2",), is_noted=False)),
        (TABLE, {"storages": part(file=8)}, Difference(rewritten=("public.p2",), is_noted=False)),
    ],
)
@pytest.mark.parametrize("is_restarted", [False, True])
def test_what_differs_shows_while_it_runs_and_after_a_restart(
    table: PostgresTable, now: dict[str, Any], found: Difference, is_restarted: bool
) -> None:
    targets = noted(table)
    shapes = Shapes("s", targets)
    if not is_restarted:
        assert shapes.difference("p", table) == Difference()
    assert shapes.difference("p", replace(table, **now)) == found


def test_what_stays_unread_stays_different() -> None:
    targets = noted(TABLE)
    now = replace(TABLE, columns=columns(name="renamed"), storages=(replace(PARTS[1], file=8, is_fresh=True),))
    shapes, items = Shapes("s", targets), list[Emitted]()
    found = shapes.difference("p", now)
    shapes.note("p", now, lsn=6, unread=found, emit=items.append)
    assert shapes.difference("p", now) == found
    shapes.note("p", now, lsn=6, emit=items.append)
    assert shapes.difference("p", now) == Difference()


def test_rows_of_partitions_that_were_emptied_or_went_are_kept_where_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cdc_producers.postgres.shapes.current_lsn", lambda _: 1)
    for now in (replace(TABLE, storages=part(file=8, is_fresh=True)), replace(TABLE, storages=PARTS[:1])):
        found = Shapes("s", noted(TABLE)).difference("p", now)
        keeps, tells = Partitions(True, Said()), Partitions(False, Said(), read_to=lambda: 1 << 60)
        assert (keeps.is_to_be_noted("p", found, None), keeps.accepts("p"), keeps.troubles) == (True, True, {})
        assert (tells.is_to_be_noted("p", found, None), list(tells.troubles)) == (False, ["p"])


DDL = """
CREATE TABLE public.p (id int PRIMARY KEY, v text, n numeric(10,2)) PARTITION BY RANGE (id);
CREATE TABLE public.p1 PARTITION OF public.p FOR VALUES FROM (0) TO (100);
CREATE TABLE public.p2 PARTITION OF public.p FOR VALUES FROM (100) TO (200);
CREATE TABLE public.h (id int PRIMARY KEY, v text);
CREATE TABLE public.heir () INHERITS (public.h);
"""
SCHEMA = "CREATE TABLE public.p (id int PRIMARY KEY, v text, n numeric); CREATE TABLE public.h (id int PRIMARY KEY, v text);"


@pytest.fixture
def partitioned(postgres: Postgres, run: CommandLine, tmp_path: Path) -> Iterator[Producer]:
    postgres.sql(DDL)
    (tmp_path / "schema.sql").write_text(SCHEMA)
    tables = [{"name": f"public.{name}", "schema": "schema.sql", "raw": {"format": "debezium"}} for name in "ph"]
    (tmp_path / "cdc_views.yml").write_text(json.dumps({"name": "shop", "engine": "duckdb", "tables": tables}))
    made = Producer(tmp_path, postgres.environment, ["postgres", "--confirm", "0.5"])
    yield made
    if made.is_alive:
        made.kill()


def shown(run: CommandLine) -> list[dict[str, Any]]:
    rows = sorted(run.query("public.p"), key=lambda row: int(row["id"]))
    return [row | {"n": str(row["n"])} for row in rows]


def source(postgres: Postgres, columns: str = "'id', id, 'v', v, 'n', n::text") -> list[dict[str, Any]]:
    return [row for (row,) in postgres.sql(f"SELECT json_build_object({columns}) FROM public.p ORDER BY id")]


@pytest.mark.slow
def test_what_the_log_has_nothing_of_is_read_or_told(
    partitioned: Producer, postgres: Postgres, run: CommandLine, tmp_path: Path
) -> None:
    postgres.sql(
        "INSERT INTO public.p VALUES (1, 'a', 2.55), (2, 'b', 3.45), (101, 'c', 1); INSERT INTO public.heir VALUES (1, 'x')"
    )
    postgres.sql("INSERT INTO public.h VALUES (1, 'own')")
    partitioned.start().wait_until_said("following slot")
    assert partitioned.has_said("public.h: heir inherit from it")
    # rewritten values, a partition with rows, and a TRUNCATE of the whole, which the log has
    postgres.sql("ALTER TABLE public.p ALTER n TYPE numeric(10,1), ALTER v TYPE text USING upper(v)")
    postgres.sql("CREATE TABLE public.p3 (LIKE public.p INCLUDING ALL); INSERT INTO public.p3 VALUES (201, 'old', 1)")
    postgres.sql("ALTER TABLE public.p ATTACH PARTITION public.p3 FOR VALUES FROM (200) TO (300)")
    eventually(lambda: [row["id"] for row in shown(run)] == [1, 2, 101, 201] and shown(run)[0]["v"] == "A", within=30)
    assert [row["n"] for row in shown(run)] == [row["n"] for row in source(postgres)]
    assert [row["id"] for row in run.query("public.h")] == [1]
    assert run.query("public.h")[0]["v"] == "own"
    postgres.sql("TRUNCATE public.p; INSERT INTO public.p VALUES (5, 'five', 5), (205, 'five', 5)")
    eventually(lambda: len(shown(run)) == 2, within=30)
    eventually(lambda: partitioned.log.read_text().count("following slot") >= 3, within=30)
    assert partitioned.get("/healthz")[0] == 200
    # a partition of its own
    postgres.sql("TRUNCATE public.p3")
    partitioned.wait_until_said("public.p: partitions were public.p3 emptied at the source")
    assert partitioned.get("/healthz")[0] == 503
    wait_until_landed(postgres)
    assert partitioned.stop() == 0
    # still so after a restart; a column that was renamed is read once the schema file has it
    postgres.sql("ALTER TABLE public.p RENAME v TO w")
    (tmp_path / "schema.sql").write_text(SCHEMA.replace("v text, n", "w text, n"))
    partitioned.start().wait_until_said("columns w are renamed, or rewritten")
    partitioned.wait_until_said("public.p3 emptied at the source")
    assert partitioned.stop() == 0
    assert [row["w"] for row in shown(run)] == ["five", None]  # the second is of the partition that was emptied
    partitioned.start("--snapshot-again").wait_until_said("following slot")
    wait_until_landed(postgres)
    assert partitioned.stop() == 0
    assert shown(run) == source(postgres, "'id', id, 'w', w, 'n', n::text")


@pytest.mark.live
@pytest.mark.parametrize(
    ("change", "remedy", "left"),
    [
        ("DROP TABLE public.p2", "--keep-dropped-partitions", [1, 2, 3, 101]),
        ("ALTER TABLE public.p DETACH PARTITION public.p2", "--keep-dropped-partitions", [1, 2, 3, 101]),
        ("DROP TABLE public.p2", "--snapshot-again", [1, 2, 3]),
    ],
)
def test_rows_of_a_partition_that_went_are_kept_where_that_is_asked_for(
    partitioned: Producer, postgres: Postgres, run: CommandLine, change: str, remedy: str, left: list[int]
) -> None:
    postgres.sql("INSERT INTO public.p VALUES (1, 'a', 2.55), (101, 'c', 1)")
    partitioned.start().wait_until_said("following slot")
    postgres.sql(change)
    partitioned.wait_until_said("public.p: partitions were dropped or detached")
    assert partitioned.get("/healthz")[0] == 503
    assert partitioned.stop() == 0
    # that is decided once and for all
    for number, options in ((2, [remedy]), (3, [])):
        partitioned.start(*options).wait_until_said("following slot")
        postgres.sql(f"INSERT INTO public.p VALUES ({number}, 'b', 1)")
        wait_until_landed(postgres)
        assert partitioned.get("/healthz")[0] == 200
        assert partitioned.stop() == 0
    assert [row["id"] for row in shown(run)] == left
    partitioned.start("--snapshot-again").wait_until_said("following slot")
    wait_until_landed(postgres)
    assert partitioned.stop() == 0
    assert shown(run) == source(postgres)


@pytest.mark.heavy
def test_rows_that_a_policy_hides_are_refused(postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    from cdc_producers.postgres.connections import connect, rows

    postgres.sql("CREATE TABLE public.a (id int PRIMARY KEY); ALTER TABLE public.a ENABLE ROW LEVEL SECURITY")
    postgres.sql("DROP ROLE IF EXISTS reader; CREATE ROLE reader LOGIN REPLICATION; GRANT USAGE ON SCHEMA public TO reader")
    postgres.sql("GRANT SELECT ON public.a TO reader; CREATE POLICY mine ON public.a USING (id < 3)")
    for name, value in (postgres.environment | {"PGUSER": "reader"}).items():
        monkeypatch.setenv(name, value)
    connection = connect()
    try:
        with pytest.raises(UsageError, match=r"ALTER ROLE reader BYPASSRLS$"):
            rows(connection, "SELECT id FROM public.a", doing="reading the snapshot")
        postgres.sql("ALTER ROLE reader BYPASSRLS")
        assert rows(connection, "SELECT id FROM public.a", doing="reading the snapshot") == []
    finally:
        connection.close()
        postgres.sql("DROP OWNED BY reader; DROP ROLE reader")
