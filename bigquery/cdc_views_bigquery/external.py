"""Raw tables in BigQuery that somebody else lands: the raw format's adapter brings their rows into a derived raw table.

A row is known by the digest of all its columns. A run adapts the rows that the derived table lacks; or all rows, if one of the
adapted rows is gone, or the schema, the format or cdc-views changed. One transaction writes rows, quarantine and digests. The
external table is only read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from cdc_views.errors import UsageError
from cdc_views.landing.decoding import Decoder
from cdc_views.landing.external import Adaptation
from cdc_views.landing.external.shapes import Reading, plain_columns
from cdc_views.landing.external.sinks import SinkColumns, arranged, check_is_exact, without_empty
from cdc_views.landing.pipeline import Batch
from cdc_views.landing.quarantine import RawEvent
from cdc_views.storage.conflicts import retried
from cdc_views_bigquery.client import Connection, Deployed
from cdc_views_bigquery.incoming import TAKEN, Commit, Incoming, rows_that_fit
from cdc_views_bigquery.telling import ATTEMPTS, PAUSE_SECONDS
from cdc_views_bigquery.types import quoted

_DIGEST, _OF_ROW = "_cdc_views_digest", "MD5(TO_JSON_STRING(_row))"
_SETTING = "found"


def columns_of(connection: Connection, name: str) -> pa.Schema:
    """Return the columns of the external table `name`, JSON as that type. Raises `UsageError` if there is no such table."""
    deployed = _check_is_there(connection, name)
    found = connection.rows(f"SELECT * FROM {quoted(name)} LIMIT 0", what=f"reading the columns of {name}").schema
    documents = {field.name for field in deployed.fields if field.kind == "JSON"}
    return pa.schema([pa.field(f.name, pa.json_(pa.string()) if f.name in documents else f.type) for f in found])


def _check_is_there(connection: Connection, name: str) -> Deployed:
    deployed = connection.deployed(name)
    if deployed is None:
        raise UsageError(f"{name}: there is no such table; name the one that events land in (`raw: {{table: …}}`)")
    return deployed


@dataclass(slots=True)
class Adapting:
    """Brings a derived raw table up to date with the external table `name`; `setting` decides how events are read."""

    incoming: Incoming
    name: str
    decoder: Decoder
    setting: str
    names: SinkColumns

    def run(self) -> Adaptation:
        """Adapt; raises `UsageError` if there is no table of events, `UnsupportedError` for values that BigQuery has lost."""
        _check_is_there(self.incoming.connection, self.name)
        self.incoming.prepare(takes=True)
        message = f"{self.incoming.name}: other processes kept adapting {self.name}; run it again"
        return retried(self._attempt, what=message, attempts=ATTEMPTS, pause=PAUSE_SECONDS)

    def _attempt(self) -> Adaptation:
        known = self.incoming.marks(_SETTING).get(_SETTING, "")
        setting = hashlib.sha256(f"{self.name}\0{self.setting}\0{self.names}".encode()).hexdigest()
        is_full = known != setting or self._has_gone()
        fresh = self._fresh(is_full=is_full)
        if not (fresh.num_rows or is_full):
            return Adaptation()
        digests = fresh.column(_DIGEST).to_pylist()
        decoder = self.decoder.reread()
        batch = self._batch(decoder, fresh.drop_columns([_DIGEST]), digests)
        rows = batch.rows()
        # a row goes to quarantine once, even if the table has it several times
        rejected = list({one.event.event_id: one for one in batch.rejected}.values())
        self.incoming.commit(
            Commit(
                decoder,
                rows,
                rejected=rejected,
                known={_SETTING: known},
                marks={_SETTING: setting},
                taken=list(dict.fromkeys(digests)),
                replaces=is_full,
            )
        )
        quarantined = sum(not one.is_forgotten for one in rejected)
        return Adaptation(1, batch.landed, rows.num_rows, quarantined, is_rebuilt=is_full)

    def _has_gone(self) -> bool:
        digests = f"SELECT {_OF_ROW} FROM {quoted(self.name)} AS _row"
        text = f"SELECT COUNT(*) AS gone FROM {quoted(self.incoming.name + TAKEN)} WHERE digest NOT IN ({digests})"
        (counted,) = self.incoming.connection.rows(text, what=f"looking for rows that are gone from {self.name}").to_pylist()
        return bool(counted["gone"])

    def _fresh(self, *, is_full: bool) -> pa.Table:
        known = "" if is_full else f" WHERE {_OF_ROW} NOT IN (SELECT digest FROM {quoted(self.incoming.name + TAKEN)})"
        text = f"SELECT _row.*, {_OF_ROW} AS {_DIGEST} FROM {quoted(self.name)} AS _row{known}"
        return self.incoming.connection.rows(text, what=f"reading {self.name}")

    def _batch(self, decoder: Decoder, fresh: pa.Table, digests: Sequence[bytes]) -> Batch:
        """Return the rows as events; each is known by its digest, because rows have no numbers."""
        schema = decoder.format.source_schema(decoder.raw.relation.schema)
        check_is_exact(fresh.schema, schema=schema, scales=self.names.scales, where=self.name)
        rows = arranged(fresh, format_name=decoder.format.name, schema=schema, names=self.names)
        reading = Reading.of(decoder.format.name, schema, columns=rows.schema, partitions=frozenset(), where=self.name)
        read = reading.reader(rows.schema, where=self.name)
        batch = Batch(decoder, fit=rows_that_fit)
        for digest, row in zip(digests, rows.cast(plain_columns(rows.schema)).to_pylist(), strict=True):
            found = read({name: without_empty(value) for name, value in row.items()})
            text = replace(found, text=found.text or json.dumps(None))
            event_id = hashlib.sha256(self.name.encode() + digest).hexdigest()
            event = RawEvent(self.name, event_id, text.content, is_ordered=False)
            if text.reason:
                batch.reject(event, text.reason)
            else:
                batch.add(event)
        return batch
