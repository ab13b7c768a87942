"""The write time of Debezium's relational events: the position in the source's log (rules S2, S3, S5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cdc_views.errors import MalformedEventError
from cdc_views.formats.base import SourceLine, order_key
from cdc_views.formats.connect.record import Record, integer, member, string
from cdc_views.rules.facts import Origin

POSTGRES = frozenset({"postgresql"})
MYSQL = frozenset({"mysql", "mariadb"})
_POSITIONS = range(1 << 64)
_ORDINALS = range((1 << 32) - 1)
POSITION_BITS = 40  # below the 24 bits of the binlog file's number; MySQL rotates files at 1 GiB, or after one transaction
_FILE_NUMBERS = range(1 << 24)
_SNAPSHOT, _STREAMED = 0, 1
ORDER = {"epoch": range(1 << 30), "position": _POSITIONS, "ordinal": range(1 << 32)}  # the parts of `source.order`


def envelope_order(source: Mapping[str, Any], *, transaction: Any, is_snapshot: bool) -> int:
    """Return the write time of an event with a `source` block; raises `MalformedEventError` if it has no position.

    PostgreSQL: `lsn`, then the event's order in its transaction if Debezium sends it. MySQL and MariaDB: file number and
    position, then the row. A snapshot read has the position at which the snapshot began and ordinal 0, so that all events that
    are streamed from there on are later. `ts_ms` never counts: it is the commit's clock, and clocks step back.

    `source.order`, an array of epoch, position and ordinal, takes precedence. This project's own producer writes it if a
    source's files and positions do not survive a failover (MariaDB's GTIDs do).
    """
    if source.get("order") is not None:
        return _given_order(source["order"])
    connector = string(member(source, "connector", what="source"), what="source.connector")
    if connector in POSTGRES:
        lsn = integer(member(source, "lsn", what="source"), what="source.lsn", allowed=_POSITIONS)
        return order_key(lsn, ordinal=_SNAPSHOT if is_snapshot else _in_transaction(transaction))
    if connector in MYSQL:
        return _binlog_order(source, is_snapshot=is_snapshot)
    raise MalformedEventError(
        f"connector {connector!r} has a log position this format does not know; it knows {', '.join(sorted(POSTGRES | MYSQL))}"
    )


def _given_order(order: Any) -> int:
    if not isinstance(order, list) or len(order) != len(ORDER):
        raise MalformedEventError(f"source.order is {order!r} where [{', '.join(ORDER)}] was expected")
    named = zip(ORDER.items(), order, strict=True)
    epoch, position, ordinal = (integer(part, what=f"source.order's {name}", allowed=allowed) for (name, allowed), part in named)
    return order_key(position, ordinal=ordinal, epoch=epoch)


def _in_transaction(transaction: Any) -> int:
    if not isinstance(transaction, dict) or transaction.get("total_order") is None:
        return _STREAMED
    return max(_STREAMED, integer(transaction["total_order"], what="transaction.total_order", allowed=_ORDINALS))


def _binlog_order(source: Mapping[str, Any], *, is_snapshot: bool) -> int:
    file = string(member(source, "file", what="source"), what="source.file")
    number = integer(file.rpartition(".")[2], what="the number of source.file", allowed=_FILE_NUMBERS)
    position = integer(member(source, "pos", what="source"), what="source.pos", allowed=range(1 << POSITION_BITS))
    row = integer(source.get("row") or 0, what="source.row", allowed=_ORDINALS)
    return order_key((number << POSITION_BITS) | position, ordinal=_SNAPSHOT if is_snapshot else row + 1)


def flat_order(metadata: Mapping[str, Any], *, record: Record, event: SourceLine) -> int:
    """Return the write time of an unwrapped event: from the metadata that `add.fields` added, else from Kafka.

    `metadata` holds `lsn`, `file`, `pos`, `row` and `op` without prefixes. Without `lsn` or `file` the write time is the Kafka
    offset; without that it is the line number, which orders the events of one file only.
    """
    is_snapshot = metadata.get("op") == "r"
    if metadata.get("lsn") is not None:
        lsn = integer(metadata["lsn"], what="__lsn", allowed=_POSITIONS)
        return order_key(lsn, ordinal=_SNAPSHOT if is_snapshot else _in_transaction(metadata))
    if metadata.get("file") is not None and metadata.get("pos") is not None:
        return _binlog_order(metadata, is_snapshot=is_snapshot)
    return arrival_order(record, event=event)


def arrival_order(record: Record, *, event: SourceLine) -> int:
    """Return the Kafka offset as a write time, else the line number; raises `MalformedEventError` if there is neither."""
    if record.offset is None and event.line < 1:
        raise MalformedEventError("the event has no log position and no Kafka offset, and rows of a table come in no order")
    return order_key(event.line if record.offset is None else record.offset, epoch=record.epoch)


def arrival_origin(record: Record, event: SourceLine) -> Origin:
    """Return the Kafka partition and offset; without an offset, the line number."""
    partition = record.members.get("partition")
    segment = record.topic if partition is None else f"{record.topic}/{partition}"
    return Origin(segment=segment, position=event.line if record.offset is None else record.offset)
