"""Columns from the catalog, for logs that do not name them: MySQL before 8.0, and `binlog_row_metadata = MINIMAL`.

The catalog shows a table as it is now, and the log is behind. So the description holds for a row only if no statement between
the row and the reading of the catalog has altered the table: the log in between is read for that. What was read stays right until
the log comes to such a statement; then the catalog is asked again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from cdc_producers.binlog import log_events
from cdc_producers.binlog.catalog import BinlogColumn
from cdc_producers.binlog.log_events import Event
from cdc_producers.binlog.logged_tables import Describing
from cdc_producers.binlog.statements import Action, effects
from cdc_producers.mysql.gtids import GtidSet, MySqlPlace, read_gtid
from cdc_producers.source import LostError

_HARMLESS = frozenset({Action.EMPTIED, Action.WRITTEN})


@dataclass
class DescribedTables(Describing):
    """What the catalog says of tables, as of `place`.

    Args:
        columns: Returns a table's columns as they are now.
        executed: Returns what is committed now.
        ahead: Opens the log behind a set, and returns its events.
    """

    place: MySqlPlace
    columns: Callable[[str], Sequence[BinlogColumn]]
    executed: Callable[[], GtidSet]
    ahead: Callable[[GtidSet], Iterable[Event]]
    ignores_case: bool = False
    _known: dict[str, Sequence[BinlogColumn]] = field(default_factory=dict)

    def __call__(self, table: str) -> Sequence[BinlogColumn]:
        """Return the columns of `database.table` at the place; raises `LostError` if the catalog is newer."""
        if table not in self._known:
            found = self.columns(table)
            if self._is_altered(table, until=self.executed()):
                raise LostError(
                    f"{table}: it was altered after the rows that the log has at {self.place}, and it does not name columns; "
                    "where the server can (8.0), SET PERSIST binlog_row_metadata = 'FULL'; start once with --snapshot-again"
                )
            self._known[table] = found
        return self._known[table]

    def forget(self, table: str) -> None:
        """Forget a table that the log alters at the place."""
        self._known.pop(table, None)

    def _is_altered(self, table: str, *, until: GtidSet) -> bool:
        """Return whether a statement of the log behind the place, up to a set, alters the table."""
        reached = GtidSet.read(str(self.place.executed))
        if not reached.lacks(until):
            return False
        for event in self.ahead(reached):
            if event.kind in (log_events.MYSQL_GTID, log_events.TAGGED_GTID):
                if not reached.lacks(until):
                    return False
                reached.add(*read_gtid(event))
            elif event.kind == log_events.QUERY and self._alters(event, table):
                return True
            elif event.kind in log_events.HEARTBEATS and not reached.lacks(until):
                return False
        return False

    def _alters(self, event: Event, table: str) -> bool:
        statement = log_events.read_statement(event)
        found = (effect for effect in effects(statement) if effect.action not in _HARMLESS)
        names = {f"{effect.database}.{effect.table}" for effect in found}
        database = table.partition(".")[0]
        wanted = {table, f"{database}."}
        if self.ignores_case:
            names, wanted = {name.casefold() for name in names}, {name.casefold() for name in wanted}
        return bool(names & wanted)
