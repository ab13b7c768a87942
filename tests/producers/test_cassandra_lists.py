"""Lists after a snapshot, without a server: what of the log makes a row be read again, and what replaces it."""

from __future__ import annotations

import json
import time
from pathlib import Path
from uuid import UUID

import pytest

pytest.importorskip("cassandra")

from cdc_producers.cassandra import lists
from cdc_producers.cassandra.lists import ListRow, OldLists, created, lists_of
from cdc_producers.cassandra.snapshot_events import Moment, SnapshotEventWriter, replaced_list
from cdc_producers.cassandra.snapshot_query import Selected, Selection
from helpers.cassandra_rows import NOW, a_row, number, several, table

from cdc_views.formats.base import SourceLine
from cdc_views.formats.cassandra_mutation import CassandraMutation
from cdc_views.rules.facts import Fact
from cdc_views.rules.oracle import latest_rows

NAME = "ks.t"
SINCE = 1_795_000_000_000_000
APPENDED = "5a659060-e625-11f1-a401-5328f2f67643"
PART, ROW = '{"k": 1}', '{"c": 2}'


def old(tmp_path: Path, since: int = SINCE) -> OldLists:
    made = OldLists(tmp_path)
    made.tell(NAME, since)
    return made


def mutation(*rows: dict[str, object], **more: object) -> bytes:
    return json.dumps({"partition": {"k": 1}, "rows": rows, **more}).encode()


def a_cell(written: int, path: str = APPENDED, column: str = "l") -> dict[str, object]:
    return {"kind": "row", "clustering": {"c": 2}, "cells": [{"column": column, "written": written, "path": path, "value": "x"}]}


def found(made: OldLists) -> list[ListRow]:
    return made.due(now=1e12)


def test_a_path_tells_when_its_element_was_added() -> None:
    moment = UUID(APPENDED)
    assert created(APPENDED) == (moment.time - 0x01B21DD213814000) // 10
    # one prepended at SINCE: as far before 2010 as that is after it (Cassandra's Lists.java)
    ticks = (2 * 1_262_304_000_000_000 - SINCE) * 10 + 0x01B21DD213814000
    prepended = UUID(fields=(ticks & 0xFFFFFFFF, ticks >> 32 & 0xFFFF, ticks >> 48 & 0x0FFF | 0x1000, 0x80, 0, 0))
    assert created(str(prepended)) == SINCE


AT = created(APPENDED)


@pytest.mark.parametrize(
    ("row", "waits"),
    [
        (a_cell(AT + 5), False),  # appended after the snapshot
        (a_cell(AT - 5), True),  # written as if it were older
        (a_cell(AT + 5, "5a659060-e625-11e1-a401-5328f2f67643"), True),  # an old one that is set or removed
        (a_cell(AT - 5, column="m"), False),
        ({"kind": "row", "clustering": {"c": 2}, "cells": [{"column": "l", "deletion": {"written": AT - 5}}]}, True),
        ({"kind": "row", "clustering": {"c": 2}, "cells": [{"column": "l", "deletion": {"written": AT + 5}}]}, False),
        ({"kind": "row", "clustering": {"c": 2}, "deletion": {"written": AT - 5}}, False),  # its write times are exact
    ],
)
def test_a_row_waits_where_the_log_has_something_old_of_its_list(tmp_path: Path, row: dict[str, object], waits: bool) -> None:
    made = old(tmp_path, AT)
    made.note(NAME, ["l"], mutation(row))
    assert found(made) == ([ListRow(NAME, PART, ROW)] if waits else [])
    assert (made.newest(NAME) > AT) is waits, "while one waits, nothing of lists is passed over"
    assert found(OldLists(tmp_path)) == found(made), "it outlives a restart"


def test_a_row_that_was_replaced_is_looked_at_up_to_then(tmp_path: Path) -> None:
    made, key = old(tmp_path, AT), ListRow(NAME, PART, ROW)
    made.replacing([key], AT + 100)
    for said in (
        mutation(a_cell(AT + 50)),
        mutation({"kind": "row", "clustering": {"c": 2}, "deletion": {"written": AT + 50}}),
        mutation({"kind": "range_deletion", "deletion": {"written": AT + 50}}),
        mutation(partition_deletion={"written": AT + 50}),
    ):
        made.note(NAME, ["l"], said)
        assert found(made) == [key], said
        made.landed(key, 1e12)
        assert found(made) == []
    # as one of a snapshot that was taken again, whose elements look younger than they are
    other = OldLists(tmp_path / "other")
    other.tell(NAME, AT)
    snapshot = event(f'{{"column":"l","deletion":{{"written":{AT - 2},"deleted_at":1}}}},' + element(AT - 1, "x", APPENDED))
    other.told_again(NAME, table(), snapshot, AT)
    other.note(NAME, ["l"], mutation({"kind": "row", "clustering": {"c": 2}, "deletion": {"written": AT - 5}}))
    assert found(other) == [key]
    made.note(NAME, ["l"], mutation(a_cell(AT + 150_000_000, path="5a659060-e626-11f1-a401-5328f2f67643")))
    made.note(NAME, ["l"], mutation(partition_deletion={"written": AT + 150}))
    assert made.newest(NAME) == AT + 100


def test_what_is_found_while_a_row_is_read_again_waits_on(tmp_path: Path) -> None:
    made, key = old(tmp_path, AT), ListRow(NAME, PART, ROW)
    made.note(NAME, ["l"], mutation(a_cell(AT - 5)))
    made.landed(key, 1.0)
    assert found(made) == [key]
    limit = time.time() + lists._DUE_AFTER
    assert made.due(now=limit - 2) == [], "not at once: what is under way is left to the log"
    assert made.due(now=limit + 2) == [key]


def test_a_table_whose_log_has_everything_is_not_looked_at(tmp_path: Path) -> None:
    made = old(tmp_path, 0)
    assert (made.newest(NAME), made.is_known(NAME)) == (0, True)
    other = OldLists(tmp_path)
    other.tell(NAME, SINCE)
    before = made.version
    made.refresh()
    assert (made.newest(NAME), made.version > before) == (SINCE, True)


def facts(*lines: bytes) -> list[Fact]:
    return [fact for line in lines for fact in CassandraMutation().decode(SourceLine(line.decode(), 1), table())]


def element(written: int, value: str, path: str) -> str:
    return f'{{"column":"l","written":{written},"path":"{path}","value":"{value}","bytes":"{value.encode().hex()}"}}'


def event(cells: str) -> bytes:
    head = '"format":"cassandra-mutation/1","node":"n","segment":1,"position":1,"keyspace":"ks","table":"t"'
    return f'{{{head},"partition":{{"k":1}},"rows":[{{"kind":"row","clustering":{{"c":2}},"cells":[{cells}]}}]}}'.encode()


def test_lists_of_a_snapshot_taken_again_replace_those_of_the_first() -> None:
    selection = Selection.of(table(), tells_elements=True)

    def snapshot(since: int, lacks_from: int | None, *values: bytes) -> bytes:
        times, left = several(*[number(50)] * len(values)), several(*[None] * len(values))
        row = a_row(v=(b"v", number(7), None), l=(several(*values), times, left))
        writer = SnapshotEventWriter(selection, "snapshot", 1, since, lacks_from=lacks_from)
        return writer.event([row], Moment(NOW), number=1, with_static=True)

    found = facts(snapshot(200, 150, b"a", b"c"), snapshot(100, None, b"a", b"b", b"c"))
    assert latest_rows(table(), found, now=NOW)[0]["l"] == ("a", "c")


def test_a_late_element_shows_once_the_row_was_read_again() -> None:
    """The snapshot hides it, as it hides what the log has of its own elements; the reading after it tells it."""
    selection = Selection.of(table(), tells_elements=True)
    first = a_row(v=(b"v", number(7), None), l=(several(b"a"), several(number(50)), several(None)))
    snapshot = SnapshotEventWriter(selection, "snapshot", 1, 100).event([first], Moment(NOW), number=1, with_static=True)
    late, young = event(element(40, "late", APPENDED)), event(element(900, "young", "5a659060-e626-11f1-a401-5328f2f67643"))
    assert latest_rows(table(), facts(snapshot, late), now=NOW)[0]["l"] == ("a",)
    lists = [column for column in table().columns if column.name in lists_of(table())]
    again: tuple[bytes | None, ...] = (None, several(b"a", b"late"), several(number(50), number(40)), several(None, None))
    cells = ",".join(
        text for column in lists for text in replaced_list(Selected(column, 1, has_times=True), again, 500, Moment(NOW))
    )
    assert latest_rows(table(), facts(event(cells), young, late, snapshot), now=NOW)[0]["l"] == ("a", "late", "young")
    gone = ",".join(
        text for column in lists for text in replaced_list(Selected(column, 1, has_times=True), None, 600, Moment(NOW))
    )
    assert latest_rows(table(), facts(event(cells), event(gone), late, snapshot), now=NOW)[0]["l"] is None
