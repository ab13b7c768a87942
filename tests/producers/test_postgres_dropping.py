"""`produce postgres --drop`: what a producer made on the server goes, and nothing else."""

from __future__ import annotations

import pytest
from cdc_producers.postgres.publications import published_as
from helpers.command_line import CommandLine
from helpers.postgres_views import SLOT
from helpers.producing import Producer
from services.postgres import Postgres

pytestmark = pytest.mark.live


@pytest.fixture(autouse=True)
def address(producer: Producer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The producer's server, for commands of this process too."""
    for name, value in producer.environment.items():
        monkeypatch.setenv(name, value)


def left(postgres: Postgres) -> tuple[list[str], list[str]]:
    """The slots and the publications of the server."""
    slots = postgres.sql("SELECT slot_name FROM pg_replication_slots ORDER BY 1")
    return [name for (name,) in slots], [name for (name,) in postgres.sql("SELECT pubname FROM pg_publication ORDER BY 1")]


def test_slot_and_publication_go_and_others_stay(producer: Producer, postgres: Postgres, run: CommandLine) -> None:
    postgres.sql("SELECT pg_create_logical_replication_slot('others', 'pgoutput')")
    postgres.sql("CREATE PUBLICATION others FOR ALL TABLES")
    producer.start().wait_until_said("following slot")
    refused = run("produce", "postgres", "--drop", "slot")
    assert refused.code == 2
    assert "stop that producer first" in refused.err
    assert producer.stop() == 0
    assert left(postgres) == (sorted([SLOT, "others"]), sorted([SLOT, "others"]))
    assert run("produce", "postgres", "--drop", "slot").code == 0
    assert left(postgres) == (["others"], sorted([SLOT, "others"]))
    again = run("produce", "postgres", "--drop", "all")
    assert (again.code, left(postgres)) == (0, (["others"], ["others"]))
    assert f"slot {SLOT} is not there" in again.err
    assert f"publication {SLOT} dropped" in again.err
    missing = run("produce", "postgres")
    assert missing.code == 3
    assert "start once with --snapshot-again" in missing.err


def test_a_slot_of_another_plugin_stays(producer: Producer, postgres: Postgres, run: CommandLine) -> None:
    postgres.sql("SELECT pg_create_logical_replication_slot('others', 'test_decoding')")
    refused = run("produce", "postgres", "--drop", "all", "--slot", "others")
    assert refused.code == 2
    assert "is of plugin test_decoding" in refused.err
    assert left(postgres) == (["others"], [])
    postgres.sql(f"SELECT pg_create_logical_replication_slot('{SLOT}', 'pgoutput')")
    for publication in published_as(SLOT):  # the second is of tables whose changes name no row
        postgres.sql(f"CREATE PUBLICATION {publication} FOR ALL TABLES")
    assert run("produce", "postgres", "--drop", "all").code == 0
    assert left(postgres) == (["others"], [])
