"""What the producer makes of a captured binlog of MySQL, and of its GTIDs, without a server."""

from __future__ import annotations

import base64
import json
import uuid
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from cdc_producers.binlog import log_events
from cdc_producers.binlog.connections import Access
from cdc_producers.binlog.documents import changed, document, double_text, printed
from cdc_producers.binlog.log_events import Event
from cdc_producers.binlog.logged_tables import LoggedTables
from cdc_producers.binlog.marks import Mark
from cdc_producers.binlog.table_maps import MYSQL_CHARACTER
from cdc_producers.binlog.transactions import BinlogTransactions
from cdc_producers.metrics import Metrics
from cdc_producers.mysql import snapshot
from cdc_producers.mysql.described import DescribedTables
from cdc_producers.mysql.gtids import GtidSet, MySqlPlace
from cdc_producers.mysql.options import MySqlOptions
from cdc_producers.mysql.server import MYSQL, MySqlServer
from cdc_producers.mysql.source import MySqlSource
from cdc_producers.source import Emitted, LostError
from helpers.captured import Said, singles

from cdc_views.errors import EngineError
from cdc_views.model.schema import Column, Role, TableSchema
from cdc_views.model.types import Kind, Scalar

DATA = Path(__file__).parents[1] / "data" / "mysql"
ONE, TWO = "3e11fa47-71ca-11e1-9e33-c80aa9429562", "4f11fa47-71ca-11e1-9e33-c80aa9429562"
DOCS = TableSchema(
    "shop", "docs", (Column("id", Scalar(Kind.INT), Role.PARTITION), *(Column(n, Scalar(Kind.JSON)) for n in ("js", "js2")))
)


class Target:
    """The captured table; nothing lands."""

    name, schema = "shop.docs", DOCS

    def version(self) -> object:
        return 0


def captured() -> list[Event]:
    found = []
    for line in (DATA / "events.jsonl").read_text().splitlines():
        event = json.loads(line)
        found.append(Event(event["kind"], 0, event["server"], event["end"], base64.b64decode(event["body"]), event["flags"]))
    return found


def start_of(events: list[Event]) -> GtidSet:
    """What had been executed before the first of them."""
    first = next(event for event in events if event.kind == log_events.MYSQL_GTID)
    number = int.from_bytes(first.body[17:25], "little")
    return GtidSet.read(f"{uuid.UUID(bytes=first.body[1:17])}:1-{number - 1}")


def taken(events: list[Event], **starts: Mark) -> tuple[list[Emitted], BinlogTransactions]:
    handed_on: list[Emitted] = []
    targets: Any = {"shop.docs": Target()}
    place = MySqlPlace(start_of(captured()))
    logged = LoggedTables(targets, {}, lambda _: [], lambda *_: {}, Said(), character=MYSQL_CHARACTER)
    begins = starts or {"shop.docs": place.mark(0)}
    made = BinlogTransactions(targets, begins, "mysql", place, "name", logged, Said(), handed_on.append)
    for event in events:
        made.take(event, "binlog.000001")
    return [single for item in handed_on for single in singles(item)], made


def test_documents_partial_updates_and_a_compressed_transaction_are_what_the_server_selects() -> None:
    items, _ = taken(captured())
    rows: dict[int, dict[str, Any]] = {}
    for item in items:
        event = json.loads(item.content or b"null")
        if event["op"] == "d":
            del rows[event["before"]["id"]]
        elif event["op"] != "t":
            rows[event["after"]["id"]] = event["after"]
    assert [[row["id"], row["js"], row["js2"]] for row in rows.values()] == json.loads((DATA / "selected.json").read_text())
    assert [json.loads(item.content or b"")["op"] for item in items] == ["t", "c", "c", "u", "u", "u", "c", "d"]


def test_positions_count_transactions_and_the_set_lands_with_them() -> None:
    items, made = taken(captured())
    positions = [item.position for item in items]
    assert positions == sorted(set(positions))
    executed = start_of(captured())
    gtids = [json.loads(item.content or b"")["source"] for item in items]
    assert gtids[-1]["gtid"].split(":")[1] == "tagged"
    last = made.marked["shop.docs"]
    assert (last.sequence, last.note) == (executed.count + 10, str(GtidSet.read(last.note)))
    assert GtidSet.read(last.note).count == executed.count + 9
    assert str(made.place) == gtids[-1]["gtid"]
    # from the note on, only the rest comes
    rest, _ = taken(captured(), **{"shop.docs": Mark.of(items[3].position, items[3].note)})
    assert [item.position for item in rest] == positions[4:]


def test_another_order_than_the_one_that_landed_is_told() -> None:
    executed = start_of(captured())
    source = MySqlSource({}, MySqlOptions(), Said(), Metrics("mysql"))
    source._marks = {"a": MySqlPlace(executed).mark(0), "b": Mark(0, executed.count + 2, note=f"{ONE}:1-7")}
    place = source._start(MySqlServer("FULL", ignores_case=False, identity="1"))
    events = [event for event in captured() if event.kind == log_events.MYSQL_GTID]
    place.ended(place.begins(events[0], []))
    with pytest.raises(LostError, match="has another order than the one that landed"):
        place.begins(events[1], [])


def test_another_transaction_than_the_one_that_landed_last_is_told() -> None:
    """A replica took over without it: the new one's changes are not taken for those that have landed."""
    events, (items, _) = captured(), taken(captured())
    landed = {"shop.docs": Mark.of(items[1].position, items[1].note)}
    begins = [place for place, event in enumerate(events) if event.kind in log_events.GTIDS]
    other = begins[landed["shop.docs"].sequence - Mark.of(items[0].position).sequence]
    assert [item.position for item in taken(events, **landed)[0]] == [item.position for item in items[2:]]
    with pytest.raises(LostError, match="in place of the one that landed last"):
        taken(events[:other] + events[begins[begins.index(other) + 1] :], **landed)


def test_a_snapshot_takes_no_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    class Server:
        """A connection that notes what it is asked, and answers with one place of the log."""

        flavour, description = MYSQL, True

        def cursor(self) -> Any:
            return nullcontext(self)

        def execute(self, text: str) -> None:
            asked.append(text)

        def fetchall(self) -> list[tuple[str, ...]]:
            return [(f"{ONE}:1-5",)] if "gtid_executed" in asked[-1] else [("binlog.000001", "4")]

    monkeypatch.setattr(snapshot, "snapshot_connection", lambda _: nullcontext(Server()))
    with snapshot.reading(Access(MYSQL, (), "u", "p"), [GtidSet.read(f"{ONE}:1-4")], "SHOW BINARY LOG STATUS"):
        assert asked == [
            "SELECT @@global.gtid_executed",
            "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ",
            "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
            "SHOW BINARY LOG STATUS",
        ]


def test_a_gtid_twice_none_at_all_and_one_of_mariadb_are_told() -> None:
    place = MySqlPlace(start_of(captured()))
    first = next(event for event in captured() if event.kind == log_events.MYSQL_GTID)
    place.ended(place.begins(first, []))
    with pytest.raises(LostError, match="comes twice"):
        place.begins(first, [])
    with pytest.raises(LostError, match="gtid_mode was not ON"):
        place.begins(first._replace(kind=log_events.ANONYMOUS), [])
    with pytest.raises(LostError, match="produce mariadb"):
        place.begins(first._replace(kind=log_events.MARIADB_GTID), [])


@pytest.mark.parametrize(
    ("text", "count", "normal"),
    [
        ("", 0, ""),
        (f"{ONE.upper()}:1-5:7,\n{TWO}:1", 7, f"{ONE}:1-5:7,{TWO}:1"),
        (f"{ONE}:1-5:6-9:8", 9, f"{ONE}:1-9"),
        (f"{ONE}:1-3:Tag_1:1-2:5:b:1,{TWO}:9", 8, f"{ONE}:1-3:b:1:tag_1:1-2:5,{TWO}:9"),
    ],
)
def test_sets_are_read_counted_and_written(text: str, count: int, normal: str) -> None:
    found = GtidSet.read(text)
    assert (found.count, str(found)) == (count, normal)
    assert not GtidSet.read(normal).lacks(found)


def test_a_set_knows_what_it_lacks() -> None:
    mine = GtidSet.read(f"{ONE}:1-5:7-9")
    assert mine.lacks(GtidSet.read(f"{ONE}:2-4:9")) == ""
    assert mine.lacks(GtidSet.read(f"{ONE}:1-6")) == f"{ONE}:1-6"
    assert mine.lacks(GtidSet.read(f"{ONE}:1:a:3")) == f"{ONE}:a:3-3"
    mine.add((uuid.UUID(ONE), ""), 6)
    assert (str(mine), mine.count) == (f"{ONE}:1-9", 9)
    with pytest.raises(EngineError, match="begins no GTID of MySQL's"):
        GtidSet.read("0-1-5")


def test_a_set_with_tags_is_written_as_the_server_writes_it() -> None:
    """As of 9.7.4's own list of earlier GTIDs, which a tagged one makes another form."""
    captured_list = bytes.fromhex(
        "0102000000000001a9fb0abce9ef11f1b85102fc0000000100010000000000000001000000000000000500000000000000"
        "a9fb0abce9ef11f1b85102fc000000010a6162635f31010000000000000001000000000000000500000000000000"
    )
    assert GtidSet.read("a9fb0abc-e9ef-11f1-b851-02fc00000001:1-4:abc_1:1-4").encoded() == captured_list
    plain = GtidSet.read(f"{ONE}:1-4").encoded()
    assert plain[:8] == (1).to_bytes(8, "little")
    assert len(plain) == 8 + 16 + 8 + 16


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.0, "0.0"), (-0.0, "-0.0"), (100.0, "100.0"), (1e15, "1e15"), (1e14, "100000000000000.0"), (1e-15, "0.000000000000001"),
        (1.5e-16, "1.5e-16"), (1234567890123456.8, "1234567890123456.8"), (1e100, "1e100"), (-1.7976931348623157e308,) * 2,
    ],
)  # fmt: skip
def test_doubles_in_documents_are_printed_as_the_server_does(value: float, expected: object) -> None:
    assert double_text(value) == str(expected).replace("e+", "e")


def test_a_difference_that_does_not_fit_is_told() -> None:
    insert = bytes([2, 5]) + b"$.a.b"
    with pytest.raises(EngineError, match="does not fit the document before it"):
        changed(["1"], insert)
    assert printed(document(b"")) == "null"


def _of(kind: int, body: bytes) -> Event:
    return Event(kind, 0, 1, 0, body)


def _ddl(text: str) -> Event:
    return _of(log_events.QUERY, bytes(8) + bytes([4]) + bytes(4) + b"shop\0" + text.encode())


def _gtid(number: int) -> Event:
    return _of(log_events.MYSQL_GTID, bytes(1) + uuid.UUID(ONE).bytes + number.to_bytes(8, "little"))


def test_an_xa_transaction_that_nobody_saw_prepared_is_told_of_when_it_commits() -> None:
    prepared = [_gtid(4), _ddl("XA START X'61',X'',1"), _of(log_events.XA_PREPARE, b"")]
    committed = [_gtid(5), _ddl("XA COMMIT X'61',X'',1")]
    assert _told(prepared + committed) == []
    (line,) = _told(committed)
    assert f"{ONE}:5 commits an XA transaction that was prepared before this producer started" in line


def _told(events: list[Event]) -> list[str]:
    log: Any = taken(events)[1].log
    return list(log.lines)


@pytest.mark.parametrize(("statement", "is_told"), [("ALTER TABLE docs ADD x int", True), ("ALTER TABLE d2 ADD x int", False)])
def test_a_catalog_that_is_newer_than_the_log_names_no_columns(statement: str, is_told: bool) -> None:
    log = [_gtid(4), _ddl("BEGIN"), _gtid(5), _ddl(statement), _of(log_events.HEARTBEAT, b"")]
    described = DescribedTables(
        MySqlPlace(GtidSet.read(f"{ONE}:1-3")),
        columns=lambda _: [],
        executed=lambda: GtidSet.read(f"{ONE}:1-5"),
        ahead=lambda _: iter(log),
    )
    if is_told:
        with pytest.raises(LostError, match="it was altered after the rows"):
            described("shop.docs")
    else:
        assert described("shop.docs") == []
