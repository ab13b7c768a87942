"""`adapt`: puts an external table's rows into a derived raw table, which then shows the external table as it is now.

The derived table depends on one version of the external table, the schema and the raw format; transaction ids of the commit
that adds the rows record them. If the external table only gained files since then, only the new files are adapted. If any file
is gone (`OPTIMIZE`, `DELETE`), or the schema, the format or cdc-views changed, all files are: one commit replaces all rows.
Deleting the derived table costs only time.

Files are read in groups (`groups`), each by itself: an engine with tasks may read them at once. A group's rows are a file that
counts from the commit on, which is one for all groups.

A row that is no event goes to the derived table's quarantine, with the file and the row's number in the file.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import dataclass, field
from uuid import uuid4

from deltalake import DeltaTable

from cdc_views.errors import UsageError
from cdc_views.formats.base import RawFormat
from cdc_views.landing.decoding import Decoder
from cdc_views.landing.delta import commit_files, open_delta, recorded
from cdc_views.landing.denylist import Denylist
from cdc_views.landing.external.groups import GROUP_BYTES, AdaptedGroup, GroupTask, adapt_group, groups_of
from cdc_views.landing.external.shapes import Reading
from cdc_views.landing.external.table import ExternalFile, ExternalTable
from cdc_views.landing.pipeline import check_current
from cdc_views.landing.quarantine import clear_quarantine
from cdc_views.landing.raw_table import create_raw, exists, is_ours, open_raw, recreate_raw
from cdc_views.landing.spreading import Spread, in_this_process, leaving_nothing
from cdc_views.storage.conflicts import retried
from cdc_views.storage.relation import RawTable

BATCH_ROWS = 10_000  # rows of an external table in memory at once
ADAPTED = "found:version"  # the transaction id that records the external version from which the derived table was made
_SETTING = "found:setting"
_NOTHING = -1  # recorded by a derived table that is still empty
_BITS_63 = (1 << 63) - 1
_COUNTED = ("events", "facts", "quarantined")


@dataclass(frozen=True, slots=True)
class Adaptation:
    """What one call of `adapt` did. `quarantined` counts rows that are no events; `is_rebuilt`: all files were read again."""

    files: int = 0
    events: int = 0
    facts: int = 0
    quarantined: int = 0
    is_rebuilt: bool = False


def adapt(
    location: str,
    derived: RawTable,
    format: RawFormat,
    *,
    setting: str,
    batch_rows: int = BATCH_ROWS,
    group_bytes: int = GROUP_BYTES,
    forgotten: Denylist | None = None,
    spread: Spread = in_this_process,
) -> Adaptation:
    """Bring the raw table derived from the external table at `location` up to date, and create it if it does not exist.

    The landing time of a fact is the time at which its file was written, so no clock is read. `setting` is a text of everything
    that decides how events are read: schema, options, versions; if it changes, all is read again. `batch_rows` are in memory
    at once; files of `group_bytes` become one file, and `spread` reads several such groups. Older events of `forgotten` keys go
    to quarantine without their bytes.

    Raises:
        UsageError: There is no such table, or its columns hold no events of the format.
        EngineError: A table cannot be read or written.
        TransientError: Other processes kept adapting first.
    """
    decoder = Decoder(derived, format, 0, forgotten)

    def attempt() -> Adaptation:
        return _Attempt(ExternalTable.open(location), decoder.reread(), setting, batch_rows, group_bytes, spread).run()

    return retried(attempt, what=f"{derived.location}: other processes kept adapting {location}; run it again")


@dataclass(slots=True)
class _Attempt:
    """One attempt; `decoder` serves every file, with another landing time."""

    external: ExternalTable
    decoder: Decoder
    setting: str
    batch_rows: int
    group_bytes: int
    spread: Spread
    reading: Reading = field(init=False)

    def run(self) -> Adaptation:
        external, derived = self.external, self.decoder.raw
        self.reading = Reading.of(
            self.decoder.format.name,
            self.decoder.format.source_schema(derived.relation.schema),
            columns=external.columns,
            partitions=external.partitions,
            where=external.location,
        )
        table = self._table()
        version = recorded(table, ADAPTED)
        if version == external.delta.version():
            return Adaptation()
        fresh = self._fresh(version)
        if fresh is None:
            clear_quarantine(derived)
        files = external.files if fresh is None else fresh
        state = {ADAPTED: external.delta.version(), _SETTING: self._setting_number()}
        done = self._groups(files)
        check_current(self.decoder, source=derived.location)
        written = [group.file for group in done if group.file is not None]
        commit_files(table, written, transactions=state, replaces=fresh is None)
        events, facts, quarantined = (sum(getattr(group, name) for group in done) for name in _COUNTED)
        return Adaptation(len(files), events, facts, quarantined, is_rebuilt=fresh is None)

    def _table(self) -> DeltaTable:
        """Return the derived table; drop what it holds if it was made for another setting."""
        derived, format_name = self.decoder.raw, self.decoder.format.name
        if not exists(derived):
            return create_raw(derived, format_name=format_name)
        table = open_delta(derived.location)
        if not is_ours(str(table.metadata().description or "")):
            raise UsageError(
                f"{derived.location}: is no raw table of cdc-views, which keeps what it derives there; name another `warehouse`"
            )
        made_for = recorded(table, _SETTING)
        if made_for == self._setting_number():
            return table
        if made_for in (None, _NOTHING):
            with suppress(UsageError):
                # somebody else has just created it for the same setting, and would lose its rows
                return open_raw(derived, format_name=format_name)
        return recreate_raw(derived, format_name=format_name, transactions=dict.fromkeys((ADAPTED, _SETTING), _NOTHING))

    def _setting_number(self) -> int:
        # Delta takes only numbers under a transaction id; a table that was dropped and created again has another id
        digest = hashlib.sha256(f"{self.external.delta.metadata().id}\0{self.setting}".encode()).digest()
        return int.from_bytes(digest[:8], "big") & _BITS_63

    def _fresh(self, version: int | None) -> tuple[ExternalFile, ...] | None:
        """Return the files added since `version`; None if a file is gone since, or the log does not reach back."""
        before = self.external.at(version) if version is not None and version >= 0 else None
        if before is None:
            return None
        known = {file.identity for file in before.files}
        now = {file.identity for file in self.external.files}
        return tuple(file for file in self.external.files if file.identity not in known) if known <= now else None

    def _groups(self, files: tuple[ExternalFile, ...]) -> list[AdaptedGroup]:
        """Read the files; return what they became. A failure leaves no file."""
        external, derived, name = self.external, self.decoder.raw, f"part-{uuid4()}"
        version, how = external.delta.version(), (self.decoder, self.reading, self.batch_rows)
        groups = groups_of(files, most_bytes=self.group_bytes)
        tasks = [GroupTask(name, external.location, version, group, *how) for group in groups]
        spread = in_this_process if len(tasks) < 2 or self.decoder.has_secret else self.spread
        with leaving_nothing(derived.location, name):
            return spread(adapt_group, tasks, sees=[derived.location, external.location])
