"""Tables that change under a producer: columns with defaults, tables made anew, snapshots that stop half way."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.command_line import CommandLine
from helpers.postgres_tables import DDL, TABLES
from helpers.postgres_views import SLOT, differences, landed_twice, wait_until_landed
from helpers.producing import Producer, ended, eventually
from services.postgres import Postgres

FULL = TABLES[1]
ADDED = "ALTER TABLE public.t_full ADD COLUMN {};\n"


def adds(postgres: Postgres, folder: Path, *columns: str, schema: str = "") -> None:
    """Add columns at the source, then to the schema file, as plain ones."""
    for column in columns:
        postgres.sql(ADDED.format(column))
    plain = schema or "".join(ADDED.format(" ".join(column.split()[:2])) for column in columns)
    file = folder / "schema.sql"
    file.write_text(file.read_text() + plain)


def rows_of(postgres: Postgres, count: int) -> None:
    postgres.sql(f"INSERT INTO {FULL} (a, b, v) SELECT 'r' || i, i % 50, 'v' || i FROM generate_series(1, {count}) i")


@pytest.mark.slow
def test_rows_show_the_default_of_a_column_that_came_later(
    producer: Producer, postgres: Postgres, run: CommandLine, tmp_path: Path
) -> None:
    rows_of(postgres, 60)
    producer.start().wait_until_said("following slot")
    wait_until_landed(postgres)
    adds(
        postgres,
        tmp_path,
        "state text NOT NULL DEFAULT 'open'",
        "dropped int DEFAULT 7",
        "plain int",
        "made int DEFAULT 1 + random()::int * 0",
    )
    postgres.sql(f"ALTER TABLE {FULL} ALTER dropped DROP DEFAULT; UPDATE {FULL} SET state = 'shut', plain = 3 WHERE b < 5")
    producer.wait_until_said(f"{FULL}: snapshot: read all")
    eventually(lambda: producer.has_said("new columns state, dropped, plain, made"))
    wait_until_landed(postgres)
    assert producer.stop() == 0
    assert run("replay", FULL).code == 0
    assert differences(postgres, run) == []
    assert {row["dropped"] for row in run.query(FULL)} == {7}


@pytest.mark.live
def test_a_column_that_takes_the_name_of_one_that_was_dropped_shows_none_of_its_values(
    producer: Producer, postgres: Postgres, run: CommandLine, tmp_path: Path
) -> None:
    rows_of(postgres, 60)
    adds(postgres, tmp_path, "state text NOT NULL DEFAULT 'open'")
    producer.start().wait_until_said("following slot")
    wait_until_landed(postgres)
    assert producer.stop() == 0
    assert {row["state"] for row in run.query(FULL)} == {"open"}
    postgres.sql(f"ALTER TABLE {FULL} DROP COLUMN state")
    postgres.sql(ADDED.format("state text"))
    producer.start().wait_until_said("new columns state")
    producer.wait_until_said("following slot")
    wait_until_landed(postgres)
    assert producer.stop() == 0
    assert differences(postgres, run) == []
    assert {row["state"] for row in run.query(FULL)} == {None}
    # nothing is read again where nothing changed
    producer.start().wait_until_said("following slot")
    assert producer.stop() == 0
    assert "snapshot" not in producer.log.read_text()


@pytest.mark.live
def test_a_table_made_anew_shows_its_own_rows(producer: Producer, postgres: Postgres, run: CommandLine) -> None:
    rows_of(postgres, 20)
    producer.start().wait_until_said("following slot")
    wait_until_landed(postgres)
    made = DDL[DDL.index("CREATE TABLE public.t_full") :]
    anew = f"DROP TABLE {FULL}; {made} INSERT INTO {FULL} (a, b) VALUES ('only', {{}})"
    postgres.sql(anew.format(1))
    producer.wait_until_said("it was dropped and made anew")
    producer.wait_until_said(f"{FULL}: snapshot: read all 1 rows")
    postgres.sql(f"INSERT INTO {FULL} (a, b) VALUES ('streamed', 2)")
    eventually(lambda: len(run.query(FULL)) == 2, within=20)
    assert differences(postgres, run) == []
    assert producer.stop() == 0
    postgres.sql(anew.format(3))
    producer.start().wait_until_said(f"publication {SLOT}: added {FULL}")
    producer.wait_until_said("following slot")
    wait_until_landed(postgres)
    assert differences(postgres, run) == []
    postgres.sql(f"DROP TABLE {FULL}")
    producer.wait_until_said(f"{FULL}: the table is gone at the source")
    assert producer.stop() == 0
    assert f"{FULL}: the database has no such table" in ended(producer.start(), 2)
    assert [(row["a"], row["b"]) for row in run.query(FULL)] == [("only", 3)]


@pytest.mark.live
def test_a_snapshot_goes_on_where_it_stopped(producer: Producer, postgres: Postgres, run: CommandLine) -> None:
    rows = 120_000  # several batches, so that a kill finds some of them to be read yet
    rows_of(postgres, rows)
    producer.start()
    for _ in range(2):
        producer.wait_until_said("metrics:")
        eventually(lambda: producer.metric("events_total", table=FULL) > 3000, within=60)
        producer.kill()
        # what changes before and behind where it stopped comes from the slot
        postgres.sql(f"DELETE FROM {FULL} WHERE b IN (0, 25, 49) AND a LIKE 'r%7'; UPDATE {FULL} SET v = 'w' WHERE b IN (1, 48)")
        postgres.sql(f"UPDATE {FULL} SET b = 49 - b WHERE a LIKE 'r%99'; INSERT INTO {FULL} (a, b) VALUES ('new' || random(), 2)")
        producer.start()
    producer.wait_until_said("following slot", within=60)
    read = [line["rows"] for line in producer.said if "rows that were left" in line["message"]]
    assert read
    assert read[0] < rows - 5000
    wait_until_landed(postgres)
    assert producer.stop() == 0
    assert differences(postgres, run, FULL) == []
    assert landed_twice() == 0
