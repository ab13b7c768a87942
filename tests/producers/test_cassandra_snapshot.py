"""The parts of a Cassandra snapshot that need no server: positions, ranges, the SELECT, rows as events."""

from __future__ import annotations

import struct
from contextlib import nullcontext
from itertools import pairwise
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("cassandra")

from cassandra import ConsistencyLevel
from cdc_producers.cassandra import snapshot_reading
from cdc_producers.cassandra.lists import OldLists
from cdc_producers.cassandra.options import CassandraOptions, SnapshotMode, SnapshotOptions
from cdc_producers.cassandra.snapshot import SnapshotSource
from cdc_producers.cassandra.snapshot_events import Moment, SnapshotEventWriter
from cdc_producers.cassandra.snapshot_query import (
    FIRST_TOKEN,
    LAST_TOKEN,
    WHOLE,
    RawRow,
    RingPosition,
    Selection,
    TokenRange,
    primary_ranges,
    remaining,
    split,
    whole_ring,
)
from cdc_producers.cassandra.snapshot_reading import Page, SnapshotReader
from cdc_producers.cassandra.verifying import opened
from cdc_producers.metrics import Metrics
from cdc_producers.source import Emitted
from helpers.captured import Said
from helpers.cassandra_rows import NOW, a_row, number, several, table

from cdc_views.errors import UsageError
from cdc_views.formats.base import SourceLine
from cdc_views.formats.cassandra_mutation import CassandraMutation
from cdc_views.rules.cells import Cell, Deletion, Liveness
from cdc_views.rules.facts import Elements, Fact, FactKind
from cdc_views.rules.oracle import latest_rows
from cdc_views.schemas.cql.reader import read_cql

TOKENS = st.integers(FIRST_TOKEN, LAST_TOKEN)
PLACES = st.builds(RingPosition, TOKENS, st.integers(0, (1 << 22) - 1), st.integers(0, (1 << 40) - 1))


@given(PLACES)
def test_a_position_says_where_it_was(place: RingPosition) -> None:
    assert RingPosition.of(place.position) == place
    assert place.position < WHOLE or place.token == LAST_TOKEN
    assert all(0 <= part < 1 << 63 for part in place.position)


@given(PLACES, PLACES)
def test_positions_ascend_as_places_do(one: RingPosition, other: RingPosition) -> None:
    assert (one.position < other.position) == (one < other)


@given(st.lists(st.tuples(TOKENS, st.sampled_from("abc")), min_size=1, unique_by=lambda owner: owner[0]))
def test_every_token_is_read_by_one_node(owners: list[tuple[int, str]]) -> None:
    parts = sorted(found for node in "abc" for found in primary_ranges(owners, node))
    assert parts[0].after == FIRST_TOKEN
    assert parts[-1].through == LAST_TOKEN or owners == [(LAST_TOKEN, owners[0][1])]
    assert all(one.through == other.after for one, other in pairwise(parts))


@given(st.integers(1, 300), TOKENS)
def test_what_remains_begins_at_the_partition_it_was_at(parts: int, token: int) -> None:
    cut = list(split(whole_ring(), parts))
    assert [cut[0].after, cut[-1].through] == [FIRST_TOKEN, LAST_TOKEN]
    left = remaining(cut, RingPosition(token))
    assert left[0].after == max(token - 1, FIRST_TOKEN)
    assert all(one.through == other.after for one, other in pairwise([*left, TokenRange(LAST_TOKEN, LAST_TOKEN)]))


@pytest.mark.parametrize("bad", [{"consistency": "MOST"}, {"page_rows": 0}, {"rows_per_second": -1}, {"ranges": 0}])
def test_a_choice_that_cannot_be_is_refused(bad: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        SnapshotOptions(**bad)  # type: ignore[arg-type]


@pytest.mark.parametrize(("more", "consistency"), [("", "ALL"), ("?consistency=quorum", "QUORUM")])
def test_verify_reads_at_all_or_as_its_address_says(monkeypatch: pytest.MonkeyPatch, more: str, consistency: str) -> None:
    monkeypatch.setattr(SnapshotReader, "connected", lambda options: nullcontext(SimpleNamespace(options=options)))
    with opened(f"cassandra://10.0.0.5:9043{more}", None) as live:  # type: ignore[arg-type]
        options = live.reader.options
    assert (options.host, options.port, options.consistency) == ("10.0.0.5", 9043, consistency)


@pytest.mark.parametrize(("given", "level"), [({}, "LOCAL_QUORUM"), ({"snapshot_consistency": "all"}, "ALL")])
def test_a_snapshot_reads_at_the_level_that_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, given: dict[str, Any], level: str
) -> None:
    asked: list[Any] = []

    def cluster_at(*most: Any, **_: Any) -> None:
        asked.extend(most)
        raise UsageError("enough")

    monkeypatch.setattr(snapshot_reading, "cluster_at", cluster_at)
    options = CassandraOptions(work_folder=tmp_path, **given).of_snapshot
    with pytest.raises(UsageError, match="enough"), SnapshotReader.connected(options):
        pass
    assert asked[-1].consistency_level == ConsistencyLevel.name_to_value[level]


def map_of(key: bytes, value: bytes) -> bytes:
    """A map of one entry as the protocol carries it."""
    return struct.pack(">i", 1) + several(key, value, counted=False)


def facts(
    *rows: RawRow, log_since: int = 100, tells_elements: bool = True, marks_rows: bool = True, lacks_from: int | None = None
) -> list[Fact]:
    selection = Selection.of(table(), tells_elements=tells_elements)
    writer = SnapshotEventWriter(selection, "snapshot", 1, log_since, marks_rows, lacks_from)
    text = writer.event(rows, Moment(NOW), number=1, with_static=True).decode()
    return CassandraMutation().decode(SourceLine(text, 1), table())


def test_a_cell_keeps_its_write_time_and_expiry() -> None:
    (fact,) = facts(a_row(v=(b"x", number(7), number(60, 4))))
    assert fact.cells["v"] == Cell(7, "x", b"x", 60, NOW + 60)
    assert fact.liveness == Liveness(0, 60, NOW + 60), "where every cell expires, so does the row"


def test_a_row_marker_does_not_expire_beside_a_cell_that_does_not() -> None:
    elements = map_of(b"k", number(1, 4)), several(number(9)), several(None)
    (fact,) = facts(a_row(v=(b"x", number(7), number(60, 4)), m=elements))
    assert fact.liveness == Liveness(0)
    assert [(path, cell.written, cell.expires_at) for path, cell in fact.elements["m"].cells] == [("k", 9, None)]


@pytest.mark.parametrize(("row", "marked"), [(a_row(), True), (a_row(v=(b"x", number(7), None)), False)])
def test_rows_taken_for_updated_are_marked_only_where_nothing_else_shows_them(row: RawRow, marked: bool) -> None:
    (fact,) = facts(row, marks_rows=False)
    assert fact.liveness == (Liveness(0) if marked else None)


@pytest.mark.parametrize(
    ("row", "marker"),
    [
        (a_row(), Liveness(50)),  # no deletion from before the gap has deleted it
        (a_row(v=(b"x", number(49), None)), None),  # the log says whether that was an INSERT
        (a_row(v=(b"x", number(60), None), m=(map_of(b"k", number(1, 4)), several(number(55)), several(None))), Liveness(55)),
        (a_row(v=(b"x", number(49), None), u=(several(number(1, 4), counted=False), several(number(60)), several(number(9, 4)))),
         Liveness(60, 9, NOW + 9)),
        (a_row(v=(b"x", number(100), None)), None),  # the log has it again
    ],
)  # fmt: skip
def test_a_snapshot_that_is_taken_again_marks_rows_of_the_gap(row: RawRow, marker: Liveness | None) -> None:
    (fact,) = facts(row, lacks_from=50)
    assert fact.liveness == marker


@pytest.mark.parametrize(("landed", "marker"), [((), Liveness(7)), (("snapshot:h",), None), (("snapshot",), None)])
def test_a_new_raw_table_has_the_markers_of_all_rows_whatever_gap_there_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, landed: tuple[str, ...], marker: Liveness | None
) -> None:
    """A row from before the gap; where the first snapshot has landed, its marker, or the log's, is there."""
    page = Page([a_row(v=(b"x", number(7), None))], Moment(NOW), whole_ring()[0], is_last=True)
    reader: Any = SimpleNamespace(host_id="h", tells_elements=True, ranges=whole_ring, pages=lambda *_: [page])
    monkeypatch.setattr(SnapshotReader, "connected", lambda _: nullcontext(reader))
    places = dict.fromkeys(landed, WHOLE)
    target: Any = SimpleNamespace(
        schema=table(), place="raw/new", lander=lambda s: SimpleNamespace(position=lambda: places.get(s))
    )
    gap = {"retake": "again-300", "lacks_from": 200, "is_sure": False, "holds_back": False}
    gaps: Any = SimpleNamespace(**{name: lambda _, what=what: what for name, what in gap.items()})
    emitted: list[Emitted] = []
    options = SnapshotOptions(own_ranges=True)
    SnapshotSource({"ks.t": target}, options, Said(), Metrics("cassandra"), gaps, OldLists(tmp_path)).run(emitted.append, Event())
    (fact,) = CassandraMutation().decode(SourceLine((emitted[0].content or b"").decode(), 1), table())
    assert fact.liveness == marker
    ended = {item.stream for item in emitted if item.position == WHOLE}
    assert ended == {"snapshot:h", "snapshot:h:again-300"}, "what the next gap leaves out is here from now on"


def test_a_field_that_is_missing_is_no_cell() -> None:
    (fact,) = facts(a_row(u=(several(None, b"y", counted=False), several(None, number(8)), several(None, number(9, 4)))))
    assert fact.elements["u"] == Elements(None, (("y", Cell(8, "y", b"y", 9, NOW + 9)),))


def test_static_columns_come_with_the_partition_and_alone_where_it_has_no_row() -> None:
    alone = a_row(st=(number(3, 4), number(6), None))
    alone = (*alone[:3], None, *alone[4:])
    (fact,) = facts(alone)
    assert (fact.kind, fact.cells["st"]) == (FactKind.STATIC, Cell(6, 3, number(3, 4)))


def test_a_list_replaces_what_the_log_has_of_it_up_to_the_newest_that_is_only_here() -> None:
    """Elements of the log come with paths that no SELECT tells: those of before would show twice."""
    elements = several(b"a", b"b", b"c"), several(number(40), number(50), number(200)), several(None, None, None)
    found = facts(a_row(l=elements))
    list_ = found[0].elements["l"]
    assert list_.deletion == Deletion(50, NOW)
    assert [(cell.value, cell.written) for _, cell in list_.cells] == [("a", 51), ("b", 51)], "c is left to the log"
    prepended, appended = (Fact(FactKind.ROW, (1,), (2,), elements={"l": Elements(None, (one,))}) for one in later())
    ((row,),) = [latest_rows(table(), [*found, prepended, appended], now=NOW)]
    assert row["l"] == ("first", "a", "b", "last")


def later() -> list[tuple[object, Cell]]:
    """Elements prepended and appended in 2026, with paths as Cassandra makes them."""
    from uuid import UUID

    first, last = UUID("d8c5b1e0-9b3e-11c8-8080-808080808080"), UUID("5a659060-e625-11f1-a401-5328f2f67643")
    return [(first, Cell(300, "first", b"first")), (last, Cell(301, "last", b"last"))]


def test_elements_without_a_write_time_rank_below_any_event() -> None:
    row = (*a_row()[:10], several(b"a"), map_of(b"k", number(1, 4)), several(None, b"y", counted=False))
    found = facts(row, tells_elements=False)[0]
    for name, path in (("m", "k"), ("u", "y")):
        assert [(place, cell.written, cell.expires_at) for place, cell in found.elements[name].cells] == [(path, 0, None)]
    assert found.elements["l"].deletion is None
    assert found.elements["l"].cells[0][1].written == 0
    logged = Fact(FactKind.ROW, (1,), (2,), elements={"l": Elements(None, ((later()[1][0], Cell(5, "a", b"a")),))})
    assert latest_rows(table(), [found, logged], now=NOW)[0]["l"] == ("a", "a"), "nobody knows that it is the same"


def test_only_a_page_with_expiring_cells_has_to_be_read_within_a_second() -> None:
    selection = Selection.of(table(), tells_elements=True)
    elements = map_of(b"k", number(1, 4)), several(number(9)), several(None)
    assert not selection.has_expiring([a_row(v=(b"x", number(7), None), m=elements)])
    assert selection.has_expiring([a_row(v=(b"x", number(7), number(5, 4)))])
    assert selection.has_expiring([a_row(m=(elements[0], elements[1], several(number(5, 4))))])


def test_names_are_quoted_whatever_is_in_them() -> None:
    ddl = 'CREATE TABLE "Ks"."T%d" ("k ""k" int PRIMARY KEY, "V" int);'
    (found,) = read_cql(ddl).tables.values()
    text = Selection.of(found, tells_elements=True).over(TokenRange(-5, 7))
    assert 'WRITETIME("V"), TTL("V") FROM "Ks"."T%d" WHERE token("k ""k") > -5 AND token("k ""k") <= 7' in text


def test_a_snapshot_alone_reads_everything_and_one_beside_the_log_what_its_node_has(tmp_path: Path) -> None:
    """Alone it also reads tables whose log has had everything: their segments may have landed in another raw table."""
    owners = [(SimpleNamespace(value=token), SimpleNamespace(host_id=node)) for token, node in ((-5, "a"), (7, "b"))]
    tokens = SimpleNamespace(token_to_host_owner=SimpleNamespace(items=lambda: owners))
    session = SimpleNamespace(cluster=SimpleNamespace(metadata=SimpleNamespace(token_map=tokens)))
    read = []
    for mode in (SnapshotMode.ONLY, SnapshotMode.INITIAL):
        options = CassandraOptions(work_folder=tmp_path, snapshot=mode).of_snapshot
        ranges = SnapshotReader(options, session, "b", True).ranges()  # type: ignore[arg-type]
        read.append((options.passes_over_logged, ranges))
    assert read == [(False, whole_ring()), (True, [TokenRange(-5, 7)])]


def test_reading_is_paced(tmp_path: Path) -> None:
    page = SimpleNamespace(paging_state=None, current_rows=[("a", None)] * 30)
    future = SimpleNamespace(result=lambda: page, add_callbacks=lambda *_: None)
    session = SimpleNamespace(execute_async=lambda *_, **__: future)
    selection = SimpleNamespace(over=str, table=table(), has_expiring=lambda _: False)
    waited: list[float] = []
    stop = SimpleNamespace(is_set=lambda: False, wait=waited.append)
    for rate in (0, 10):
        options = CassandraOptions(work_folder=tmp_path, snapshot_rate=rate).of_snapshot
        reader = SnapshotReader(options, session, "id", True)  # type: ignore[arg-type]
        assert len(list(reader.pages(selection, [(0, 1), (1, 2)], stop))) == 2  # type: ignore[arg-type, list-item]
    assert [round(seconds) for seconds in waited] == [3, 6], "nobody has slept: 30 rows take 3 s, 60 take 6 s"
