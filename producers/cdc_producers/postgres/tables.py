"""The tables of one slot: read from the catalog, checked and published before their rows are read, and looked at again later."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cdc_producers.postgres.catalog import LeftOutError, MissingTableError, PostgresTable, check_key, read_table
from cdc_producers.postgres.connections import current_lsn
from cdc_producers.postgres.marks import Marks
from cdc_producers.postgres.messages import MessageReader
from cdc_producers.postgres.options import PGOUTPUT, WAL2JSON, PostgresOptions
from cdc_producers.postgres.pgoutput import PgOutputReader
from cdc_producers.postgres.publications import check_publications, ensure_publications
from cdc_producers.postgres.shapes import Difference, Partitions, Reading, Shapes, needed
from cdc_producers.postgres.snapshots import PostgresSnapshots
from cdc_producers.postgres.values import FLOAT4, FLOAT8, NUMERIC, TypeCatalog, has_bytes
from cdc_producers.postgres.wal2json import Wal2JsonReader
from cdc_producers.source import Emit, LostError
from cdc_views.errors import UsageError
from cdc_views.landing.targets import ProducerLog, StreamTarget
from cdc_views.model.types import Kind, Scalar


@dataclass
class Tables:
    """The source's tables by their names in the project file, as they were when they were prepared."""

    targets: Mapping[str, StreamTarget]
    options: PostgresOptions
    log: ProducerLog
    marks: Marks
    snapshots: PostgresSnapshots
    shapes: Shapes
    found: dict[str, PostgresTable] = field(default_factory=dict)
    publications: list[str] = field(default_factory=list)
    begun_again: set[str] = field(default_factory=set)
    """Tables for which `--snapshot-again` has been done."""
    partitions: Partitions = field(init=False)
    _gone: set[str] = field(default_factory=set)
    _told_heirs: set[str] = field(default_factory=set)
    _told_numbers: set[str] = field(default_factory=set)
    _told_lacking: dict[str, set[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.partitions = Partitions(self.options.keeps_dropped_partitions, self.log)

    def prepare(self, connection: Any) -> None:
        """Read, check and publish the tables; raises `UsageError` if one cannot be followed, `LostError` if it lacks changes."""
        try:
            for name, target in self.targets.items():
                self.found[name] = table = read_table(connection, name)
                check_key(table, target.schema, allows_unkeyed=self.options.allows_unkeyed)
                self._tell_of_heirs(name, table)
            if self.options.plugin == WAL2JSON:
                self._check_named()
                return
            self.publications = ensure_publications(
                connection, self.options.publication, list(self.found.values()), published=self._published(), log=self.log
            )
        except LeftOutError as error:
            self._refuse(error, connection)

    def reader(self) -> MessageReader:
        """Return what reads the slot's messages on a new connection."""
        if self.options.plugin == WAL2JSON:
            return Wal2JsonReader({(table.namespace, table.name): table.columns for table in self.found.values()})
        return PgOutputReader(self.publications)

    def _refuse(self, error: LeftOutError, connection: Any) -> None:
        """Note that changes of landed tables are missing, because mending the cause brings none of them back."""
        # a name in the project file may begin with the database
        named = [name for name in self.targets if ".".join(name.split(".")[-2:]) in error.tables]
        landed = [name for name in named if self._has_landed(name)]
        if not landed:
            raise error
        self.marks.note_missing(landed, lsn=current_lsn(connection))
        raise LostError(
            f"{error}; then start once with --snapshot-again, for changes of {', '.join(landed)} are missing"
        ) from error

    def _check_named(self) -> None:
        """Refuse tables whose changes `wal2json` leaves out, or has under another name; warn of values that it cannot write."""
        for name, table in self.found.items():
            if (written := _wrongly_named(table)) is not None:
                raise LeftOutError(f"{name}: {WAL2JSON} writes {written}; read it by --plugin {PGOUTPUT}", [table.full_name])
            numbers = [column.name for column in table.columns if column.type_id in (FLOAT4, FLOAT8, NUMERIC)]
            if numbers and name not in self._told_numbers:
                self._told_numbers.add(name)
                told = f"{WAL2JSON} writes NaN and infinities of {', '.join(numbers)} as null; {PGOUTPUT} writes them"
                self.log.warning(f"{name}: {told}", table=name, columns=numbers)

    def _has_landed(self, name: str) -> bool:
        return self.snapshots.landed(name).snapshot is not None and not self.is_read_again(name)

    def is_read_again(self, name: str) -> bool:
        """Return whether `--snapshot-again` is still to be done for a table."""
        return self.options.snapshots_again and name not in self.begun_again

    def _published(self) -> set[str]:
        landed = {name: self.snapshots.landed(name).covered for name in self.found if self._has_landed(name)}
        found = [(self.found[name], covered) for name, covered in landed.items()]
        return {table.full_name for table, covered in found if covered is not None and covered.table == table.number}

    def check_columns(self, types: TypeCatalog) -> None:
        """Compare the columns with the schema files; raises `UsageError` for a blob of a type that PostgreSQL prints as text."""
        for name, table in self.found.items():
            schema = {column.name: column.type for column in self.targets[name].schema.columns}
            texts = [c.name for c in table.columns if schema.get(c.name) == Scalar(Kind.BLOB) and not has_bytes(c.type_id, types)]
            if texts and not self._has_landed(name):
                raise UsageError(
                    f"{name}: {', '.join(texts)}: of a type that PostgreSQL prints as text, and blob in the schema file, "
                    "where no such value can land; make it text there"
                )
            self._tell_lacking(name, table, set(schema) - {column.name for column in table.columns})

    def _tell_lacking(self, name: str, table: PostgresTable, lacking: set[str]) -> None:
        if lacking and lacking != self._told_lacking.get(name):
            self._told_lacking[name] = lacking
            generated, others = sorted(lacking & table.generated), sorted(lacking - table.generated)
            said = [f"generated columns are not in PostgreSQL's log: {', '.join(generated)} stay null"] * bool(generated)
            said += [f"the source has no column {', '.join(others)}"] * bool(others)
            self.log.warning(f"{name}: {'; '.join(said)}", table=name, columns=sorted(lacking))

    def _tell_of_heirs(self, name: str, table: PostgresTable) -> None:
        if table.heirs and name not in self._told_heirs:
            self._told_heirs.add(name)
            self.log.warning(
                f"{name}: {', '.join(table.heirs)} inherit from it; their rows, which a SELECT without ONLY shows, are "
                "not in its view: name these tables in the project file",
                table=name,
            )

    def wanted(self) -> dict[str, Reading]:
        """Return what must be read, by table; tables without anything to read are left out."""
        again = Reading("asked for by --snapshot-again; what was shown goes", empties=True)
        found = {name: again if self.is_read_again(name) else self._needed(name, table) for name, table in self.found.items()}
        return {name: reading for name, reading in found.items() if reading is not None}

    def _needed(self, name: str, table: PostgresTable) -> Reading | None:
        """Return what must be read: what has not landed, and what changed without a trace in the log."""
        if self.options.skips_snapshot:
            return None
        landed, known = self.snapshots.landed(name), {column.name for column in self.targets[name].schema.columns}
        reading = needed(table, landed, known)
        if not landed.is_whole or (reading is not None and not reading.columns):
            return reading
        found = self.shapes.difference(name, table)
        changed = found.columns if set(found.columns) <= known else ()
        keys = {column.name for column in self.targets[name].schema.row_key}
        if changed:
            why = f"columns {', '.join(changed)} are renamed, or rewritten"
            if found.came or keys & set(changed):
                return Reading(why)
            return Reading(why, columns=(*changed, *(reading.columns if reading is not None else ())))
        if found.came and reading is None:
            names = ", ".join(part.name for part in found.came)
            return Reading(f"new partitions {names}", partitions=tuple(part.sql_name for part in found.came))
        return Reading(reading.why) if found.came and reading is not None else reading

    def note(self, connection: Any, emit: Emit) -> None:
        """Emit, after all wanted rows, that the tables are read as they are now, except for what is left to read."""
        for name, table in self.found.items():
            found = self.shapes.difference(name, table)
            if found.is_noted and not self.options.keeps_dropped_partitions:
                continue
            known = {column.name for column in self.targets[name].schema.columns}
            unread = Difference(
                columns=() if set(found.columns) <= known else found.columns,
                emptied=() if self.partitions.accepts(name) else found.emptied,
                has_gone=found.has_gone and not self.options.keeps_dropped_partitions,
            )
            self.shapes.note(name, table, lsn=current_lsn(connection), unread=unread, emit=emit)
            self.partitions.noted(name, found)
        for name, table in self.found.items():
            self.snapshots.cover(table, name, connection, emit)

    def has_changed(self, connection: Any) -> bool:
        """Return whether a table must be read, or cannot be followed any more; the watcher calls this."""
        now: dict[str, PostgresTable] = {}
        for name in self.found:
            try:
                now[name] = read_table(connection, name)
                self._gone.discard(name)
                check_key(now[name], self.targets[name].schema, allows_unkeyed=self.options.allows_unkeyed)
            except MissingTableError:
                self._tell_gone(name)
            except UsageError:
                return True  # preparing the tables again raises the reason
        if any(table.number != self.found[name].number or self._needed(name, table) for name, table in now.items()):
            return True
        differences = {name: self.shapes.difference(name, table) for name, table in now.items()}
        if any(self.partitions.is_to_be_noted(name, found, connection) for name, found in differences.items()):
            return True
        if self.options.plugin == WAL2JSON:
            return any(_wrongly_named(table) is not None for table in now.values())
        try:
            check_publications(connection, self.options.publication, list(now.values()))
        except UsageError:
            return True
        return False

    def _tell_gone(self, name: str) -> None:
        if name not in self._gone:
            self.log.warning(f"{name}: the table is gone at the source; what it had stays shown", table=name)
        self._gone.add(name)


def _wrongly_named(table: PostgresTable) -> str | None:
    """What `wal2json` writes of a table instead of all its changes under its name; None if it writes these."""
    if table.is_partitioned:
        return "changes under its partitions' names"
    return None if table.identity else "no updates and deletions"
