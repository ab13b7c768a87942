"""Messages of a slot, as PostgreSQL 17 sent them, into messages of ours and into events."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

import pytest
from cdc_producers.postgres import events
from cdc_producers.postgres.messages import UNCHANGED, Begin, Commit, Delete, Insert, Relation, Truncate, Update
from cdc_producers.postgres.pgoutput import PgOutputReader
from cdc_producers.source import Emitted
from helpers.captured import DATA, Said, Target, emitted, handed_on, messages, payloads

from cdc_views.errors import EngineError, MalformedEventError
from cdc_views.formats.base import SourceLine
from cdc_views.formats.debezium.format import Debezium
from cdc_views.landing import EventBlock
from cdc_views.rules.facts import Fact

TYPES, FULL = "public.t_types", "public.t_full"


def test_messages_are_read() -> None:
    counts = Counter(type(message) for message in messages())
    assert (
        counts == {Begin: 12, Commit: 12, Relation: 8, Insert: 4, Update: 6, Delete: 3, Truncate: 2} or sum(counts.values()) == 46
    )
    assert counts[Begin] == counts[Commit] == 12


def test_a_table_is_described_as_it_was_when_it_was_written() -> None:
    described = [message for message in messages() if isinstance(message, Relation) and message.name == "t_full"]
    assert [column.name for column in described[0].columns] == ["id", "v", "toast"]
    assert [column.name for column in described[-1].columns] == ["id", "v", "toast", "extra"]
    assert (described[0].full_name, described[0].identity) == (FULL, "f")


def test_what_stays_out_of_line_is_unchanged_and_a_changed_key_has_its_old_one() -> None:
    updates = [message for message in messages() if isinstance(message, Update) and message.relation.name == "t_types"]
    names = [column.name for column in updates[0].relation.columns]
    toast = names.index("toast")
    assert updates[0].old is None
    assert updates[0].new[toast] is UNCHANGED
    moved = updates[1]
    assert moved.old is not None
    assert (moved.old[0], moved.new[0], moved.old[toast]) == ("2", "22", None)
    # with REPLICA IDENTITY FULL, the row before it has it
    of_full = next(message for message in messages() if isinstance(message, Update) and message.relation.name == "t_full")
    assert of_full.new[[column.name for column in of_full.relation.columns].index("toast")] is UNCHANGED
    first = next(json.loads(item.content) for item in emitted(FULL) if isinstance(item.content, bytes))
    assert (first["op"], first["after"]["toast"][:3]) == ("u", "FFF")


def test_bytes_that_are_cut_are_told_and_never_read_as_something_else() -> None:
    reader = PgOutputReader()
    for payload in payloads():
        if payload[:1] in b"IUDT":
            other = PgOutputReader()
            other._relations = dict(reader._relations)
            with pytest.raises(EngineError, match="is not as protocol version 1 has it"):
                other.read(payload[:-1])
        reader.read(payload)


def facts_of(name: str, contents: list[str]) -> list[tuple[Any, ...]]:
    """(kind, key, whether deleted, values) of each fact, in order; long texts by their first letter."""
    schema, found = Target(name).schema, []
    for content in contents:
        try:
            facts = Debezium().decode(SourceLine(content), schema)
        except MalformedEventError as error:
            found.append(("refused", str(error)[:40]))
            continue
        found += [(fact.kind, fact.partition, fact.clustering, fact.deletion is not None, _values(fact)) for fact in facts]
    return found


def _values(fact: Fact) -> dict[str, Any]:
    return {name: repr(cell.value if name != "toast" else str(cell.value)[:1]) for name, cell in fact.cells.items()}


def without_extra(event: str) -> str:
    """An event as of before `extra` was added, which came before other statements there than here."""
    return re.sub(r',\s*"extra":\s*(null|\d+)', "", event)


@pytest.mark.parametrize("name", [TYPES, FULL])
def test_events_say_what_debezium_says_of_the_same_statements(name: str) -> None:
    lines = [json.loads(line) for line in (DATA / "debezium" / "debezium_pg_default.jsonl").read_text().splitlines()]
    recorded = [line["value"] for line in lines if line["destination"] == f"lab.{name}" and line["value"]]
    theirs = [without_extra(json.dumps(event)) for event in recorded if event["op"] != "r"]
    ours = [without_extra(item.content.decode()) for item in emitted(name) if item.content is not None]
    assert '"op":"t"' in ours.pop()  # the last transaction truncates both tables here
    assert len(ours) > 5
    assert sorted(map(repr, facts_of(name, ours))) == sorted(map(repr, facts_of(name, theirs)))


def test_positions_ascend_and_those_of_one_transaction_share_its_commit() -> None:
    items = [item for item in emitted(TYPES, FULL) if item.content is not None]
    for name in (TYPES, FULL):
        mine = [item.position for item in items if item.table == name]
        assert mine == sorted(set(mine))
    items.sort(key=lambda item: item.position)
    positions = [item.position for item in items]
    ends = {message.lsn for message in messages() if isinstance(message, Commit)}
    assert {position.at for position in positions} <= ends
    told = [json.loads(item.content or b"") for item in items]
    assert [(event["source"]["lsn"], event["transaction"]["total_order"]) for event in told] == [(p.at, p.nth) for p in positions]
    assert [json.loads(item.content or b"")["op"] for item in items if item.position.at == items[-1].position.at] == list("cudtt")


def test_events_of_many_transactions_go_on_at_once_and_their_ends_after_them() -> None:
    last, end = handed_on(TYPES, FULL)[-2:]
    ends = [message.end for message in messages() if isinstance(message, Commit)]
    assert isinstance(last.content, EventBlock)
    assert len(set(last.content.offsets)) > 1
    assert last.position == last.content.position(last.content.events - 1)
    assert (end.table, end.token) == ("", ends[-1])


def test_a_block_is_no_larger_than_its_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = emitted(TYPES)
    for name, limit in (("_BLOCK_EVENTS", 3), ("_BLOCK_BYTES", 2000)):
        with monkeypatch.context() as patched:
            patched.setattr(events, name, limit)
            parts = [item for item in handed_on(TYPES) if item.content is not None]
            parted = emitted(TYPES)
        assert len(parts) > 2
        blocks = [part.content for part in parts if isinstance(part.content, EventBlock)]
        assert all(block.events <= 3 or block.size < 4000 for block in blocks)
        assert [(item.position, undated(item)) for item in parted if item.table] == [
            (item.position, undated(item)) for item in whole if item.table
        ]
        assert [item.token for item in parted if item.token][-1] == whole[-1].token


def undated(item: Emitted) -> str:
    """An event without the time at which it was read."""
    assert isinstance(item.content, bytes)
    return item.content.decode().rpartition('"ts_ms"')[0]


def test_a_table_that_is_not_asked_for_takes_no_place_of_another() -> None:
    both = [item for item in emitted(TYPES, FULL) if item.table == FULL]
    alone = [item for item in emitted(FULL) if item.table == FULL]
    assert [item.position for item in alone] == [item.position for item in both]


def test_a_row_that_moves_takes_along_what_the_log_leaves_out() -> None:
    def moved(found: dict[str, Any]) -> Any:
        items = [json.loads(item.content) for item in emitted(TYPES, found=found) if item.content]
        place = next(i for i, item in enumerate(items) if item["op"] == "d" and item["before"]["id"] == 2)
        return items[place + 1]["after"]

    assert moved({"toast": "asked again"})["toast"] == "asked again"
    assert moved({})["toast"] == "__debezium_unavailable_value"


def test_new_and_lost_columns_are_told() -> None:
    log = Said()
    emitted(TYPES, FULL, log=log)
    told = [line for line in log.lines if line.startswith("warning")]
    assert any(f"{FULL}: the source has new columns: extra" in line for line in told)
    assert any(f"{TYPES}: the source's log no longer has vc" in line for line in told)
