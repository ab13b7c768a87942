"""`verify` against three Cassandra nodes: injected losses are found and named, and writes that go on are no loss."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("cassandra")

from helpers.cassandra_trial import Trial
from helpers.cassandra_views import mark
from helpers.cassandra_workload import TABLES, Workload
from helpers.command_line import CommandLine
from helpers.comparing import raw_location
from helpers.corrupting import silently
from helpers.lost_rows import check_stale_view, lose_in_state, view_files, with_serving_table
from helpers.producing import repeating
from helpers.verified import Verifying, paced

if TYPE_CHECKING:
    from services.cassandra import CassandraCluster

pytestmark = pytest.mark.live


@pytest.fixture
def trial(cassandra_cluster: CassandraCluster, run: CommandLine, tmp_path: Path) -> Iterator[Trial]:
    made = Trial(cassandra_cluster, run, tmp_path, 3)
    yield made
    made.end()


@pytest.fixture
def verify(trial: Trial) -> Verifying:
    node = trial.cluster.nodes[0]
    return Verifying(trial.run, f"cassandra://{node.address}:{node.port}", wait=25)


def test_no_false_alarm_while_cells_are_written_deleted_and_expire(trial: Trial, verify: Verifying) -> None:
    trial.loads.append(Workload(trial.session, trial.keyspace, 11))
    trial.loads[0].run(100)
    trial.start()
    tables = [f"{trial.keyspace}.{table}" for table in TABLES]
    verify.stays_quiet(tables, trial.loaded(pause=paced(0.05)), trial.check)


def number_of(row: dict[str, Any]) -> int:
    key = row["k"] or ""
    return int(key[1:]) if key[:1] == "k" else 0


def test_losses_of_eleven_kinds_are_named(trial: Trial, verify: Verifying) -> None:
    session, place = trial.session, f"{trial.keyspace}.simple"
    with_serving_table(place)
    trial.start()
    for number in range(90):
        session.execute(f"INSERT INTO {place} (k, a, b) VALUES ('k{number:02}', {number}, 'first')")
    for number in range(10):
        session.execute(f"INSERT INTO {place} (k, a, b) VALUES ('lost{number}', 1, 'row')")
        session.execute(f"UPDATE {place} SET b = 'second' WHERE k = 'k{10 + number}'")
        session.execute(f"DELETE FROM {place} WHERE k = 'k{20 + number}'")
        session.execute(f"DELETE a FROM {place} WHERE k = 'k{30 + number}'")
    trial.land()
    trial.stop()
    assert trial.run("materialize", "--select", place).code == 0
    assert trial.run("apply", "--select", place).code == 0
    kept = view_files(place)

    def is_lost(row: dict[str, Any]) -> bool:
        key, b, a = row["k"] or "", row["b"], row["a"]
        is_second = b is not None and b["value"] == "second"
        is_deleted = row["_deleted"] is not None or (a is not None and a["rank"] > 0)
        return key.startswith("lost") or (is_second and key[:2] == "k1") or (is_deleted and key[:2] in ("k2", "k3"))

    def lost(rows: list[dict[str, Any]]) -> list[dict[str, Any]] | None:
        left = [row for row in rows if not is_lost(row)]
        return left if len(left) < len(rows) else None

    def false(rows: list[dict[str, Any]]) -> list[dict[str, Any]] | None:
        mine = [row for row in rows if (row["k"] or "")[:2] == "k4" and row["b"] is not None]
        for row in mine:
            row["b"]["value"], row["b"]["bytes"] = "changed", b"changed"
        return rows if mine else None

    def moved(rows: list[dict[str, Any]]) -> list[dict[str, Any]] | None:
        mine = [row for row in rows if row["_deleted"] is not None and row["k"] in ("k20", "k21", "k22", "k23")]
        for row in mine:
            row["k"] = f"k{number_of(row) + 64}"
        return rows if mine else None

    assert silently(raw_location(place), moved, most=999)
    assert silently(raw_location(place), lost, most=999)
    assert silently(raw_location(place), false, most=999)
    assert trial.run("rebuild", place, "--accept").code == 0
    assert trial.run("materialize", "--full", "--select", place).code == 0
    lose_in_state(place, "b", number_of)
    trial.start()
    numbers = iter(range(1000, 9000))
    with repeating(lambda: mark(session, trial.keyspace, next(numbers), tables=("pairs",)), pause=0.5):
        code, found, said = verify(f"{trial.keyspace}.simple", "--sample", "0")
    assert code == 1, said
    told = Counter((one["place"], one["what"]) for one in found if one["verdict"] == "loss")
    in_raw = {
        ("raw", "missing row"): 10,
        ("raw", "missing write"): 10 + 10,
        ("raw", "lost deletion"): 10 + 10,
        ("raw", "false deletion"): 4,
    }
    behind = {("state", "wrong state"): 6 + 3, ("serving", "wrong serving table"): 6 + 3}
    assert told == {**in_raw, **behind}, (told, said)
    assert all(one["remedy"] for one in found)
    assert all(one["replica"].count(",") == 2 for one in found if one["column"] and one["what"] == "missing write"), found[:3]
    trial.stop()
    check_stale_view(verify, place, kept)
