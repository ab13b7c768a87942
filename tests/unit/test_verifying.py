"""`verify`: which differences are losses, where they are, and which are only late; on a source in memory."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest
from helpers.corrupting import silently
from helpers.live_memory import NOW, MemoryLive, table_of

from cdc_views.errors import EngineError, UsageError
from cdc_views.landing import Position, StreamEvent
from cdc_views.landing.live_sources import live_source
from cdc_views.operations.verifying.findings import Verification
from cdc_views.operations.verifying.load import Bounds, SourceLoad
from cdc_views.operations.verifying.record import record_of


@pytest.fixture
def live(tmp_path: Path) -> MemoryLive:
    """Seven rows that have landed, one of them deleted again."""
    made = MemoryLive(table_of(tmp_path, materialize={"serving": True}))
    for number in range(1, 9):
        made.put(number, f"s{number}", number)
    made.remove(8)
    made.land()
    return made


def told(done: Verification) -> list[tuple[Any, ...]]:
    return [
        (f.key.get("id"), f.column, f.source, f.view, f.outcome.value, f.place and f.place.value, f.kind.value)
        for f in done.findings
    ]


def changed(location: str, number: int, **values: Any) -> None:
    """Change a row of a serving table, without a trace in its log."""
    assert silently(location, lambda rows: [{**row, **values} if row["id"] == number else row for row in rows], most=9)


def test_equal_rows_are_proven_through_the_sources_position(live: MemoryLive) -> None:
    done = live.verify()
    assert (done.verdict, done.findings, done.compared, done.is_whole, done.at) == ("equal", (), 7, True, str(live.lsn))
    record = record_of(live.table)
    assert record.proof is not None
    assert (record.proof.at, record.last["verdict"]) == (str(live.lsn), "equal")


def test_a_lost_write_row_and_deletion_are_named(live: MemoryLive) -> None:
    live.put(2, "new", 2)
    live.put(9, "s9", 9)
    live.remove(3)
    live.land(losing=lambda lsn: True)
    done = live.verify()
    assert (done.verdict, sorted(told(done), key=str)) == (
        "loss",
        [
            (2, "state", '"new"', '"s2"', "loss", "raw", "missing write"),
            (3, "", "", '{"id": 3, "state": "s3", "amount": 3}', "loss", "raw", "lost deletion"),
            (9, "", '{"id": 9, "state": "s9", "amount": 9}', "", "loss", "raw", "missing row"),
        ],
    )
    assert record_of(live.table).proof is None


def test_what_lands_later_is_no_loss(live: MemoryLive) -> None:
    live.put(2, "new", 2)
    live.remove(3)
    waited = [0]

    def land_at_last() -> None:
        waited[0] += 1
        if waited[0] == 6:
            live.land()

    live.meanwhile = land_at_last
    assert (live.verify().verdict, waited[0] >= 6) == ("equal", True)


def test_what_does_not_land_is_late(live: MemoryLive) -> None:
    live.put(2, "new", 2)
    done = live.verify()
    assert told(done) == [(2, "state", '"new"', '"s2"', "lag", "raw", "not landed yet")]
    assert (done.verdict, record_of(live.table).proof) == ("lag", None)


def test_a_forgotten_key_is_not_compared(live: MemoryLive) -> None:
    live.table.forget({"id": 2})
    assert (live.verify().verdict, len(list(live.table.query().rows()))) == ("equal", 6)


def test_without_positions_a_difference_is_late_until_each_node_has_landed_something_newer(
    live: MemoryLive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on Cassandra; here two nodes land."""
    monkeypatch.setattr(live, "landed", lambda positions: None)
    live.put(2, "new", 2)
    live.land(losing=lambda _: True)
    verdicts = [live.verify().verdict]
    for node in ("n1", "n2"):
        live.put(9, node, 9)
        lsn, content = live.log[-1]
        live.landed_to, event = lsn, json.loads(content)
        event["source"]["name"] = node
        newer = StreamEvent(Position(lsn, 1), json.dumps(event).encode())
        live.table.stream("slot").land([newer], through=newer.position, now=NOW + timedelta(seconds=10))
        verdicts.append(live.verify().verdict)
    assert verdicts == ["lag", "lag", "loss"]


def test_a_row_that_is_always_written_hides_no_loss_and_is_none(live: MemoryLive) -> None:
    """Row 2 changes before each read, and so does row 4, whose deletion of `amount` in between was lost for good."""
    count = [0]

    def write() -> None:
        count[0] += 1
        live.put(2, f"v{count[0]}", 2)
        live.land(losing=lambda lsn: lsn in lost)

    lost: set[int] = set()
    live.put(4, "s4", 77)
    lost.add(live.lsn)
    live.meanwhile = write
    assert told(live.verify()) == [(4, "amount", "77", "4", "loss", "raw", "missing write")]


def test_a_write_from_another_log_is_found(live: MemoryLive) -> None:
    lsn, content = live.log[0]
    body = json.loads(content)
    body["source"]["lsn"], body["after"]["state"] = lsn + 10**6, "theirs"
    folder = live.table.project.root
    (folder / "other.jsonl").write_text(json.dumps(body) + "\n")
    live.table.land(folder / "other.jsonl")
    assert told(live.verify()) == [(1, "state", '"s1"', '"theirs"', "loss", "raw", "foreign write")]


def test_a_wrong_state_is_told_from_a_wrong_raw(live: MemoryLive) -> None:
    live.table.materialize()

    def change(rows: list[dict[str, Any]]) -> list[dict[str, Any]] | None:
        mine = [row for row in rows if row["id"] == 5]
        for row in mine:
            row["state"]["value"] = "wrong"
        return rows if mine else None

    assert silently(live.table.state_location, change)
    done = live.verify()
    assert [row[:2] + row[3:] for row in told(done)] == [(5, "state", '"wrong"', "loss", "state", "wrong state")]
    assert "rebuild" in done.findings[0].remedy


def test_a_wrong_serving_table_is_told_and_a_late_one_is_not(live: MemoryLive) -> None:
    live.table.materialize()
    live.put(6, "later", 6)
    live.land()
    assert live.verify().verdict == "equal"
    location = live.table.serving_location
    assert location is not None
    changed(location, 5, state="wrong")
    assert told(live.verify()) == [(5, "state", '"s5"', '"wrong"', "loss", "serving", "wrong serving table")]


def test_a_stale_view_is_told_and_another_text_of_the_same_rows_is_not(live: MemoryLive) -> None:
    live.table.apply()
    live.table.materialize()  # the view may go on reading raw
    assert live.verify().verdict == "equal"
    live.put(2, "later", 2)
    live.land()  # and nobody replaces the view
    assert [row[3:] for row in told(live.verify())] == [('"2 rows differ"', "loss", "view", "stale view")]


def test_a_view_that_somebody_replaced_or_dropped_is_told(live: MemoryLive) -> None:
    file = live.table.project.root / "warehouse" / "views.duckdb"
    for statement, rows in (
        ("CREATE OR REPLACE VIEW items AS FROM items_project WHERE id <> 3", 1),
        ("CREATE OR REPLACE VIEW items AS SELECT id, state FROM items_project", 7),
        ("DROP VIEW items", 7),
    ):
        live.table.apply()
        with duckdb.connect(str(file)) as connection:
            (made,) = connection.execute("SELECT sql FROM duckdb_views() WHERE view_name = 'items'").fetchone() or ()
            connection.execute("SET schema = 'public'").execute("DROP VIEW IF EXISTS items_project")
            connection.execute(str(made).replace("VIEW public.items", "VIEW public.items_project", 1))
            connection.execute(statement)
        assert [row[3:] for row in told(live.verify())] == [(f'"{rows} rows differ"', "loss", "view", "stale view")]
    live.table.apply()
    assert live.verify().verdict == "equal"


def test_a_value_of_another_type_is_told_once_a_column(live: MemoryLive) -> None:
    read = live.chunk

    def chunk(resume: str, *, limit: int) -> Any:
        found = read(resume, limit=limit)
        rows = [
            replace(r, values={"id": r.values["id"], "state": r.values["state"]}, unfit={"amount": "1.5: an integer"})
            for r in found.rows
        ]
        return replace(found, rows=rows)

    live.chunk = chunk  # type: ignore[method-assign]
    assert [row[:2] + row[4:] for row in told(live.verify())] == [(1, "amount", "loss", "type", "wrong type")]


def test_samples_go_around_the_table_and_find_a_row_too_many(live: MemoryLive) -> None:
    live.rows.pop(6)  # deleted, and the log does not tell
    live.put(9, "s9", 9)
    live.land(losing=lambda _: True)
    verdicts = [live.verify(sample=3) for _ in range(4)]
    assert [done.compared for done in verdicts] == [3, 3, 1, 3]
    assert {row[0] for done in verdicts for row in told(done)} == {6, 9}
    whole = live.verify(sample=0)
    assert (whole.compared, whole.is_whole) == (7, True), "wherever the samples are"


def test_reading_the_source_is_paced_and_bounded(live: MemoryLive) -> None:
    done = live.verify(rate=2.0)
    assert (done.read, done.queries, done.seconds >= 3.0) == (7, 3, True)
    stopped = live.verify(rate=1.0, seconds=2.0)
    assert (stopped.compared, stopped.is_whole) == (3, False)


def test_a_position_that_has_not_landed_fails(live: MemoryLive) -> None:
    with pytest.raises(EngineError, match="has not landed within 8 s"):
        live.verify(at=str(live.lsn + 50))


def test_an_unknown_source_is_named() -> None:
    with pytest.raises(UsageError, match="nothing reads a source at postgresq://; did you mean"):
        live_source("postgresq://here")
    with pytest.raises(UsageError, match="--chunk is 0"):
        SourceLoad(Bounds(chunk=0))
