"""Where snapshots begin, go on and begin anew, without a server."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from threading import Event
from typing import Any

import pytest
from cdc_producers.binlog import catalog, snapshots
from cdc_producers.binlog.catalog import BinlogColumn, BinlogTable
from cdc_producers.binlog.connections import Access
from cdc_producers.binlog.log_files import LogFile
from cdc_producers.binlog.marks import Mark
from cdc_producers.binlog.snapshots import BinlogSnapshots
from cdc_producers.mariadb.gtids import Gtid, MariaDbPlace
from cdc_producers.mariadb.options import MariaDbOptions
from cdc_producers.mariadb.server import MARIADB, MariaDbServer
from cdc_producers.mariadb.snapshot import MariaDbSnapshot
from cdc_producers.mariadb.source import MariaDbSource
from cdc_producers.metrics import Metrics
from cdc_producers.source import Emitted, LostError
from helpers.captured import Said

from cdc_views.errors import TransientError
from cdc_views.landing import Position
from cdc_views.model.schema import Column, Role, TableSchema
from cdc_views.model.types import Kind, Scalar

SCHEMA = TableSchema("shop", "a", (Column("id", Scalar(Kind.INT), Role.PARTITION), Column("v", Scalar(Kind.TEXT))))
COLUMNS = (BinlogColumn("id", "int", "int(11)"), BinlogColumn("v", "text", "text"))
KEYED = BinlogTable("shop", "a", "InnoDB", COLUMNS, ("id",), (frozenset({"id"}),), 3)
TEXT_KEYED = BinlogTable("shop", "a", "InnoDB", COLUMNS, ("v",), (frozenset({"v"}),), 3)
SERVER = MariaDbServer("FULL", ignores_case=False, identity="1")
LOG = LogFile("1", "binlog.000007", 1764228800)
ROWS = {-5: ["-5", '"a"'], 7: ["7", '"b"'], 9: ["9", '"c"']}
SNAPSHOT = MariaDbSnapshot(None, "binlog.000007", 4242, "0-1-99", Gtid(0, 1, 99))


class Lander:
    def __init__(self, target: Target, stream: str) -> None:
        self.target, self.stream = target, stream

    def position(self) -> Position | None:
        return self.target.positions.get(self.stream)

    def note(self) -> str:
        return ""


class Target:
    """A table whose positions are what a test says."""

    name, schema = "shop.a", SCHEMA

    def __init__(self, **positions: Position) -> None:
        self.positions = {name.replace("_", ":"): position for name, position in positions.items()}

    def lander(self, stream: str) -> Any:
        return Lander(self, stream)

    def version(self) -> object:
        return 0

    def follow(self) -> None:
        raise NotImplementedError


def made_of(target: Target, table: BinlogTable) -> BinlogSnapshots:
    return BinlogSnapshots(
        {"shop.a": target},
        {"shop.a": table},
        "mariadb",
        "n:0:snapshot",
        nulls_zero_dates=False,
        log=Said(),
        metrics=Metrics("mariadb"),
    )


def snapshot_of(
    target: Target, table: BinlogTable, monkeypatch: pytest.MonkeyPatch, *, epoch: int = 0, stop_after: int = 99
) -> list[Emitted]:
    """What a snapshot of the table emits."""
    items: list[Emitted] = []
    stop = Event()

    def read_rows(connection: Any, table: BinlogTable, *, after: int | None, nulls_zero_dates: bool) -> Any:
        for key, row in ROWS.items():
            if after is None or key > after:
                if len(items) >= stop_after:
                    stop.set()
                yield row

    monkeypatch.setattr(snapshots, "read_rows", read_rows)
    made_of(target, table).read("shop.a", SNAPSHOT, Mark(epoch, 100, 1), emit=items.append, stop=stop)
    return items


def orders(items: list[Emitted]) -> list[list[int]]:
    return [json.loads(item.content)["source"]["order"] for item in items if item.content]


def test_rows_stand_at_the_snapshots_gtid_and_the_last_item_says_that_it_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    items = snapshot_of(Target(), KEYED, monkeypatch)
    assert orders(items) == [[0, 99, 0]] * 3
    assert [item.position for item in items] == sorted({item.position for item in items})
    whole = {"n:0:snapshot": items[-1].position}
    made = made_of(Target(), KEYED)
    made.targets["shop.a"].positions = whole
    assert made.wanted({"shop.a": Mark(0, 100, 1)}) == []
    assert made.wanted({"shop.a": Mark(1, 100, 1)}) == ["shop.a"]


def test_a_snapshot_that_stopped_goes_on_after_its_last_integer_key(monkeypatch: pytest.MonkeyPatch) -> None:
    part = snapshot_of(Target(), KEYED, monkeypatch, stop_after=1)
    assert len(part) == 1
    rest = snapshot_of(Target(n_0_snapshot=part[-1].position), KEYED, monkeypatch)
    assert [json.loads(item.content)["after"]["id"] for item in rest if item.content] == [7, 9]
    for table in (TEXT_KEYED, replace(KEYED, primary_key=("id", "v"))):
        anew = snapshot_of(Target(n_0_snapshot=part[-1].position), table, monkeypatch)
        assert len(orders(anew)) == 3


def test_a_server_that_lacks_what_landed_for_a_minute_ends_it() -> None:
    source = MariaDbSource({}, MariaDbOptions(), Said(), Metrics("mariadb"))
    for seconds, error in ((0.0, TransientError), (59.0, TransientError), (61.0, LostError)):
        source._lacking_since = time.monotonic() - seconds
        with pytest.raises(error, match="it ends before what has landed"):
            source._wait_for("it ends before what has landed")
    source._wait_for("")
    # the next host may be the one that has it
    source._access = Access(MARIADB, (("a", 1), ("b", 2)), "u", "p")
    with pytest.raises(TransientError):
        source._wait_for("another one")
    assert source._access.hosts == (("b", 2), ("a", 1))


@pytest.mark.parametrize("is_null", [False, True])
def test_zero_dates_are_null_only_where_it_is_asked_for(is_null: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    source = MariaDbSource({}, MariaDbOptions(nulls_zero_dates=is_null), Said(), Metrics("mariadb"))
    monkeypatch.setattr(catalog, "read_collations", lambda _: {})
    followed = source._transactions(None, SERVER, MariaDbPlace(Gtid(0, 1, 50)), name="n:0", emit=lambda _: None)
    given: list[bool] = []

    def wanted(made: BinlogSnapshots, marks: object) -> list[str]:
        given.append(made.nulls_zero_dates)
        return []

    monkeypatch.setattr(BinlogSnapshots, "wanted", wanted)
    source._snapshot(Access(MARIADB, (), "u", "p"), SERVER, name="n:0", emit=lambda _: None, stop=Event())
    assert (followed.tables.nulls_zero_dates, given) == (is_null, [is_null])


@pytest.mark.parametrize(("named", "expected"), [(None, "7"), (3, "3"), (0, "0")])
def test_the_domain_is_the_one_that_is_named_or_the_servers(named: int | None, expected: str) -> None:
    source = MariaDbSource({}, MariaDbOptions(gtid_domain=named), Said(), Metrics("mariadb"))
    source._marks = {"shop.a": Mark(0, 100, 1)}
    server = MariaDbServer("FULL", ignores_case=False, identity="1", domain=7)
    assert source._named(server).endswith(f":{expected}")
    assert str(source._start(server)) == f"{expected}-1-99"


def test_an_epoch_begins_with_an_empty_table_once(monkeypatch: pytest.MonkeyPatch) -> None:
    before = Target(n_0_snapshot=Position(120, (1 << 63) - 1))
    first = snapshot_of(before, KEYED, monkeypatch, epoch=1)
    assert json.loads(first[0].content or b"")["op"] == "t"
    assert orders(first) == [[0, 1 << 48, 0], *[[1, 99, 0]] * 3]
    again = snapshot_of(Target(n_0_snapshot=first[0].position), KEYED, monkeypatch, epoch=1)
    assert orders(again) == [[1, 99, 0]] * 3


@pytest.mark.parametrize(
    ("landed", "again", "expected"),
    [
        (None, False, Mark(0, 51, 1, note=f"{LOG};")),
        (Mark(0, 40, 3, 2), False, Mark(0, 40, 3, 2)),
        (Mark(0, 90, 3, 2), True, Mark(1, 51, 1, note=f"{LOG};")),
        (Mark(2, 40, 1), True, Mark(3, 51, 1, note=f"{LOG};")),
    ],
)
def test_a_table_begins_where_it_has_landed_and_an_epoch_where_the_server_is(
    landed: Mark | None, again: bool, expected: Mark, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = Target() if landed is None else Target(n_0=landed.position)
    source = MariaDbSource({"shop.a": target}, MariaDbOptions(snapshots_again=again), Said(), Metrics("mariadb"))
    monkeypatch.setattr(source, "_current", lambda *_: MariaDbPlace(Gtid(0, 1, 50)))
    monkeypatch.setattr(source, "_newest_log", lambda *_: LOG)
    items: list[Emitted] = []
    for _ in range(2):  # a second attempt of the same run goes on, whether or not the first one's mark has landed
        source._begin(None, SERVER, name="n:0", emit=items.append)
        assert source._marks == {"shop.a": expected}
    assert [item.position for item in items] == ([] if landed and not again else [expected.position])
    assert str(source._start(SERVER)) == str(Gtid(0, expected.previous, expected.sequence - 1))
