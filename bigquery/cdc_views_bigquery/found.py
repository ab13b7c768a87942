"""Raw tables in BigQuery that somebody else lands: their rows go through the raw format's adapter into a derived raw table.

Rows are known by the digest of all their columns. What the derived table does not have yet is read and adapted; once a
row of it is gone from there, or schema, format or cdc-views changed, all are. Rows, quarantine, and digests are written in
one transaction. The table itself is only read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import pyarrow as pa

from cdc_views.errors import MalformedEventError, TransientError, UsageError
from cdc_views.formats.base import RawFormat
from cdc_views.landing.decoding import Decoder
from cdc_views.landing.external import Adaptation
from cdc_views.landing.external.shapes import EventText, Reading, RowReader, plain_columns
from cdc_views.landing.external.sinks import SinkColumns, arranged, check_is_exact, without_empty
from cdc_views.landing.lander import micros
from cdc_views.landing.quarantine import BadEvent
from cdc_views.rules.facts import Fact
from cdc_views_bigquery.incoming import TAKEN, Commit, Incoming, rows_that_fit
from cdc_views_bigquery.telling import ConcurrentUpdateError
from cdc_views_bigquery.types import quoted

ATTEMPTS = 5
_DIGEST = "_cdc_views_digest"
_SETTING = "found"
_NO_PLACE = 0
"""The line of an event whose rows have no order (`SourceLine`)."""


@dataclass(slots=True)
class Adapting:
    """Brings a derived raw table up to date with the found table `name`; `setting` decides how events read."""

    incoming: Incoming
    name: str
    format: RawFormat
    setting: str
    names: SinkColumns
    now: datetime
    bad: list[BadEvent] = field(default_factory=list)

    def run(self) -> Adaptation:
        """Do it; raises `UsageError` for no table, or none of events, `UnsupportedError` for what BigQuery has lost."""
        if self.incoming.connection.deployed(self.name) is None:
            raise UsageError(f"{self.name}: there is no such table; name the one that events land in (`raw: {{table: …}}`)")
        self.incoming.prepare(takes=True)
        for _ in range(ATTEMPTS):
            try:
                return self._attempt()
            except ConcurrentUpdateError:
                continue
        raise TransientError(f"{self.incoming.name}: other processes kept adapting {self.name}; run it again")

    def _attempt(self) -> Adaptation:
        self.bad = []
        known = self.incoming.marks(_SETTING).get(_SETTING, "")
        setting = hashlib.sha256(f"{self.name}\0{self.setting}\0{self.names}".encode()).hexdigest()
        is_full = known != setting or self._has_gone()
        found = self._fresh(is_full=is_full)
        if not (found.num_rows or is_full):
            return Adaptation()
        digests = found.column(_DIGEST).to_pylist()
        events = self._events(found.drop_columns([_DIGEST]), digests)
        decoder = Decoder(self.incoming.raw, self.format, micros(self.now))
        rows, misfits = rows_that_fit(decoder, [facts for _, _, facts in events])
        for index, reason in misfits.items():
            self._refuse(*events[index][:2], reason)
        self.incoming.commit(
            Commit(
                rows,
                bad=self.bad,
                source=self.name,
                format_name=self.format.name,
                landed_at=micros(self.now),
                known={_SETTING: known},
                marks={_SETTING: setting},
                taken=list(dict.fromkeys(digests)),
                replaces=is_full,
            )
        )
        return Adaptation(1, len(events) - len(misfits), rows.num_rows, len(self.bad), is_rebuilt=is_full)

    def _has_gone(self) -> bool:
        """Whether a row that was taken in is not there any more."""
        digests = f"SELECT MD5(TO_JSON_STRING(_found)) FROM {quoted(self.name)} AS _found"
        text = f"SELECT COUNT(*) AS gone FROM {quoted(self.incoming.name + TAKEN)} WHERE digest NOT IN ({digests})"
        (counted,) = self.incoming.connection.rows(text, what=f"looking for rows that are gone from {self.name}").to_pylist()
        return bool(counted["gone"])

    def _fresh(self, *, is_full: bool) -> pa.Table:
        """The rows that were not taken in yet, each with its digest."""
        digest = "MD5(TO_JSON_STRING(_found))"
        known = "" if is_full else f" WHERE {digest} NOT IN (SELECT digest FROM {quoted(self.incoming.name + TAKEN)})"
        text = f"SELECT _found.*, {digest} AS {_DIGEST} FROM {quoted(self.name)} AS _found{known}"
        return self.incoming.connection.rows(text, what=f"reading {self.name}")

    def _events(self, found: pa.Table, digests: Sequence[bytes]) -> list[tuple[bytes, EventText, list[Fact]]]:
        """The events that decode, with their rows' digests; the others go to `bad`."""
        schema = self.incoming.raw.relation.schema
        check_is_exact(found.schema, schema=schema, scales=self.names.scales, where=self.name)
        rows = arranged(found, format_name=self.format.name, schema=schema, names=self.names)
        reading = Reading.of(self.format.name, schema, columns=rows.schema, partitions=frozenset(), where=self.name)
        read = reading.reader(rows.schema, where=self.name)
        decoder = Decoder(self.incoming.raw, self.format, micros(self.now))
        plain = rows.cast(plain_columns(rows.schema)).to_pylist()
        good: list[tuple[bytes, EventText, list[Fact]]] = []
        for digest, row in zip(digests, plain, strict=True):
            event = _read(read, row)
            try:
                if event.reason:
                    raise MalformedEventError(event.reason)
                facts = decoder.facts(event.text.encode(errors="surrogatepass"), line=_NO_PLACE, offset=0)
            except MalformedEventError as error:
                self._refuse(digest, event, str(error))
                continue
            good.append((digest, event, facts))
        return good

    def _refuse(self, digest: bytes, event: EventText, reason: str) -> None:
        """Put a row into quarantine, once however often it is there; it is known by its digest, as rows have no numbers."""
        text = event.text.encode(errors="surrogatepass")
        bad = BadEvent(hashlib.sha256(self.name.encode() + digest).hexdigest(), 0, 0, 0, reason, text)
        if bad not in self.bad:
            self.bad.append(bad)


def _read(read: RowReader, row: dict[str, Any]) -> EventText:
    event = read({name: without_empty(value) for name, value in row.items()})
    return replace(event, text=event.text or json.dumps(None))
