"""Asking the source for values that its log leaves out."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from psycopg.types.string import TextLoader

from cdc_producers.postgres.connections import identifier, postgres_errors, rows
from cdc_producers.postgres.pgoutput import Field, Relation
from cdc_views.errors import EngineError, TransientError

_SEEN_WITHIN = 10.0
"""Seconds; longer than a server takes from writing a commit to its log until others see it."""


def reread(
    connection: Any, relation: Relation, key: Mapping[str, Field], names: Sequence[str], *, transaction: int
) -> dict[str, Field]:
    """Return columns of the row that has this key now, as printed; none where it has gone, or a column or the table has.

    The row may have been written since. That write comes later in the log and so wins, and a row that is gone by now
    has its deletion there: once the log was read, what is shown is what the source has. A row as it was before the
    `transaction` that the log tells of would be wrong: that may have been sent before others see it.
    """
    _wait_until_seen(connection, transaction)
    columns = ", ".join(identifier(name) for name in names).replace("%", "%%")
    where = " AND ".join(f"{identifier(name)} = %s" for name in key).replace("%", "%%").replace("%%s", "%s")
    table = f"{identifier(relation.namespace)}.{identifier(relation.name)}".replace("%", "%%")
    try:
        with postgres_errors("reading a row again"), connection.cursor() as cursor:
            for number in {column.type_id for column in relation.columns}:
                cursor.adapters.register_loader(number, TextLoader)  # as printed
            cursor.execute(f"SELECT {columns} FROM {table} WHERE {where}", tuple(key.values()))
            found = cursor.fetchone()
    except TransientError:
        raise
    except EngineError:
        return {}  # the table or a column is another one by now
    return {} if found is None else dict(zip(names, found, strict=True))


def _wait_until_seen(connection: Any, transaction: int) -> None:
    """Wait until a transaction holds no lock on its own number: it lets go of that once others see what it did."""
    text = "SELECT 1 FROM pg_locks WHERE locktype = 'transactionid' AND transactionid::text = %s AND granted LIMIT 1"
    deadline = time.monotonic() + _SEEN_WITHIN
    while rows(connection, text, (str(transaction),), doing="waiting for a commit") and time.monotonic() < deadline:
        time.sleep(0.005)
