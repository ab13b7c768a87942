"""An external table becomes the facts of its events decoded one by one, however many files are read together, and where."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from helpers.event_tables import EventTable, envelope, random_events
from helpers.found_tables import as_columns, as_records

from cdc_views.errors import EngineError
from cdc_views.formats.base import SourceLine
from cdc_views.landing import quarantine_location
from cdc_views.landing.external import Adaptation, adapt
from cdc_views.landing.external.groups import groups_of
from cdc_views.landing.external.shapes import plain_columns
from cdc_views.landing.external.table import ExternalFile, ExternalTable
from cdc_views.landing.spreading import Spread, in_this_process
from cdc_views.storage.relation import RawTable

if TYPE_CHECKING:
    from cdc_views_spark.engine import SparkEngine

FILES = 5
NOT_FACTS = ["_landed_at", "_origin"]
"""Columns that say where an event was found."""


def regular_events(rng: Random, count: int, *, is_typed: bool) -> EventTable:
    """Events as one connector writes them: few forms, so that many are read at once; and every 50th is no event."""
    events = [_event(rng, n) for n in range(count)]
    ddl = "create table shop.orders (id int primary key, state text, n bigint);"
    if is_typed:
        columns = {"id": pa.int32(), "state": pa.string(), "n": pa.int64()}
        return EventTable(ddl, as_columns([event for event in events if event["op"] != "?"], envelope(columns)), "shop.orders")
    records = [{"key": {"id": (event["after"] or event["before"])["id"]}, "value": event} for event in events]
    return EventTable(ddl, as_records(records), "shop.orders")


def _event(rng: Random, n: int) -> dict[str, Any]:
    op = "?" if n % 50 == 49 else rng.choices("cud", (3, 6, 1))[0]
    row = {"id": rng.randrange(9), "state": rng.choice((None, "new", "paid", "☃")), "n": n}
    source = {"connector": "postgresql", "ts_ms": 1704164645123, "snapshot": "false", "db": "lab", "schema": "shop",
              "table": "orders", "lsn": 1000 + 8 * n}  # fmt: skip
    images = {"before": row if op == "d" else None, "after": None if op == "d" else row}
    return {**images, "source": source, "op": op, "ts_ms": 1704164645123 + n}


TABLES: dict[str, Callable[[], EventTable]] = {
    "regular, text": lambda: regular_events(Random(1), 400, is_typed=False),
    "regular, columns": lambda: regular_events(Random(2), 400, is_typed=True),
    "random, text": lambda: random_events(Random(3), count=200, is_typed=False),
    "random, base64": lambda: random_events(Random(4), count=200, is_typed=False, decimals="precise"),
    "random, columns": lambda: random_events(Random(5), count=200, is_typed=True, of="mysql"),
}


def found(folder: Path, table: EventTable) -> tuple[str, RawTable]:
    """The table in several files, and the place of what is derived from it."""
    place, rows = str(folder / "found"), table.rows
    for n in range(FILES):
        part = rows.slice(n * rows.num_rows // FILES, (n + 1) * rows.num_rows // FILES - n * rows.num_rows // FILES)
        write_deltalake(place, part, mode="append")
    return place, RawTable(str(folder / "derived"), table.relation)


def adapted(
    folder: Path, table: EventTable, *, group_bytes: int, spread: Spread = in_this_process
) -> tuple[Adaptation, RawTable]:
    place, raw = found(folder, table)
    return adapt(place, raw, table.adapter, setting="s", batch_rows=64, group_bytes=group_bytes, spread=spread), raw


def one_by_one(table: EventTable) -> tuple[list[str], list[str]]:
    """The facts of each event decoded alone, and the texts of those that do not decode."""
    read, facts, broken = table.reading.reader(table.rows.schema, where="the table"), list[Any](), list[str]()
    for row in table.rows.cast(plain_columns(table.rows.schema)).to_pylist():
        text = read(row).text
        try:
            facts += table.adapter.decode(SourceLine(text, 0, 0), table.relation.schema)
        except Exception:
            broken.append(text)
    return shown(table.relation.rows(facts, landed_at=0)), sorted(broken)


def shown(rows: pa.Table) -> list[str]:
    return sorted(map(repr, rows.drop_columns([name for name in NOT_FACTS if name in rows.column_names]).to_pylist()))


def check(table: EventTable, done: Adaptation, raw: RawTable) -> None:
    facts, broken = one_by_one(table)
    assert shown(DeltaTable(raw.location).to_pyarrow_table()) == facts
    place = quarantine_location(raw)
    waiting = DeltaTable(place).to_pyarrow_table().to_pylist() if DeltaTable.is_deltatable(place) else []
    assert sorted(event["event"].decode() for event in waiting) == broken
    assert (done.facts, done.quarantined, done.files) == (len(facts), len(broken), FILES)
    assert all(event["line"] > 0 for event in waiting)
    folder = Path(raw.location)
    lines = [line for log in folder.glob("_delta_log/*.json") for line in log.read_text().splitlines()]
    added = [json.loads(line)["add"] for line in lines if '"add"' in line]
    assert {path.name for path in folder.glob("*.parquet")} == {file["path"] for file in added}, "nothing lies beside the table"
    for file in added:
        told, landed = (
            json.loads(file["stats"]),
            pq.read_table(folder / file["path"], columns=["_landed_at"]).column(0).to_pylist(),
        )
        assert told["numRecords"] == len(landed)
        bounds = [cut(told[name]["_landed_at"]) for name in ("minValues", "maxValues")]
        assert bounds == [cut(instant.isoformat()) for instant in (min(landed), max(landed))]


def cut(instant: str) -> datetime:
    """An instant to the millisecond, as Delta's bounds have it."""
    found = datetime.fromisoformat(instant.replace("Z", "+00:00"))
    return found.replace(microsecond=found.microsecond // 1000 * 1000)


@pytest.mark.parametrize("group_bytes", [1, 20_000, 1 << 30])
@pytest.mark.parametrize("name", TABLES)
def test_facts_are_those_of_events_decoded_alone(tmp_path: Path, name: str, group_bytes: int) -> None:
    table = TABLES[name]()
    done, raw = adapted(tmp_path, table, group_bytes=group_bytes)
    check(table, done, raw)


@pytest.mark.spark
@pytest.mark.parametrize("name", ["regular, text", "random, columns"])
def test_tasks_of_spark_make_the_same_facts(spark_engine: SparkEngine, tmp_path: Path, name: str) -> None:
    table, ran = TABLES[name](), list[int]()

    def spread(function: Callable[[Any], Any], tasks: Sequence[Any], *, sees: Sequence[str]) -> list[Any]:
        ran.append(len(tasks))
        return spark_engine.spread(function, tasks, sees=sees)

    done, raw = adapted(tmp_path, table, group_bytes=1, spread=spread)
    assert ran == [FILES]
    check(table, done, raw)


def test_events_of_regular_forms_are_read_many_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table, alone = regular_events(Random(6), 1000, is_typed=False), list[int]()
    decode = type(table.adapter).decode
    monkeypatch.setattr(type(table.adapter), "decode", lambda self, *given: alone.append(1) or decode(self, *given))
    adapted(tmp_path, table, group_bytes=1 << 30)
    assert 0 < len(alone) < 200


def test_a_task_that_fails_leaves_nothing(tmp_path: Path) -> None:
    table = TABLES["regular, text"]()

    def fails(function: Callable[[Any], Any], tasks: Sequence[Any], *, sees: Sequence[str]) -> list[Any]:
        function(tasks[0])
        raise EngineError("an executor is gone")

    with pytest.raises(EngineError, match="gone"):
        adapted(tmp_path, table, group_bytes=1, spread=fails)
    assert not list((tmp_path / "derived").glob("*.parquet"))
    raw = RawTable(str(tmp_path / "derived"), table.relation)
    check(table, adapt(str(tmp_path / "found"), raw, table.adapter, setting="s"), raw)


def test_later_files_are_added_and_a_rewrite_replaces_all(tmp_path: Path) -> None:
    table = TABLES["regular, text"]()
    first, raw = adapted(tmp_path, table, group_bytes=1)
    assert first.is_rebuilt
    place = str(tmp_path / "found")
    write_deltalake(place, table.rows.slice(0, 7), mode="append")
    again = adapt(place, raw, table.adapter, setting="s", group_bytes=1)
    assert (again.files, again.is_rebuilt) == (1, False)
    DeltaTable(place).optimize.compact()
    rebuilt = adapt(place, raw, table.adapter, setting="s", group_bytes=1)
    assert rebuilt.is_rebuilt
    assert rebuilt.facts == first.facts + again.facts == DeltaTable(raw.location).to_pyarrow_table().num_rows


def test_groups_keep_the_order_and_the_size() -> None:
    files = [ExternalFile(str(n), size, 0) for n, size in enumerate((5, 5, 20, 1, 1, 9))]
    assert [[file.path for file in group] for group in groups_of(files, most_bytes=10)] == [["0", "1"], ["2"], ["3", "4"], ["5"]]
    assert groups_of([]) == []


def test_the_files_of_a_table_are_one_group_where_they_are_small(tmp_path: Path) -> None:
    place, _ = found(tmp_path, TABLES["regular, text"]())
    assert len(groups_of(ExternalTable.open(place).files)) == 1
