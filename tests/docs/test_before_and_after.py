"""The README's first table: an upsert, a `MERGE` and the newest event per key lose the notes, and cdc-views does not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from helpers.command_line import CommandLine

from cdc_views.operations.examples import write_example

POSTED = "SELECT after.id, after.email, after.notes, source.lsn::BIGINT AS lsn, rowid AS line FROM events WHERE after.id = 2"
NEWEST = f"FROM ({POSTED}) QUALIFY row_number() OVER (PARTITION BY id ORDER BY lsn DESC) = 1"
LOST = ("hopper@example.org", "__debezium_unavailable_value")


@pytest.fixture
def posted(tmp_path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    write_example("postgres", tmp_path)
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE events AS FROM '{tmp_path / 'customers.jsonl'}'")
        connection.execute("CREATE TABLE customers (id INT PRIMARY KEY, email TEXT, notes TEXT, lsn BIGINT)")
        yield connection


def shown(connection: duckdb.DuckDBPyConnection) -> tuple[str, str] | None:
    return connection.execute("SELECT email, notes FROM customers WHERE id = 2").fetchone()


def test_the_connector_posted_two_events_of_the_customer_twice(posted: duckdb.DuckDBPyConnection) -> None:
    found = posted.execute("SELECT op, after.email, left(after.notes, 9) FROM events WHERE after.id = 2 ORDER BY rowid")
    assert found.fetchall() == [("r", "grace@example.org", "0: called"), ("u", LOST[0], LOST[1][:9])] * 2


def test_the_newest_event_per_key_loses_the_notes(posted: duckdb.DuckDBPyConnection) -> None:
    posted.execute(f"INSERT INTO customers SELECT id, email, notes, lsn FROM ({NEWEST})")
    assert shown(posted) == LOST


def test_an_upsert_of_each_event_in_the_order_of_the_log_loses_the_notes(posted: duckdb.DuckDBPyConnection) -> None:
    for row in posted.execute(f"SELECT id, email, notes, lsn FROM ({POSTED}) ORDER BY lsn, line").fetchall():
        posted.execute("INSERT OR REPLACE INTO customers VALUES (?, ?, ?, ?)", row)
    assert shown(posted) == LOST


def test_a_merge_that_takes_later_events_alone_loses_the_notes(posted: duckdb.DuckDBPyConnection) -> None:
    posted.execute(f"INSERT INTO customers SELECT id, email, notes, lsn FROM ({POSTED}) ORDER BY lsn, line LIMIT 1")
    posted.execute(
        f"MERGE INTO customers USING (SELECT id, email, notes, lsn FROM ({NEWEST})) AS new ON customers.id = new.id "
        "WHEN MATCHED AND new.lsn > customers.lsn THEN UPDATE WHEN NOT MATCHED THEN INSERT"
    )
    assert shown(posted) == LOST


def test_a_merge_written_by_hand_for_the_placeholder_keeps_the_notes(posted: duckdb.DuckDBPyConnection) -> None:
    posted.execute(f"INSERT INTO customers SELECT id, email, notes, lsn FROM ({POSTED}) ORDER BY lsn, line LIMIT 1")
    kept = f"CASE WHEN new.notes = '{LOST[1]}' THEN customers.notes ELSE new.notes END"
    posted.execute(
        f"MERGE INTO customers USING (SELECT id, email, notes, lsn FROM ({NEWEST})) AS new ON customers.id = new.id "
        f"WHEN MATCHED THEN UPDATE SET email = new.email, notes = {kept}, lsn = new.lsn"
    )
    email, notes = shown(posted) or ("", "")
    assert (email, notes[:9]) == (LOST[0], "0: called")


def test_a_fourth_order_was_deleted(tmp_path: Path) -> None:
    write_example("postgres", tmp_path)
    last = "SELECT coalesce(after.id, before.id) AS id, arg_max(op, source.lsn::BIGINT)"
    found = duckdb.execute(f"{last} FROM '{tmp_path / 'orders.jsonl'}' GROUP BY id ORDER BY id").fetchall()
    assert found == [(100, "u"), (101, "u"), (102, "d"), (103, "c")]


def test_each_cell_is_of_the_event_that_the_readme_names(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = CommandLine(capsys)
    monkeypatch.chdir(tmp_path)
    write_example("postgres", tmp_path)
    assert run("init", "--from", "schema.sql", "--name", "shop").code == 0
    assert run("land", "debezium", "customers.jsonl", "--table", "customers").code == 0
    explained = run("explain", "customers", "--key", '{"id": 2}', "--columns", "email,notes", "--format", "jsonl").rows
    shown = {row["column"]: (row["value"][:9], row["origins"]) for row in explained if row["outcome"] == "shown"}
    snapshot, update = ["shop 22065536"] * 2, ["shop 22065688"] * 2
    assert shown == {"email": ("hopper@ex", update), "notes": ("0: called", snapshot)}
