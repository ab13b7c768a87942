"""Workloads: seeded, bounded, found by the name of their module."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from threading import Event
from typing import Any

import pytest
from cdc_producers import generator
from cdc_producers.generator import workload
from cdc_producers.generator.workload import WorkloadOrder, known_workloads, run_workload
from command_line import CommandLine
from services.postgres import Postgres

from cdc_views.errors import TransientError, UsageError
from cdc_views.schemas import read_schema

pytestmark = pytest.mark.heavy


class Counting:
    """Changes that are counted; `troubles` are raised first."""

    def __init__(self, chance: random.Random, *troubles: Exception) -> None:
        self.troubles, self.picked, self.chance, self.is_open = list(troubles), [], chance, True

    def prepare(self) -> None:
        pass

    def step(self) -> str:
        if self.troubles:
            raise self.troubles.pop(0)
        self.picked.append(self.chance.random())
        return "insert" if self.picked[-1] < 0.5 else "delete"

    def close(self) -> None:
        self.is_open = False


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Counting]]:
    found: list[Counting] = []

    def opened(address: str, chance: random.Random) -> Counting:
        found.append(Counting(chance, TransientError("away")))
        return found[-1]

    monkeypatch.setattr(workload, "_found", lambda name, system: opened)
    yield found
    assert not any(one.is_open for one in found)


def test_the_same_seed_makes_the_same_changes(made: list[Counting]) -> None:
    for seed in (1, 1, 2):
        counts = run_workload(WorkloadOrder("todo", "postgres", "", seed=seed, every=0, events=20), Event())
        assert sum(counts.values()) == 20
    assert made[0].picked == made[1].picked != made[2].picked


def test_it_ends_after_its_seconds_at_its_pace(made: list[Counting]) -> None:
    begun = time.monotonic()
    run_workload(WorkloadOrder("todo", "postgres", "", every=0.05, seconds=1.2), Event())
    assert 1.1 < time.monotonic() - begun < 2.5
    assert 5 < len(made[0].picked) <= 25


def test_what_there_is_not_is_named_with_what_there_is() -> None:
    assert ("todo", "postgres") in known_workloads()
    with pytest.raises(UsageError, match=r"no workload todoo on postgres; did you mean 'todo'.*there is .*todo on postgres"):
        workload.ddl_of("todoo", "postgres")
    with pytest.raises(UsageError, match="no workload todo on cassandra"):
        workload.ddl_of("todo", "cassandra")


def test_an_address_that_is_none_is_never_shown() -> None:
    with pytest.raises(UsageError, match="--postgres is no connection string") as told:
        run_workload(WorkloadOrder("todo", "postgres", "host=x pass word=s3cret"), Event())
    assert "s3cret" not in str(told.value)


def test_its_ddl_is_a_schema_file(tmp_path: Any) -> None:
    file = tmp_path / "todo.sql"
    file.write_text(generator.ddl_of("todo", "postgres"))
    schema = read_schema(file, table="public.todo", keyspace="public")
    assert [column.name for column in schema.row_key] == ["id"]


@pytest.mark.heavy
def test_a_todo_list_in_postgresql(postgres: Postgres) -> None:
    dsn = f"host=127.0.0.1 port={postgres.port} user=postgres dbname=postgres"
    counts = run_workload(WorkloadOrder("todo", "postgres", dsn, every=0, events=150, seed=3), Event())
    assert min(counts[kind] for kind in ("insert", "update", "delete")) > 10
    read = "SELECT id, task, note, priority, is_done, due::text FROM public.todo ORDER BY id"
    rows = postgres.sql(read)
    assert len(rows) == counts["insert"] - counts["delete"]
    postgres.sql("DROP TABLE public.todo")
    run_workload(WorkloadOrder("todo", "postgres", dsn, every=0, events=150, seed=3), Event())
    assert postgres.sql(read) == rows
    # it goes on beside what is there
    run_workload(WorkloadOrder("todo", "postgres", dsn, every=0, events=20, seed=4), Event())
    assert postgres.sql(read) != rows


def test_the_command_says_what_it_did_and_refuses_what_cannot_be(run: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("workload", "todo", "--postgres", "env", "--ddl").out == generator.ddl_of("todo", "postgres")
    for arguments in (["todo"], ["todo", "--postgres", "env", "--mariadb", "x"], ["toodo", "--postgres", "env", "--events", "1"]):
        answer = run("workload", *arguments)
        assert answer.code == 2
        assert "error: " in answer.err
    monkeypatch.setenv("CDC_VIEWS_POSTGRES_DSN", "host=127.0.0.1 port=1 user=u password=s3cret")
    answer = run("workload", "todo", "--postgres", "env", "--events", "1")
    assert answer.code == 3
    assert "s3cret" not in answer.err + answer.out
