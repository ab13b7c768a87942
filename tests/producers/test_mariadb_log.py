"""What the producer makes of a captured binlog, without a server."""

from __future__ import annotations

import base64
import functools
import json
import zlib
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from cdc_producers.binlog import log_events as binlog
from cdc_producers.binlog import snapshots, values
from cdc_producers.binlog.catalog import BinlogColumn
from cdc_producers.binlog.events import BinlogEventWriter, BinlogPosition
from cdc_producers.binlog.log_events import Event, has_checksums, read_event
from cdc_producers.binlog.logged_tables import LoggedTable, LoggedTables
from cdc_producers.binlog.marks import Mark
from cdc_producers.binlog.table_maps import Code, LoggedColumn, TableName
from cdc_producers.binlog.transactions import BinlogTransactions
from cdc_producers.binlog.values import Row
from cdc_producers.mariadb.gtids import Gtid, MariaDbPlace, after
from cdc_producers.source import Emitted, LostError
from helpers.captured import Said, singles
from helpers.mariadb_tables import DDL, canonical

from cdc_views.errors import EngineError, UnsupportedError
from cdc_views.formats.base import SourceLine, order_key
from cdc_views.formats.debezium.format import Debezium
from cdc_views.landing import EventBlock
from cdc_views.model.schema import TableSchema
from cdc_views.rules.codec.jsontext import to_json
from cdc_views.rules.facts import Fact
from cdc_views.rules.oracle import latest_rows
from cdc_views.schemas import read_schema

DATA = Path(__file__).parents[1] / "data" / "mariadb"
COLLATIONS = {8: "latin1", 35: "ucs2", 45: "utf8mb4", 46: "utf8mb4", 51: "cp1251", 63: "binary", 2304: "utf8mb4"}
START = Gtid(0, 1, 3)
TYPES, KEYS = "shop.t_types", "shop.t_keys"


def packets() -> list[bytes]:
    """The captured packets."""
    return [base64.b64decode(json.loads(line)["packet"]) for line in (DATA / "binlog.jsonl").read_text().splitlines()]


@functools.cache
def schema_of(name: str) -> TableSchema:
    """A captured table's schema."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "schema.sql"
        path.write_text(DDL)
        return read_schema(path, table=name, keyspace="shop")


class Target:
    """A table of the captured schema; nothing lands."""

    def __init__(self, name: str) -> None:
        self.name, self.schema = name, schema_of(name)

    def version(self) -> object:
        return 0

    def lander(self, stream: str) -> Any:
        raise NotImplementedError

    def follow(self) -> None:
        raise NotImplementedError


class Reader:
    """Reads the captured packets into events of `tables`; `found` is what the source answers when it is asked again."""

    def __init__(self, *tables: str, start: Gtid = START, starts: Mapping[str, Mark] | None = None) -> None:
        self.handed_on: list[Emitted] = []
        self.log, self.found = Said(), {"v": '"asked"', "extra": "5"}
        self.asked: list[tuple[str, list[str]]] = []
        targets = {name: Target(name) for name in tables or (TYPES, KEYS)}
        logged = LoggedTables(targets, COLLATIONS, lambda name: [], self._reread, self.log)
        begins = {name: after(start, epoch=0) for name in targets}
        self.transactions = BinlogTransactions(
            targets, starts or begins, "mariadb", MariaDbPlace(start), "name:0", logged, self.log, self.handed_on.append
        )

    @property
    def items(self) -> list[Emitted]:
        """Each event by itself."""
        return [single for item in self.handed_on for single in singles(item)]

    def _reread(self, table: str, key: Mapping[str, str], names: Any) -> Mapping[str, str]:
        self.asked.append((table, list(names)))
        return self.found

    def take(self, packets: list[bytes], *, has_checksum: bool = True) -> Reader:
        """Give it packets; GTIDs that its start has are left out, as a server does."""
        for packet in packets:
            self.transactions.take(read_event(packet, has_checksum=has_checksum), "binlog.000001")
        return self

    def events(self, table: str) -> list[dict[str, Any]]:
        """The events of one table."""
        return [json.loads(item.content, parse_float=Decimal) for item in self.items if item.table == table and item.content]


def facts(items: list[Emitted], table: str) -> list[Fact]:
    """What the raw format reads in the events of a table."""
    found = []
    for item in items:
        if item.table == table and item.content is not None:
            found += Debezium().decode(SourceLine(item.content.decode()), schema_of(table))
    return found


def test_rows_of_one_entry_of_the_log_go_on_at_once() -> None:
    reader = Reader().take(packets())
    blocks = [item for item in reader.handed_on if isinstance(item.content, EventBlock)]
    assert blocks
    for block in blocks:
        assert block.position == block.content.position(block.content.events - 1)
    for table in (TYPES, KEYS):
        mine = [item.position for item in reader.items if item.table == table]
        assert mine == sorted(set(mine))
        assert reader.transactions.marked[table].position == mine[-1]


def test_values_of_all_types_are_what_the_source_selects() -> None:
    reader = Reader(TYPES).take(packets())
    inserted = [item for item in reader.items if item.content and b'"op":"c"' in item.content][:3]
    schema = schema_of(TYPES)
    kinds = {column.name: column.type for column in schema.columns}
    rows = []
    for row in latest_rows(schema, facts(inserted, TYPES), now=2_000_000_000):
        rows.append(canonical({n: json.loads(to_json(kinds[n], v), parse_float=Decimal) for n, v in row.items()}))
    assert sorted(rows) == json.loads((DATA / "selected.json").read_text())
    assert all(len(row) > 800 for row in rows)


def test_one_transaction_of_two_tables_is_ordered_and_a_moved_row_is_deleted_and_inserted() -> None:
    reader = Reader().take(packets())
    moved = reader.events(TYPES)[4:6]
    assert [event["op"] for event in moved] == ["d", "c"]
    assert [(event["before"] or event["after"])["id"] for event in moved] == [9, 10]
    changed = reader.events(KEYS)[:4]
    assert [event["op"] for event in changed] == ["c", "c", "u", "u"]
    assert len({event["source"]["gtid"] for event in [*moved, *changed]}) == 1
    assert [event["source"]["row"] for event in [*moved, *changed]] == [1, 2, 3, 5, 7, 9]
    positions = [item.position for item in reader.items if item.table == KEYS]
    assert positions == sorted(set(positions))
    orders = [order_key(p, ordinal=o, epoch=e) for e, p, o in (event["source"]["order"] for event in reader.events(KEYS))]
    assert orders == sorted(set(orders))


def test_columns_come_by_the_names_of_the_log_and_minimal_images_leave_columns_absent() -> None:
    reader = Reader(KEYS).take(packets())
    update, deleted, inserted, gone = reader.events(KEYS)[4:8]
    assert update["after"] == {"a": "x", "b": 1, "extra": 6}
    assert (deleted["op"], deleted["before"]) == ("d", {"a": "y", "b": 1})
    assert inserted["after"] == {"a": "y", "b": 2, "v": "asked", "extra": 5}
    assert reader.asked == [(KEYS, ["extra", "v", "w"])]
    assert (gone["op"], gone["before"]) == ("d", {"a": "x", "b": 1})
    assert any("the source has new columns: extra" in line for line in reader.log.lines)


def test_truncate_and_drop_empty_the_view() -> None:
    reader = Reader().take(packets())
    for table in (KEYS, TYPES):
        assert reader.events(table)[-1]["op"] == "t"
        assert latest_rows(schema_of(table), facts(_without_extra(reader.items), table), now=2_000_000_000) == []
    assert [line for line in reader.log.lines if "the view is empty from here on" in line] != []


def _without_extra(items: list[Emitted]) -> list[Emitted]:
    return [item for item in items if item.content is None or b'"extra":' not in item.content]


def test_what_has_landed_is_left_out_and_the_rest_of_a_transaction_follows() -> None:
    whole = Reader().take(packets())
    some = whole.items[7]
    landed = {some.table: Mark.of(some.position)}
    other = KEYS if some.table == TYPES else TYPES
    before = [item for item in whole.items[:8] if item.table == other]
    landed[other] = Mark.of(before[-1].position) if before else after(START, epoch=0)
    rest = Reader(starts=landed).take(packets())
    for table in (TYPES, KEYS):
        expected = [item.position for item in whole.items if item.table == table and item.position > landed[table].position]
        assert [item.position for item in rest.items if item.table == table] == expected
    assert len(rest.items) < len(whole.items)


def test_a_damaged_event_is_noticed() -> None:
    (rows, *_) = [packet for packet in packets() if packet[4] in binlog.ROWS]
    damaged = bytearray(rows)
    damaged[40] ^= 1
    with pytest.raises(EngineError, match="damaged: its checksum is another one"):
        read_event(bytes(damaged), has_checksum=True)
    with pytest.raises(EngineError, match="were announced"):
        read_event(rows[:-1], has_checksum=True)
    (description,) = [packet for packet in packets() if packet[4] == binlog.FORMAT]
    assert has_checksums(description)


def test_a_transaction_that_breaks_off_is_not_taken_for_committed() -> None:
    kept = packets()
    first_rows = next(place for place, packet in enumerate(kept) if packet[4] in binlog.ROWS)
    ends = [place for place, packet in enumerate(kept) if packet[4] == binlog.XID]
    assert kept[first_rows + 1][4] == binlog.XID
    with pytest.raises(LostError, match="another one begins before it ends"):
        Reader().take(kept[: first_rows + 1] + kept[ends[0] + 1 :])


def test_gtids_that_go_back_are_noticed() -> None:
    kept = packets()
    with pytest.raises(LostError, match=r"0-1-4 comes after 0-1-\d+: two servers count on their own"):
        Reader().take(kept + kept[4:])


def _number(gtid: bytes) -> int:
    return int.from_bytes(gtid[19:27], "little")


def test_another_transaction_than_the_one_that_landed_last_is_told() -> None:
    """A replica took over without it: the new one's changes are not taken for those that have landed."""

    def of_server(packet: bytes, server: int) -> bytes:
        event = packet[:5] + server.to_bytes(4, "little") + packet[9:-4]
        return event + zlib.crc32(event).to_bytes(4, "little")

    whole = Reader().take(packets())
    last = whole.items[-1]
    landed = {name: Mark.of(last.position, last.note) for name in (TYPES, KEYS)}
    assert Reader(starts=landed).take(packets()).items == []
    for behind, told in (
        (landed, r"has 0-2-\d+ in place of the one that landed last, 0-1-\d+"),
        # one table has landed behind it, the other has not
        ({**landed, KEYS: Mark(0, landed[KEYS].sequence + 1, 1)}, r"has 0-2-\d+, but server 1 wrote the one of that number"),
    ):
        others = [
            of_server(one, 2) if one[4] == binlog.MARIADB_GTID and _number(one) >= landed[KEYS].sequence else one
            for one in packets()
        ]
        with pytest.raises(LostError, match=told):
            Reader(starts=behind).take(others)


def test_a_change_in_another_domain_and_rows_logged_as_a_statement_are_refused() -> None:
    def of_domain(packet: bytes, domain: int) -> bytes:
        event = bytearray(packet[:-4])
        event[19 + 8 : 19 + 12] = domain.to_bytes(4, "little")
        return bytes(event) + zlib.crc32(event).to_bytes(4, "little")

    kept = [of_domain(packet, 7) if packet[4] == binlog.MARIADB_GTID else packet for packet in packets()]
    with pytest.raises(LostError, match="in another GTID domain than 0-1-3"):
        Reader().take(kept)

    with pytest.raises(LostError, match="the log has a statement in place of its rows"):
        said_of("INSERT INTO t_keys VALUES (1)")


def said_of(statement: str) -> str:
    """What is said last of a statement of the log."""
    reader = Reader()
    reader.transactions.take(Event(binlog.MARIADB_GTID, 0, 1, 0, (9).to_bytes(8, "little") + bytes(5)), "b.1")
    body = bytes(8) + bytes([4]) + bytes(4) + b"shop\0" + statement.encode()
    reader.transactions.take(Event(binlog.QUERY, 0, 1, 0, body), "b.1")
    return reader.log.lines[-1]


def test_rows_that_went_with_their_partition_are_told() -> None:
    said = said_of("ALTER TABLE t_keys DROP PARTITION p")
    assert said.startswith(f"warning: {KEYS}: a partition or tablespace was changed as a whole, which the log has no rows of")
    assert f"--snapshot-again --table {KEYS}" in said


def test_a_column_that_the_source_dropped_keeps_its_values() -> None:
    def event(op: str, order: int, *names: str) -> Emitted:
        writer = BinlogEventWriter("mariadb", "name:0", "shop", "t_keys", 0, names, ["a", "b"])
        row: Row = [json.dumps({"a": "x", "b": 1}.get(name, f"{name} of {order}")) for name in names]
        return Emitted(KEYS, "name:0", content=writer.event(op, BinlogPosition("0-1-9", 1, 9, order), after=row))

    changes = [event("c", 1, "a", "b", "v", "w"), event("u", 3, "a", "b", "w")]
    (row,) = latest_rows(schema_of(KEYS), facts(changes, KEYS), now=2_000_000_000)
    assert (row["v"], row["w"]) == ("v of 1", "w of 3")


@pytest.mark.parametrize("charset", ["dec8", "hp8", "swe7", "armscii8", "keybcs2", "geostd8"])
def test_a_character_set_that_python_does_not_have_is_refused(charset: str) -> None:
    with pytest.raises(UnsupportedError, match=f"shop.a.v: character set {charset} is not supported"):
        values.text(charset, where="shop.a.v")


def test_a_date_time_of_an_old_format_is_refused() -> None:
    for code in (Code.OLD_TIMESTAMP, Code.OLD_TIME, Code.OLD_DATETIME):
        columns = [LoggedColumn("w", code)]
        with pytest.raises(UnsupportedError, match=r"shop\.t_keys\.w .*5\.5; ALTER TABLE shop\.t_keys FORCE, .*--snapshot-again"):
            LoggedTable(Target(KEYS), TableName(1, "shop", "t_keys", 0), columns, {}, False, b"", 0)


@pytest.mark.parametrize("is_null", [False, True])
def test_a_zero_date_of_the_log_is_no_date(is_null: bool) -> None:
    columns = [LoggedColumn("d", Code.DATE), LoggedColumn("t", Code.DATETIME, (0,)), LoggedColumn("s", Code.TIMESTAMP, (0,))]
    table = LoggedTable(Target(KEYS), TableName(1, "shop", "t_keys", 0), columns, {}, is_null, b"", 0)
    without_month = (1 << 39 | 2024 * 13 << 22 | 1 << 17).to_bytes(5, "big")
    found = [read(content, 0)[0] for read, content in zip(table._readers, (bytes(3), without_month, bytes(4)), strict=True)]
    texts = ['"0000-00-00"', '"2024-00-01 00:00:00"', '"0000-00-00 00:00:00"']
    assert found == ([values.NULL] * 3 if is_null else texts)


def test_a_geometry_loses_its_reference_system() -> None:
    assert values.geometry(b"\xe6\x10\0\0" + b"\x01\x02") == '"0x0102"'
    selected, encode = snapshots._encoder(BinlogColumn("g", "point", "point"), nulls_zero_dates=False)
    assert (selected, encode(b"\xe6\x10\0\0" + b"\x01\x02")) == ("`g`", '"0x0102"'), "no function of the server turns axes"
