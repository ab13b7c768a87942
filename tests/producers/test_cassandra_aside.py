"""Tables that need somebody's hand: what is kept of them, what is remembered of them, and when they are well again."""

from __future__ import annotations

import json
import math
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from helpers.captured import Said

pytest.importorskip("cassandra")

from cdc_producers.cassandra.gaps import Gaps
from cdc_producers.cassandra.kept_events import KeptEvents
from cdc_producers.cassandra.node import Truncation
from cdc_producers.cassandra.node_schema import Logged, NodeSchema, NodeTable, NodeType
from cdc_producers.cassandra.options import CassandraOptions, SnapshotMode
from cdc_producers.cassandra.same_tables import SameTables
from cdc_producers.cassandra.schema_file import changes, check
from cdc_producers.cassandra.source import CassandraSource, _refusal, _Work
from cdc_producers.metrics import Health
from cdc_producers.source import Emitted

from cdc_views.errors import UsageError
from cdc_views.formats.base import RawFormat
from cdc_views.formats.cassandra_mutation import CassandraMutation
from cdc_views.landing import Position
from cdc_views.schemas.cql.reader import read_cql

NAME, STREAM = "shop.orders", "cassandra:host"
TABLE = NodeTable("shop", "orders", UUID(int=7), True, logged=Logged(100, 100, 50))


def schema(table: NodeTable) -> NodeSchema:
    return NodeSchema("1", {table.id: table})


def event(at: int, content: bytes = b"x") -> Emitted:
    return Emitted(NAME, STREAM, Position(1, at), content, 5.0)


@dataclass
class Target:
    """A table whose landing stands somewhere."""

    landed: Position | None = None
    format: RawFormat = field(default_factory=CassandraMutation)

    def lander(self, stream: str) -> Target:
        return self

    def position(self) -> Position | None:
        return self.landed


@dataclass
class Kept:
    """A table's events set aside in a folder."""

    folder: Path
    target: Target = field(default_factory=Target)
    health: Health = field(default_factory=Health)
    said: Said = field(default_factory=Said)
    emitted: list[Emitted] = field(default_factory=list)
    aside: KeptEvents = field(init=False)

    def __post_init__(self) -> None:
        targets: Any = {NAME: self.target}
        self.aside = KeptEvents(self.folder, targets, self.said, self.health)

    @property
    def files(self) -> list[Path]:
        return sorted(self.folder.glob("waiting/*"))


def test_events_of_a_table_set_aside_come_once_it_is_well(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    kept.aside.set({NAME: "a field was renamed"}, kept.emitted.append)
    assert kept.health.troubles == {f"table {NAME}": "a field was renamed"}
    for at in (10, 20, 10, 20, 30):  # a reader that is started again says them again
        kept.aside.keep(event(at))
    kept.aside.keep(Emitted(NAME, STREAM, Position(1, 40)))
    kept.aside.set({}, kept.emitted.append)
    assert kept.emitted == [event(10), event(20), event(30)]
    assert kept.health.troubles == {}
    kept.target.landed = Position(1, 20)
    kept.aside.forget_landed()
    assert kept.files, "what has not landed stays on disk"
    kept.target.landed = Position(1, 30)
    kept.aside.forget_landed()
    assert not kept.files


def test_what_is_kept_outlives_a_kill_in_the_middle_of_a_line(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    kept.aside.set({NAME: "wrong"}, None)
    kept.aside.keep(event(10))
    kept.aside.sync()
    with kept.files[0].open("a") as file:
        file.write('["cassandra:host", 1, 2')
    after = Kept(tmp_path)
    after.aside.set({NAME: "wrong"}, None)
    for at in (10, 20):
        after.aside.keep(event(at))
    after.aside.close()
    third = Kept(tmp_path)
    third.aside.give_back(third.emitted.append)
    assert third.emitted == [event(10), event(20)]


def test_events_that_a_kill_cut_off_before_the_table_was_set_aside_are_kept(tmp_path: Path) -> None:
    """They were emitted and had not landed, so that they are read again, and are older than those that were kept."""
    kept = Kept(tmp_path)
    kept.aside.set({NAME: "wrong"}, None)
    for at in (40, 50):
        kept.aside.keep(event(at))
    kept.aside.sync()  # killed: 20 and 30 were emitted before, and have not landed
    for _ in range(2):
        after = Kept(tmp_path)
        after.aside.set({NAME: "wrong"}, None)
        for at in (20, 30, 40, 50, 60, 20, 30, 70):
            after.aside.keep(event(at))
        after.aside.close()
    third = Kept(tmp_path)
    third.aside.give_back(third.emitted.append)
    assert third.emitted == [event(at) for at in (20, 30, 40, 50, 60, 70)]


@dataclass
class Watch:
    """What an agent with this work folder remembers of a table."""

    folder: Path
    health: Health = field(default_factory=Health)
    said: Said = field(default_factory=Said)
    gaps: Gaps = field(init=False)

    def __post_init__(self) -> None:
        self.gaps = Gaps(self.folder, self.said, self.health)

    def look(self, table: NodeTable, *, is_close: bool = True) -> None:
        self.gaps.look(schema(table), [NAME], unseen=1.0 if is_close else math.inf)


def test_cdc_off_is_told_while_it_is_and_the_snapshot_is_due_after(tmp_path: Path) -> None:
    watch = Watch(tmp_path)
    watch.look(TABLE, is_close=False)
    assert (watch.health.troubles, watch.gaps.due()) == ({}, [])
    watch.look(replace(TABLE, has_cdc=False, logged=Logged(200, 100, 50)))
    assert "has cdc = false" in str(watch.health.troubles)
    assert (watch.gaps.due(), watch.gaps.holds_back(NAME)) == ([], True)
    watch.look(replace(TABLE, has_cdc=False, logged=Logged(250, 250, 50)))  # altered while it is off
    on = replace(TABLE, logged=Logged(300, 100, 50))
    watch.look(on)
    assert (watch.gaps.due(), watch.gaps.retake(NAME), watch.gaps.lacks_from(NAME)) == ([NAME], "again-300", 200)
    assert "What was deleted meanwhile no snapshot tells" in str(watch.health.troubles)
    # it outlives a restart
    again = Watch(tmp_path)
    assert again.health.troubles
    again.look(on, is_close=False)
    assert (again.gaps.due(), again.gaps.lacks_from(NAME)) == ([NAME], 200)
    again.gaps.taken(NAME)
    assert (again.gaps.due(), again.health.troubles, again.gaps.retake(NAME)) == ([], {}, "again-300")
    assert Watch(tmp_path).health.troubles == {}


@pytest.mark.parametrize(
    ("logged", "is_close", "is_due"),
    [
        (Logged(200, 200, 50), True, False),  # a column came while it looked
        (Logged(200, 200, 50), False, True),  # something came while nobody looked
        (Logged(200, 100, 50), True, True),  # off and on between two looks, or another setting
        (Logged(100, 100, 60), False, True),  # the keyspace was altered
        (Logged(100, 100, 60), True, False),  # some DDL in the keyspace: that it is off would have been seen
        (Logged(100, 100, 60, 60), False, False),  # the last DDL was another table's
        (Logged(100, 100, 50), False, False),
    ],
)
def test_settings_that_moved_make_the_snapshot_due(tmp_path: Path, logged: Logged, is_close: bool, is_due: bool) -> None:
    Watch(tmp_path).look(TABLE)
    watch = Watch(tmp_path)
    watch.look(replace(TABLE, logged=logged), is_close=is_close)
    assert bool(watch.gaps.due()) is bool(watch.health.troubles) is is_due


def test_from_when_on_the_log_lacks_something(tmp_path: Path) -> None:
    watch = Watch(tmp_path)
    watch.look(TABLE)
    assert watch.gaps.lacks_from(NAME) is None
    before = time.time_ns() // 1000
    watch.look(replace(TABLE, logged=Logged(200, 100, 50)))  # off and on between two looks, at most
    close = watch.gaps.lacks_from(NAME)
    assert close is not None
    assert before - 2_000_000 < close < before
    assert not watch.gaps.is_sure(NAME), "an ALTER that may have been of anything"
    watch.gaps.taken(NAME)
    watch.look(replace(TABLE, logged=Logged(300, 100, 50)), is_close=False)
    assert watch.gaps.lacks_from(NAME) == 200, "nobody looked since the settings were written last"
    watch.look(replace(TABLE, has_cdc=False, logged=Logged(400, 100, 50)))
    watch.look(replace(TABLE, logged=Logged(500, 100, 50)))
    assert (watch.gaps.lacks_from(NAME), Watch(tmp_path).gaps.is_sure(NAME)) == (200, True)


def test_a_truncate_is_told_until_there_is_another_raw_table(tmp_path: Path) -> None:
    other = replace(TABLE, id=UUID(int=9), name="other")
    tables, said, health = NodeSchema("v", {TABLE.id: TABLE, other.id: other}, (), ()), Said(), Health()
    raws = {NAME: "raw/a", other.full_name: "raw/o"}

    def same() -> SameTables:
        return SameTables(tmp_path, list(raws), said, health)

    same().check(tables, raws, {})
    truncated = {table.id: Truncation(1, 1, at) for at, table in ((1_700_000_000_000, TABLE), (1_700_000_001_000, other))}
    for _ in range(2):  # a restart forgets nothing
        health.troubles.clear()
        made = same()
        for _ in range(2):
            made.check(tables, raws, truncated)
        assert len(health.troubles) == 2, "both are told"
    made.check(tables, raws | {NAME: "raw/b"}, truncated)
    assert "shop.other was truncated" in str(health.troubles)
    assert len(health.troubles) == 1
    assert same().check(tables, raws | {NAME: "raw/b"}, truncated) == {}
    assert len(health.troubles) == 1


def test_another_table_of_the_name_has_no_gap(tmp_path: Path) -> None:
    Watch(tmp_path).look(TABLE)
    watch = Watch(tmp_path)
    watch.look(replace(TABLE, id=UUID(int=8), logged=Logged(900, 900, 50)), is_close=False)
    assert watch.gaps.due() == []


def test_a_table_that_has_left_the_project_is_told_of_no_more(tmp_path: Path) -> None:
    Watch(tmp_path).look(replace(TABLE, has_cdc=False))
    for name, is_told in ((NAME, True), ("shop.other", False), (NAME, True)):
        targets, health = {name: Target()}, Health()
        CassandraSource(targets, CassandraOptions(work_folder=tmp_path), Said(), health)  # type: ignore[arg-type]
        assert ("has cdc = false" in str(health.troubles)) is is_told


def test_a_table_without_cdc_or_durable_writes_is_refused_by_name() -> None:
    assert f"{NAME} has no CDC" in _refusal(NAME, replace(TABLE, has_cdc=False))
    assert "keyspace shop has durable_writes = false" in _refusal(NAME, replace(TABLE, is_durable=False))
    assert _refusal(NAME, TABLE) == ""


def test_a_table_that_was_made_again_while_it_was_not_in_the_project_is_told(tmp_path: Path) -> None:
    other = replace(TABLE, id=UUID(int=9), name="other")

    def check(tables: NodeSchema, *names: str) -> dict[str, str]:
        return SameTables(tmp_path, names, Said(), Health()).check(tables, dict.fromkeys(names, "raw/a"), {})

    assert check(NodeSchema("v", {TABLE.id: TABLE}, (), ()), NAME) == {}
    latter = replace(TABLE, id=UUID(int=8))
    tables = NodeSchema("v", {latter.id: latter, other.id: other}, (), ())
    assert check(tables, other.full_name) == {}  # notes the other table, and so writes the record again
    assert "dropped and created again" in check(tables, other.full_name, NAME)[NAME]


def test_a_table_that_was_made_again_is_well_with_another_raw_table(tmp_path: Path) -> None:
    def same() -> SameTables:
        return SameTables(tmp_path, [NAME], Said(), Health())

    assert same().check(schema(TABLE), {NAME: "raw/a"}, {}) == {}
    latter = replace(TABLE, id=UUID(int=8))
    for _ in range(2):  # a restart mixes nothing
        assert "dropped and created again" in same().check(schema(latter), {NAME: "raw/a"}, {})[NAME]
    assert same().check(schema(latter), {NAME: "raw/b"}, {}) == {}
    assert same().check(schema(latter), {NAME: "raw/b"}, {}) == {}
    assert same().was_followed(NAME)


@pytest.mark.parametrize(
    ("column", "fields", "what"),
    [
        ("frozen<addr>", "street text, zip2 int", "field 2 of user type addr is 'zip' int in the schema file and 'zip2' int"),
        ("addr", "street text, zip bigint", "field 2 of user type addr is 'zip' int in the schema file and 'zip' bigint"),
        (
            "map<int, frozen<list<frozen<addr>>>>",
            "street text",
            "field 2 of user type addr is 'zip' int in the schema file and m",
        ),
    ],
)
def test_a_user_type_that_differs_is_told_by_its_field(column: str, fields: str, what: str) -> None:
    text = f"CREATE TYPE shop.addr (street text, zip int); CREATE TABLE shop.orders (k int PRIMARY KEY, c {column});"
    there = read_cql(text.replace("street text, zip int", fields)).table(NAME)
    kind = NodeType("shop", "addr", tuple((a, b) for a, b in (field.split() for field in fields.split(", "))))
    node = replace(TABLE, columns=_columns(column))
    here = read_cql(text).table(NAME)
    assert there != here
    with pytest.raises(UsageError) as refused:
        check(here, node, [kind])
    assert what in str(refused.value)
    assert changes(here, node, [kind]) == [], "a field that was renamed is none that came"


def _columns(kind: str) -> tuple[Any, ...]:
    from cdc_producers.cassandra.node_schema import NodeColumn

    return (NodeColumn("k", "int", "partition_key", 0), NodeColumn("c", kind))


def test_another_key_ends_the_first_start_and_sets_a_followed_table_aside(tmp_path: Path) -> None:
    here = read_cql(f"CREATE TABLE {NAME} (k bigint PRIMARY KEY, c int);").table(NAME)
    targets: Any = {NAME: SimpleNamespace(name=NAME, schema=here, schema_file=None, place="raw/a")}
    source = CassandraSource(targets, CassandraOptions(work_folder=tmp_path), Said(), Health())

    def troubles(*landed: str) -> dict[str, str]:
        same = SameTables(tmp_path, landed, source.log, source.health)
        parts: list[Any] = [SimpleNamespace(truncated={}), None, None, None, same, None]
        return _Work(source, *parts)._troubles(schema(replace(TABLE, columns=_columns("int"))))

    with pytest.raises(UsageError, match="key column 'k', partition bigint, in the schema file") as refused:
        troubles()
    assert refused.value.exit_code == 2
    assert "key column 'k'" in troubles(NAME)[NAME]


@pytest.mark.parametrize("mode", [SnapshotMode.INITIAL, SnapshotMode.NEVER])
def test_lists_of_what_was_kept_are_looked_at_when_it_is_emitted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: SnapshotMode
) -> None:
    """An old element of a list that a snapshot told makes its row wait for a reading, whenever its event lands."""
    kept, stop, emitted = Kept(tmp_path), Event(), list[Emitted]()
    targets: Any = {NAME: SimpleNamespace(version=lambda: 1)}
    source = CassandraSource(targets, CassandraOptions(work_folder=tmp_path, snapshot=mode), kept.said, kept.health)
    source.lists.tell(NAME, 1 << 60)
    cell = {"column": "l", "written": 5, "path": "5a659060-e625-11f1-a401-5328f2f67643", "value": "x"}
    said = {"partition": {"k": 1}, "rows": [{"kind": "row", "clustering": {"c": 2}, "cells": [cell]}]}
    kept.aside.set({NAME: "wrong"}, None)
    kept.aside.keep(event(10, json.dumps(said).encode()))
    kept.aside.set({}, None)

    def over(*_: Any) -> bool:
        stop.set()
        return True

    monkeypatch.setattr(_Work, "push", lambda self: None)
    schemas: Any = SimpleNamespace(look=lambda: False, truncated={}, trouble="", facts=None)
    parts: list[Any] = [schemas, None, SimpleNamespace(round=over), SimpleNamespace(run=lambda: None), None]
    work = _Work(source, *parts, kept.aside)
    work._pushed, work._lists = work._versions, {NAME: ("l",)}
    work.follow(emitted.append, stop)
    assert [item.position for item in emitted] == [Position(1, 10)]
    assert [row.row for row in source.lists.due(now=1e12)] == ['{"c": 2}']
    assert ("start without --snapshot never" in str(kept.health.troubles)) is (mode is SnapshotMode.NEVER)
