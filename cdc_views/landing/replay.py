"""`replay`: lands the events in quarantine that decode by now, each once, despite crashes and concurrent runs.

Quarantine and raw table are two Delta tables, so a replay has two steps: *claim* (in quarantine, the events that decode get
the replay's number) and *land* (one commit of the raw table adds their facts and the number). An event is replayed once the
raw table has recorded its number. A claim without a recorded number belongs to a replay that crashed or still runs. The next
replay first *fences* it off: it commits to the raw table under a transaction id that the other landing would also write, so
that Delta refuses that landing. Then it takes the claim back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import DeltaTable

from cdc_views.formats.base import RawFormat
from cdc_views.landing.appending import appended
from cdc_views.landing.batches import BATCH_ROWS
from cdc_views.landing.decoding import Decoder
from cdc_views.landing.delta import delta_errors, recorded, recording
from cdc_views.landing.denylist import NOT_KEPT, Denylist
from cdc_views.landing.pipeline import Batch, commit
from cdc_views.landing.quarantine import RESOLVED, RawEvent, empty_events, open_quarantine, storable, update_events
from cdc_views.landing.raw_table import is_delta, landing_log, quarantine_location
from cdc_views.landing.report import SHOWN_REJECTIONS, ReplayReport
from cdc_views.rules.instants import micros
from cdc_views.storage.conflicts import retried
from cdc_views.storage.relation import RawTable
from cdc_views.storage.table_log import TableLog

_NUMBER = "replay"
_FENCE = "replay-fence"
_READ = ["event_id", "source", "line", "offset", "reason", "event"]
_UPDATE = {name: f"COALESCE(change.{name}, kept.{name})" for name in ("reason", "event")} | {"replay": "change.replay"}
_VERDICTS = pa.schema([("event_id", pa.string()), ("reason", pa.string()), ("replay", pa.int64()), ("event", pa.binary())])


def replay(
    raw: RawTable, format: RawFormat, *, now: datetime, batch_rows: int = BATCH_ROWS, forgotten: Denylist | None = None
) -> ReplayReport:
    """Land the waiting events of the raw table's quarantine; events that still do not decode stay, with a new reason.

    `now` is the landing time of the new rows, UTC if it has no zone. A commit holds `batch_rows` events. Older events of
    `forgotten` keys do not land, and lose their bytes.

    Raises:
        UsageError: The raw table belongs to another table, another format or a newer version.
        TransientError: Other writers kept committing first.
    """
    decoder = Decoder(raw, format, micros(now), forgotten)
    running = _Replay(decoder, batch_rows, ReplayReport(raw.relation.schema.full_name))
    report = retried(running.run, what=f"{quarantine_location(raw)}: other writers kept committing; run replay again")
    if report.forgotten:
        from cdc_views.landing.vacuum import purge

        purge(quarantine_location(raw))
    return report


@dataclass(slots=True)
class _Replay:
    """One replay; `report` keeps what was landed across attempts."""

    decoder: Decoder
    batch_rows: int
    report: ReplayReport
    log: TableLog = field(init=False)

    def run(self) -> ReplayReport:
        self.decoder = self.decoder.reread()
        self.report = replace(self.report, waiting=0, rejections=())
        self.log = landing_log(self.decoder.raw, format_name=self.decoder.format.name)
        if not is_delta(quarantine_location(self.decoder.raw)):
            return self.report
        done = self.log.transaction(_NUMBER) or 0
        quarantine = open_quarantine(self.decoder.raw)
        if (recorded(quarantine, _NUMBER) or 0) > done:
            self._take_back(quarantine, done)
        for waiting in self._waiting(quarantine):
            done = self._batch(quarantine, waiting, done)
        return self.report

    def _take_back(self, quarantine: DeltaTable, done: int) -> None:
        self.log = appended(self.log, self.decoder.raw.relation.arrow_schema().empty_table(), transactions={_FENCE: done + 1})
        with delta_errors(quarantine.table_uri):
            quarantine.update(
                {"replay": "CAST(NULL AS BIGINT)"}, predicate=f"replay > {done}", commit_properties=recording({_NUMBER: done})
            )

    def _waiting(self, quarantine: DeltaTable) -> Iterator[list[dict[str, Any]]]:
        # a snapshot's files stay readable while the batches below commit newer versions
        with delta_errors(quarantine.table_uri):
            scanner = quarantine.to_pyarrow_dataset().scanner(columns=_READ, filter=ds.field("replay").is_null())
            batches = scanner.to_batches()
        for batch in batches:
            for start in range(0, batch.num_rows, self.batch_rows):
                yield batch.slice(start, self.batch_rows).to_pylist()

    def _batch(self, quarantine: DeltaTable, waiting: list[dict[str, Any]], done: int) -> int:
        batch = Batch(self.decoder)
        for row in waiting:
            batch.add(RawEvent(row["source"], row["event_id"], row["event"], row["line"], row["offset"]))
        rows = batch.rows()
        landing = {event.event_id for event in batch.decoded}
        number = done + 1 if landing else done
        reasons = {row["event_id"]: row["reason"] for row in waiting}
        verdicts = _verdicts(batch, landing, reasons=reasons, number=number)
        if verdicts.num_rows:
            update_events(quarantine, verdicts, _UPDATE, properties=recording({_NUMBER: number}))
        if landing:
            name = quarantine_location(self.decoder.raw)
            self.log = commit(self.log, rows, batch, transactions={_NUMBER: number, _FENCE: number}, source=name)
            # only now: an event whose claim is taken back needs its bytes
            held_back = {event.event_id: why for event, why, is_forgotten in batch.rejected if is_forgotten}
            empty_events(quarantine, {event_id: why for event_id, why in held_back.items() if event_id in landing})
        known, left = self.report, batch.quarantined
        self.report = replace(
            known,
            events=known.events + batch.landed,
            facts=known.facts + rows.num_rows,
            waiting=known.waiting + len(left),
            rejections=(known.rejections + left)[:SHOWN_REJECTIONS],
            forgotten=known.forgotten + batch.forgotten,
        )
        return number


def _verdicts(batch: Batch, landing: Collection[str], *, reasons: Mapping[str, str], number: int) -> pa.Table:
    """Return the changes to a batch's events in quarantine; `reasons` are those that quarantine has."""
    changes: dict[str, dict[str, Any]] = {}
    for event, why, is_forgotten in batch.rejected:
        if is_forgotten:
            changes[event.event_id] = {"reason": why, "replay": RESOLVED, "event": NOT_KEPT}
        elif storable(why) != reasons[event.event_id]:
            changes[event.event_id] = {"reason": storable(why), "replay": None}
        else:
            changes.pop(event.event_id, None)  # its newer part does not fit the raw table, and waits as before
    # the newer part of an event about a forgotten key may land: the event is claimed, and loses its bytes later
    changes |= {event_id: {"reason": None, "replay": number} for event_id in landing}
    return pa.Table.from_pylist([{"event_id": name, **change} for name, change in changes.items()], schema=_VERDICTS)
