"""Code shared by the sources whose logs have rows: PostgreSQL and MariaDB."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from threading import Event
from typing import TypeVar

from cdc_producers.metrics import Metrics
from cdc_producers.source import Emit, Emitted
from cdc_views.landing.targets import ProducerLog, SnapshotProgress

_Row = TypeVar("_Row")
_Key = TypeVar("_Key")
_Value = TypeVar("_Value")

ORDERS_EACH = 2
"""Each change takes two places in its transaction: an update that moves a row is a deletion and an insert."""
WHOLE = (1 << 63) - 1
"""`Position.nth` of a whole snapshot."""
CHUNK_ROWS = 20_000
"""Rows that a snapshot reads per query if the table's key has an order."""
_PROGRESS_ROWS = 1000


def in_chunks(
    read: Callable[[_Key | None], Iterator[_Row]], key_of: Callable[[_Row], _Key], *, after: _Key | None, size: int
) -> Iterator[_Row]:
    """Yield the rows after a key, or all if it is None. `read` returns the next `size` rows after the key it is given."""
    while True:
        count = 0
        for row in read(after):
            count, after = count + 1, key_of(row)
            yield row
        if count < size:
            return


def about(rows: int) -> str:
    """Return a server's estimate of a table's rows; 0 is one that it has not counted yet."""
    return f"about {rows:,} rows" if rows else "an unknown number of rows"


def emit_rows(
    name: str, rows: Iterable[Emitted], expected: int, metrics: Metrics, progress: SnapshotProgress, *, emit: Emit, stop: Event
) -> int | None:
    """Emit a snapshot's rows, about `expected` in all; return their number, or None if stopped."""
    counted, count = metrics.snapshot_rows(name), 0
    try:
        for row in rows:
            if stop.is_set():
                return None
            count += 1
            emit(row)
            counted.inc()
            if count % _PROGRESS_ROWS == 0:
                progress(name, done=count, total=expected or None)
    finally:
        progress(name, done=count, total=expected or None, is_over=True)
    return count


def completed(
    names: Sequence[str], row: list[_Value], missing: object, ask: Callable[[list[str]], Mapping[str, _Value]]
) -> list[_Value]:
    """Return a row whose key changed, with the values that the log leaves out: `ask` reads them from the source.
    No later event has these values, and in the view the earlier ones belong to the row of the old key.
    """
    lacking = [name for name, value in zip(names, row, strict=True) if value is missing]
    found = ask(lacking) if lacking else {}
    return [found.get(name, value) if value is missing else value for name, value in zip(names, row, strict=True)]


def warn_of_columns(log: ProducerLog, table: str, before: Collection[str], now: Collection[str], *, remedy: str) -> None:
    """Warn of columns that are new in a table's log or gone from it."""
    if new := sorted(set(now) - set(before)):
        said = f"{table}: the source has new columns: {', '.join(new)}; add them to the schema file{remedy}"
        log.warning(said, table=table, columns=new)
    if gone := sorted(set(before) - set(now)):
        log.warning(f"{table}: the source's log no longer has {', '.join(gone)}", table=table, columns=gone)
