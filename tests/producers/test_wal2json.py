"""What wal2json writes becomes the messages that pgoutput's would be."""

from __future__ import annotations

import json
from typing import Any

import pytest
from cdc_producers.postgres.messages import (
    UNCHANGED,
    Begin,
    Commit,
    Delete,
    Insert,
    LogicalMessage,
    Message,
    RelationColumn,
    Truncate,
    Update,
)
from cdc_producers.postgres.wal2json import Wal2JsonReader

from cdc_views.errors import EngineError

COLUMNS = (
    RelationColumn("id", 23, -1), RelationColumn("n", 1700, 655_366), RelationColumn("yes", 16, -1),
    RelationColumn("by", 17, -1), RelationColumn("bit", 1560, 1), RelationColumn("toast", 25, -1),
)  # fmt: skip
WHERE = {"schema": "public", "table": "t"}


def _cells(**values: Any) -> list[dict[str, Any]]:
    kinds = {column.name: column.type_id for column in COLUMNS}
    return [{"name": name, "type": "…", "typeoid": kinds[name], "value": value} for name, value in values.items()]


@pytest.fixture
def reader() -> Wal2JsonReader:
    return Wal2JsonReader({("public", "t"): COLUMNS})


def read(reader: Wal2JsonReader, text: str | None = None, **body: Any) -> Message | None:
    return reader.read((text or json.dumps({**WHERE, **body})).encode())


def test_a_transaction_begins_with_the_position_of_its_commit(reader: Wal2JsonReader) -> None:
    begin = '{"action":"B","xid":726,"timestamp":"2026-11-28 11:36:50.0183+00","lsn":"1/10","nextlsn":"1/20"}'
    assert read(reader, begin) == Begin((1 << 32) + 16, 1_795_865_810_018_300, 726)
    whole = '{"action":"B","xid":7,"timestamp":"1970-01-01 00:00:01+00","lsn":"0/1","nextlsn":"0/2"}'
    assert read(reader, whole) == Begin(1, 1_000_000, 7)
    assert read(reader, begin.replace('"B"', '"C"')) == Commit((1 << 32) + 16, (1 << 32) + 32)
    assert read(reader, action="M", prefix="p", content="12.5", transactional=False) == LogicalMessage("p", b"12.5")


def test_values_are_as_postgresql_prints_them(reader: Wal2JsonReader) -> None:
    text = json.dumps({"action": "I", **WHERE, "columns": _cells(id=1, n=0, yes=True, by="dead", bit="1", toast=None)})
    found = read(reader, text.replace('"value": 0', '"value": 12345678901234567890.10'))
    assert isinstance(found, Insert)
    assert found.new == ("1", "12345678901234567890.10", "t", "\\xdead", "1", None), "digit by digit"
    assert found.relation.columns == COLUMNS, "with the modifiers that the catalog has"


def test_an_update_leaves_out_what_did_not_change(reader: Wal2JsonReader) -> None:
    columns = _cells(id=1, n=2, yes=False, by=None, bit="0")
    found = read(reader, action="U", columns=columns, identity=_cells(id=1))
    assert isinstance(found, Update)
    assert found.new == ("1", "2", "f", None, "0", UNCHANGED)
    assert found.old is None, "its key did not change"
    moved = read(reader, action="U", columns=columns, identity=_cells(id=7))
    assert isinstance(moved, Update)
    assert moved.old == ("7", None, None, None, None, None)
    whole = read(reader, action="U", columns=columns, identity=_cells(id=1, n=2, yes=False, by=None, bit="0", toast="long"))
    assert isinstance(whole, Update)
    assert whole.old == ("1", "2", "f", None, "0", "long"), "REPLICA IDENTITY FULL"
    assert found.relation is moved.relation is whole.relation


def test_a_deletion_has_its_identity_and_a_truncate_nothing(reader: Wal2JsonReader) -> None:
    gone = read(reader, action="D", identity=_cells(id=1))
    assert isinstance(gone, Delete)
    assert (gone.old, [column.name for column in gone.relation.columns]) == (("1",), ["id"])
    emptied = read(reader, action="T")
    assert isinstance(emptied, Truncate)
    assert [relation.full_name for relation in emptied.relations] == ["public.t"]
    assert gone.relation.number != emptied.relations[0].number


def test_a_column_that_came_meanwhile_is_told(reader: Wal2JsonReader) -> None:
    new = [*_cells(id=1), {"name": "extra", "type": "text", "typeoid": 25, "value": "x"}]
    found = read(reader, action="I", columns=new)
    assert isinstance(found, Insert)
    assert [column.name for column in found.relation.columns] == ["id", "extra"]


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"action":"I","schema":"public","table":"t"}', '{"action":"B","xid":1,"timestamp":"x","lsn":"0/1"}',
     '{"action":"I","schema":"public","table":"t","columns":[{"name":"a","typeoid":25,"value":{}}]}'],
)  # fmt: skip
def test_what_it_does_not_write_is_refused(reader: Wal2JsonReader, text: str) -> None:
    with pytest.raises(EngineError, match=f"a wal2json message of {len(text)} bytes is not as format version 2 has it"):
        reader.read(text.encode())


def test_names_are_escaped_in_the_list_of_tables() -> None:
    options = Wal2JsonReader({("public", "a.b"): (), ("S x", "it's"): ()}).options(reads_echoes=True)
    assert "\"add-tables\" 'public.a\\.b,S\\ x.it\\''s'" in options
    assert "\"format-version\" '2'" in options
