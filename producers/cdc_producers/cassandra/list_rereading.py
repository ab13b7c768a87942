"""Reading a row's lists again, and the event that replaces what is known of them; see `lists`."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence

from cassandra.query import SimpleStatement

from cdc_producers.cassandra.lists import SETTLES_AFTER, ListRow, lists_of
from cdc_producers.cassandra.node_schema import quoted
from cdc_producers.cassandra.snapshot_events import Moment, event_of, replaced_list
from cdc_producers.cassandra.snapshot_query import RawRow, Selected
from cdc_producers.cassandra.snapshot_reading import SnapshotReader, cassandra_errors
from cdc_views.landing import Position
from cdc_views.model.schema import Role, TableSchema

_REREADS = 5


def list_event(reader: SnapshotReader, table: TableSchema, key: ListRow, *, node: str, position: Position) -> tuple[bytes, int]:
    """Return an event that replaces a row's lists, and up to when (µs); a row that is gone loses its elements.

    The server tells write times of elements.
    """
    wanted = Role.REGULAR if key.row else Role.STATIC
    names = set(lists_of(table))
    columns = [column for column in table.columns if column.name in names and column.role is wanted]
    chosen = [Selected(column, 1 + 3 * number, has_times=True) for number, column in enumerate(columns)]
    row, moment = _read(reader, table, _select(table, key, chosen))
    until = moment.seconds * 1_000_000 - int(SETTLES_AFTER * 1_000_000)
    cells = [text for selected in chosen for text in replaced_list(selected, row, until, moment)]
    kind = f'"kind":"row","clustering":{key.row}' if key.row else '"kind":"static"'
    return event_of(table, key.part, [f'{{{kind},"cells":[{",".join(cells)}]}}'], node=node, position=position), until


def _read(reader: SnapshotReader, table: TableSchema, text: str) -> tuple[RawRow | None, Moment]:
    """Read the row within one second, if that can be, so that the seconds left say when a cell expires."""
    for attempt in range(_REREADS):
        begun = time.time()
        with cassandra_errors(reader.options, f"reading lists of {table.full_name} again"):
            rows = list(reader.session.execute(SimpleStatement(text)))
        took = (time.time() - begun) * 1000
        if not rows:
            return None, Moment(int(begun))
        clock = int.from_bytes(rows[0][0] or b"", "big")
        if clock % 1000 >= took or attempt == _REREADS - 1:
            break
    return rows[0], Moment(clock // 1000)


def _select(table: TableSchema, key: ListRow, chosen: Sequence[Selected]) -> str:
    names = [quoted(selected.column.name) for selected in chosen]
    parts = ["toUnixTimestamp(now())", *(f"{name}, WRITETIME({name}), TTL({name})" for name in names)]
    values = json.loads(key.part) | (json.loads(key.row) if key.row else {})
    where = " AND ".join(f"{quoted(name)} = fromJson({_literal(value)})" for name, value in values.items())
    return f"SELECT {', '.join(parts)} FROM {quoted(table.keyspace, table.name)} WHERE {where} LIMIT 1"


def _literal(value: object) -> str:
    return "'" + json.dumps(value, ensure_ascii=False).replace("'", "''") + "'"
