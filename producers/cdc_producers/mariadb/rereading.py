"""Asking the source for what a minimal row image leaves out of a row that got another key."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from cdc_producers.mariadb.catalog import MariaDbColumn, MariaDbTable
from cdc_producers.mariadb.connections import identifier, literal
from cdc_producers.mariadb.snapshot import selected
from cdc_views.errors import CdcViewsError

_WAIT_SECONDS = 10
"""Longer than a server takes from writing a transaction to its log until others see it."""


def reread(connection: Any, table: MariaDbTable, key: Mapping[str, str], names: Sequence[str]) -> Mapping[str, str]:
    """Return columns of the row with this key as JSON texts, as they are now; nothing where it has gone on.

    A later change of the row comes with an event of its own, so that a value which is newer does no harm. One that is
    older would: a server sends a transaction before others see it. Its locks it has until then, so the row is read with
    one; where somebody else holds it for longer, or this user may not, as it is.
    """
    wanted = [column for column in table.columns if column.name in set(names)]
    if not wanted:
        return {}
    where = " AND ".join(f"{identifier(name)} = {_literal(text)}" for name, text in key.items())
    try:
        return _found(connection, table, wanted, f"{where} LIMIT 1 LOCK IN SHARE MODE WAIT {_WAIT_SECONDS}")
    except CdcViewsError:
        return _found(connection, table, wanted, f"{where} LIMIT 1")


def _found(connection: Any, table: MariaDbTable, wanted: Sequence[MariaDbColumn], where: str) -> Mapping[str, str]:
    for row in selected(connection, table, wanted, f" WHERE {where}"):
        return {column.name: text for column, text in zip(wanted, row, strict=True) if text is not None}
    return {}


def _literal(text: str) -> str:
    value = json.loads(text)
    if not isinstance(value, str):
        return text
    return literal(bytes.fromhex(value[2:]) if value.startswith("0x") else value.removesuffix("Z"))
