"""The plug-in wal2json on a PostgreSQL 15: the same rows as the source, kills, and what it cannot carry."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.command_line import CommandLine
from helpers.postgres_tables import DDL, STORAGE, TABLES, Workload, project
from helpers.postgres_views import differences, landed_twice, wait_until_landed
from helpers.producing import Producer, ended
from services.debian import NoPackagesError
from services.postgres import Postgres
from services.postgres_wal2json import running_with_wal2json

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    try:
        with running_with_wal2json() as found:
            yield found
    except NoPackagesError as error:
        pytest.skip(str(error))


@pytest.fixture
def reading(server: Postgres, run: CommandLine, tmp_path: Path) -> Iterator[Producer]:
    """A producer of the tables of 27 types, which the server has, empty; not started."""
    server.sql("DROP TABLE IF EXISTS public.t_types, public.t_full, public.moved, public.parts")
    server.sql(DDL + STORAGE)
    project(tmp_path)
    made = Producer(tmp_path, server.environment, ["postgres", "--plugin", "wal2json", "--confirm", "0.5"])
    yield made
    if made.is_alive:
        made.kill()
    ended(Producer(tmp_path, server.environment, ["postgres", "--plugin", "wal2json", "--drop", "slot"]).start(), 0)


def test_every_type_kills_and_truncates(reading: Producer, server: Postgres, run: CommandLine) -> None:
    workload = Workload(server, seed=5)
    workload.run(300)
    reading.start().wait_until_said("following slot")
    assert any(
        "wal2json writes NaN and infinities of n, n_unb, n_whole, r, d as null" in line["message"] for line in reading.said
    )
    with workload.running(pause=0.01):
        for _ in range(3):
            wait_until_landed(server, within=90)
            reading.kill()
            reading.start("--echo", "1").wait_until_said("following slot")
    workload.run(300)
    server.sql("TRUNCATE public.t_full")
    workload.run(50)
    server.sql("INSERT INTO public.t_types (id, r, d) VALUES (999, 'NaN', '-Infinity')")
    wait_until_landed(server, within=90)
    assert reading.stop() == 0
    assert differences(server, run) == []
    assert landed_twice() == 0
    assert [(row["r"], row["d"]) for row in run.query(TABLES[0]) if row["id"] == 999] == [(None, None)]


@pytest.mark.parametrize(
    ("ddl", "told"),
    [
        ("CREATE TABLE public.parts (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)", "changes under its partitions' names"),
        ("CREATE TABLE public.parts (id int, v text)", "no updates and deletions"),
    ],
)
def test_a_table_that_it_leaves_out_is_refused(reading: Producer, server: Postgres, tmp_path: Path, ddl: str, told: str) -> None:
    server.sql(ddl)
    (tmp_path / "parts.sql").write_text("CREATE TABLE public.parts (id int PRIMARY KEY, v text);")
    asked = json.loads((tmp_path / "cdc_views.yml").read_text())
    asked["tables"].append({"name": "public.parts", "schema": "parts.sql", "raw": {"format": "debezium"}})
    (tmp_path / "cdc_views.yml").write_text(json.dumps(asked))
    said = ended(reading.start("--allow-unkeyed"), 2)
    assert f"public.parts: wal2json writes {told}; read it by --plugin pgoutput" in said


def test_a_slot_of_the_other_plugin_is_refused(reading: Producer, server: Postgres, tmp_path: Path) -> None:
    reading.start().wait_until_said("following slot")
    assert reading.stop() == 0
    other = Producer(tmp_path, server.environment, ["postgres"], runs=reading.runs)
    assert "is of plugin wal2json or of another database, where pgoutput on this one was expected" in ended(other.start(), 2)
