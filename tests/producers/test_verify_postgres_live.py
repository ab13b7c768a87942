"""`verify` against a real PostgreSQL: injected losses are found and named, and writes that go on are no loss."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from helpers.command_line import CommandLine
from helpers.corrupting import silently
from helpers.postgres_tables import TABLES, Workload
from helpers.postgres_views import raw_location, wait_until_landed
from helpers.producing import Producer
from helpers.verified import Verifying
from services.postgres import Postgres

from cdc_views.api import Project
from cdc_views.operations.applied import applied_file

pytestmark = pytest.mark.live


@pytest.fixture
def source(postgres: Postgres, producer: Producer, monkeypatch: pytest.MonkeyPatch) -> Postgres:
    """The server, which `verify` finds by the environment; the producer of 27 types follows it."""
    for name, value in postgres.environment.items():
        monkeypatch.setenv(name, value)
    return postgres


@pytest.fixture
def verify(run: CommandLine) -> Verifying:
    return Verifying(run, "postgresql://", wait=15)


def test_no_false_alarm_while_every_type_is_written(source: Postgres, producer: Producer, verify: Verifying) -> None:
    workload = Workload(source, seed=3)
    workload.run(200)
    producer.start()
    producer.wait_until_said("following")
    runs = verify.stays_quiet(TABLES, workload.running(pause=0.02), lambda: wait_until_landed(source))
    print(f"{runs} runs during {workload.transactions} transactions, no false alarm")


TABLE = "public.t_full"


def test_fifty_losses_are_all_named(
    source: Postgres, producer: Producer, run: CommandLine, verify: Verifying, tmp_path: Path
) -> None:
    """Rows `a0`, `a1` … by `b`; each kind takes rows of its own."""
    project = json.loads((tmp_path / "cdc_views.yml").read_text())
    project["tables"][1]["materialize"] = {"serving": True}
    (tmp_path / "cdc_views.yml").write_text(json.dumps(project))
    producer.start()
    producer.wait_until_said("following")
    source.sql("INSERT INTO t_full SELECT 'a', n, 'first', 'T' FROM generate_series(1, 70) AS n")
    wait_until_landed(source)
    # each in a transaction of its own, as a skipped segment would take them
    for number in range(1, 9):
        source.sql(f"INSERT INTO t_full VALUES ('lost', {number}, 'row', 'x')")
        source.sql(f"UPDATE t_full SET v = 'second' WHERE b = {10 + number}")
        source.sql(f"DELETE FROM t_full WHERE b = {20 + number}")
        source.sql(f"UPDATE t_full SET toast = NULL WHERE b = {30 + number}")
    wait_until_landed(source)
    assert verify(TABLE)[:2] == (0, [])
    assert producer.stop() == 0
    assert run("materialize", "--select", TABLE).code == 0
    assert run("apply", "--select", TABLE).code == 0
    location, applied = raw_location(TABLE), Path(str(applied_file(Project.load().table(TABLE))))
    before = {file: file.read_bytes() for file in (tmp_path / "warehouse" / "views.duckdb", applied)}

    def lost(rows: list[dict[str, Any]]) -> list[dict[str, Any]] | None:
        def is_lost(row: dict[str, Any]) -> bool:
            b = row["b"] or 0
            second = (row["v"] or {}).get("value") == "second"
            nulled = row["toast"] is not None and row["toast"]["value"] is None
            return (
                row["a"] == "lost"
                or (second and 10 < b < 19)
                or (bool(row["_deleted"]) and 20 < b < 29)
                or (nulled and 30 < b < 39)
            )

        left = [row for row in rows if not is_lost(row)]
        return left if len(left) < len(rows) else None

    def changed(rows: list[dict[str, Any]]) -> list[dict[str, Any]] | None:
        mine = [row for row in rows if 40 < (row["b"] or 0) < 47]
        for row in mine:
            row["v"]["value"] = "changed"
        return rows if mine else None

    assert silently(location, lost, most=99)
    assert silently(location, changed, most=99)
    accepted = run("rebuild", TABLE, "--accept")
    assert accepted.code == 0, accepted.err
    assert run("materialize", "--full", "--select", TABLE).code == 0

    def wrong(rows: list[dict[str, Any]], low: int, value: Any) -> list[dict[str, Any]] | None:
        mine = [row for row in rows if low < (row["b"] or 0) < low + 7]
        for row in mine:
            row["v"] = value(row["v"])
        return rows if mine else None

    state, serving = Project.load().table(TABLE).state_location, Project.load().table(TABLE).serving_location
    assert serving is not None
    assert silently(state, lambda rows: wrong(rows, 50, lambda cell: {**cell, "value": "state"}), most=99)
    assert silently(serving, lambda rows: wrong(rows, 60, lambda _: "serving"), most=99)
    producer.start()
    producer.wait_until_said("following")
    wait_until_landed(source)
    for file, content in before.items():  # as a backup brings them back: `rebuild` had applied the view anew
        file.write_bytes(content)
    code, found, said = verify(TABLE, "--sample", "0")
    assert code == 1, said
    told = Counter((one["place"], one["what"]) for one in found if one["verdict"] == "loss")
    assert told == {
        ("raw", "missing row"): 8,
        ("raw", "missing write"): 8 + 8 + 6,
        ("raw", "lost deletion"): 8,
        ("state", "wrong state"): 6,
        ("serving", "wrong serving table"): 6,
        ("view", "stale view"): 1,
    }, (told, said)
    assert all(one["remedy"] for one in found)
    assert "of the source compared" in said
