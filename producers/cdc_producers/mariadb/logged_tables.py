"""The tables that row events are about, by the numbers that the log gives them, and what changed of their columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from cdc_producers.mariadb.binlog import Event
from cdc_producers.mariadb.events import EventSource, MariaDbEventWriter
from cdc_producers.mariadb.rowreading import Row, RowReader, Wanted, named
from cdc_producers.mariadb.tablemaps import TableMap, read_name, read_table_map
from cdc_producers.source import LostError
from cdc_views.landing.targets import ProducerLog, StreamTarget

Reread = Callable[[str, Mapping[str, str], Sequence[str]], Mapping[str, str]]
"""Asks the source for columns of a table's row with this key, JSON texts; those it still has are returned."""


@dataclass
class LoggedTable:
    """One table as the log has it now."""

    target: StreamTarget
    map: TableMap
    reader: RowReader
    version: object
    _writer: tuple[object, MariaDbEventWriter] | None = None

    @property
    def names(self) -> list[str]:
        """Its columns."""
        return [column.name for column in self.map.columns]

    def writer(self, stream: str, epoch: int) -> MariaDbEventWriter:
        """What writes its events."""
        if self._writer is None or self._writer[0] != (stream, epoch):
            source = EventSource(stream, self.map.database, self.map.table, epoch)
            keys = [column.name for column in self.target.schema.row_key]
            self._writer = (stream, epoch), MariaDbEventWriter(source, self.names, keys)
        return self._writer[1]


@dataclass
class LoggedTables:
    """All that are followed.

    Args:
        targets: By `database.table` of the source.
        collations: Character sets by their collations' numbers.
        catalog: The server's names of the types of a table's columns, asked for again when its columns change.
        reread: For an update of the key under a minimal row image.
        log: Hears of columns that come and go.
    """

    targets: Mapping[str, StreamTarget]
    collations: Mapping[int, str]
    catalog: Callable[[str], Mapping[str, str]]
    reread: Reread
    log: ProducerLog
    nulls_zero_dates: bool = False
    _numbers: dict[int, LoggedTable | None] = field(default_factory=dict)
    _bodies: dict[str, tuple[bytes, LoggedTable]] = field(default_factory=dict)
    _columns: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def forget(self) -> None:
        """Forget the numbers: another file of the log gives out its own."""
        self._numbers.clear()

    def note(self, event: Event) -> None:
        """Take note of what a table-map event says; nothing more is read of tables that are not followed."""
        name = read_name(event)
        full_name = f"{name.database}.{name.table}"
        target = self.targets.get(full_name)
        if target is None:
            self._numbers[name.number] = None
            return
        body, version = event.body[6:], target.version()
        known = self._bodies.get(full_name)
        if known is None or known[0] != body or known[1].version != version:
            known = body, self._table(full_name, target, event)
            self._bodies[full_name] = known
        self._numbers[name.number] = known[1]

    def find(self, number: int) -> LoggedTable | None:
        """Return the table of that number; None where it is not followed."""
        return self._numbers.get(number)

    def completed(self, table: LoggedTable, row: Row) -> Row:
        """Return a row that got another key, with what the log leaves out of it asked of the source.

        No later event has it, for the values that the key's old row was given are another row's in the view.
        """
        missing = [name for name, text in zip(table.names, row, strict=True) if text is None]
        if not missing:
            return row
        known = named(table.names, row)
        keys = {column.name: known[column.name] for column in table.target.schema.row_key if column.name in known}
        found = self.reread(table.target.name, keys, missing)
        return [found.get(name, text) if text is None else text for name, text in zip(table.names, row, strict=True)]

    def _table(self, full_name: str, target: StreamTarget, event: Event) -> LoggedTable:
        try:
            table = read_table_map(event, self.collations)
        except (ValueError, KeyError, IndexError) as error:
            raise LostError(f"{full_name}: the log describes the table in a way that is not known ({error!r})") from error
        if not table.columns:
            raise LostError(
                f"{full_name}: the log does not name the columns (binlog_row_metadata was not FULL when the rows were written); "
                "SET GLOBAL binlog_row_metadata = 'FULL', and start once with --snapshot-again"
            )
        names = tuple(column.name for column in table.columns)
        self._note_columns(target, names)
        schema = {column.name: column.type for column in target.schema.columns}
        wanted = Wanted(schema, self.catalog(full_name), self.nulls_zero_dates)
        return LoggedTable(target, table, RowReader(table, wanted), target.version())

    def _note_columns(self, target: StreamTarget, names: tuple[str, ...]) -> None:
        before = self._columns.get(target.name) or tuple(column.name for column in target.schema.columns)
        self._columns[target.name] = names
        if new := sorted(set(names) - set(before)):
            self.log.warning(
                f"{target.name}: the source has new columns: {', '.join(new)}; add them to the schema file, and rows that "
                f"wait in quarantine land with `cdc-views replay {target.name}`. Rows not written since have no value there yet",
                table=target.name,
                columns=new,
            )
        if gone := sorted(set(before) - set(names)):
            self.log.warning(f"{target.name}: the source's log no longer has {', '.join(gone)}", table=target.name, columns=gone)
