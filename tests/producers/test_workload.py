"""Workloads: seeded, bounded, found by the name of their module."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from threading import Event
from typing import Any

import pytest
from services.postgres import Postgres
from workloads import workload
from workloads.__main__ import main
from workloads.workload import WorkloadOrder, known_workloads, run_workload

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
    file.write_text(workload.ddl_of("todo", "postgres"))
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


def test_the_command_says_what_it_did_and_refuses_what_cannot_be(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["todo", "--postgres", "env", "--ddl"]) == 0
    assert capsys.readouterr().out == workload.ddl_of("todo", "postgres")
    for arguments in (["todo"], ["todo", "--postgres", "env", "--mariadb", "x"]):
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert ended.value.code == 2
        assert "error: " in capsys.readouterr().err
    assert main(["toodo", "--postgres", "env", "--events", "1"]) == 2
    assert "error: there is no workload toodo on postgres" in capsys.readouterr().err
    monkeypatch.setenv("CDC_VIEWS_POSTGRES_DSN", "host=127.0.0.1 port=1 user=u password=s3cret")
    assert main(["todo", "--postgres", "env", "--events", "1"]) == 3
    said = capsys.readouterr()
    assert "s3cret" not in said.err + said.out
