"""`replay`: land the events in quarantine that decode by now, each once, whatever crashes or runs beside it.

Quarantine and raw table are two Delta tables, so a replay is three steps: *claim* (the events that decode get the
replay's number, in quarantine), *land* (their facts and the number, in one commit of the raw table), and nothing
more: an event is replayed once the raw table has recorded its number. A claim whose number never got there belongs
to a replay that crashed or still runs. The next one first *fences* it off, by a commit to the raw table under a
transaction id that the other's landing would also write, so that Delta refuses that; then it takes the claim back.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import DeltaTable

from cdc_views.errors import MalformedEventError
from cdc_views.formats.base import RawFormat
from cdc_views.landing.batches import BATCH_ROWS
from cdc_views.landing.decoding import Decoder, rows_of_events
from cdc_views.landing.delta import append, delta_errors, recorded, recording
from cdc_views.landing.fact_filter import NOT_KEPT
from cdc_views.landing.forgotten import Forgotten
from cdc_views.landing.lander import micros
from cdc_views.landing.quarantine import SETTLED, empty_events, open_quarantine, storable
from cdc_views.landing.raw_table import create_raw, is_delta, quarantine_location
from cdc_views.landing.report import SHOWN_REJECTIONS, Rejection, ReplayReport
from cdc_views.rules.facts import Fact
from cdc_views.storage.conflicts import retried
from cdc_views.storage.relation import RawTable

_NUMBER = "replay"
_FENCE = "replay-fence"
_READ = ["event_id", "line", "offset", "reason", "event"]
_VERDICTS = pa.schema([("event_id", pa.string()), ("reason", pa.string()), ("replay", pa.int64()), ("event", pa.binary())])


def replay(
    raw: RawTable, format: RawFormat, *, now: datetime, batch_rows: int = BATCH_ROWS, forgotten: Forgotten | None = None
) -> ReplayReport:
    """Land again what waits in the raw table's quarantine; what still does not decode stays, with a fresh reason.

    Args:
        raw: The raw table and its schema, as mended.
        format: How an event reads.
        now: The landing time of the new rows; without a zone it is UTC.
        batch_rows: Events a commit holds.
        forgotten: Keys whose older events do not land but lose their bytes; None for none.

    Raises:
        UsageError: The raw table belongs to another table, another format or a newer version.
        TransientError: Other writers kept committing first.
    """
    decoder = Decoder(raw, format, micros(now), forgotten)
    running = _Replay(decoder, batch_rows, ReplayReport(raw.relation.schema.full_name))
    report = retried(running.run, what=f"{quarantine_location(raw)}: other writers kept committing; run replay again")
    if report.forgotten:
        from cdc_views.landing.purging import purge

        purge(quarantine_location(raw))
    return report


@dataclass(frozen=True, slots=True)
class _Verdicts:
    """What became of some waiting events: facts of those that decode, the reasons of the others, by event id.

    `emptied` are the reasons of events of forgotten keys, of which nothing lands; those of which a part does are among
    `landed`, and their reasons in `partly`.
    """

    landed: dict[str, list[Fact]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    emptied: dict[str, str] = field(default_factory=dict)
    partly: dict[str, str] = field(default_factory=dict)

    def rows(self, number: int) -> pa.Table:
        """The changes to make in quarantine."""
        changes: list[dict[str, Any]] = [{"event_id": name, "reason": why, "replay": None} for name, why in self.refused.items()]
        changes += [{"event_id": name, "reason": None, "replay": number} for name in self.landed]
        changes += [_emptied(name, why) for name, why in self.emptied.items()]
        return pa.Table.from_pylist(changes, schema=_VERDICTS)


@dataclass(slots=True)
class _Replay:
    """One replay; `report` keeps what was landed across attempts."""

    decoder: Decoder
    batch_rows: int
    report: ReplayReport

    def run(self) -> ReplayReport:
        self.report = replace(self.report, waiting=0, rejections=())
        table = create_raw(self.decoder.raw, format_name=self.decoder.format.name)
        if not is_delta(quarantine_location(self.decoder.raw)):
            return self.report
        done = recorded(table, _NUMBER) or 0
        quarantine = open_quarantine(self.decoder.raw)
        if (recorded(quarantine, _NUMBER) or 0) > done:
            self._take_back(table, quarantine, done)
        for waiting in self._waiting(quarantine):
            done = self._batch(table, quarantine, waiting, done)
        return self.report

    def _take_back(self, table: DeltaTable, quarantine: DeltaTable, done: int) -> None:
        append(table, self.decoder.raw.relation.arrow_schema().empty_table(), transactions={_FENCE: done + 1})
        with delta_errors(quarantine.table_uri):
            quarantine.update(
                {"replay": "CAST(NULL AS BIGINT)"},
                predicate=f"replay > {done}",
                commit_properties=recording({_NUMBER: done}),
            )

    def _waiting(self, quarantine: DeltaTable) -> Iterator[list[dict[str, Any]]]:
        # a snapshot's files stay readable while the batches below commit newer versions
        with delta_errors(quarantine.table_uri):
            scanner = quarantine.to_pyarrow_dataset().scanner(columns=_READ, filter=ds.field("replay").is_null())
            batches = scanner.to_batches()
        for batch in batches:
            for start in range(0, batch.num_rows, self.batch_rows):
                yield batch.slice(start, self.batch_rows).to_pylist()

    def _batch(self, table: DeltaTable, quarantine: DeltaTable, waiting: list[dict[str, Any]], done: int) -> int:
        verdicts = self._decode(waiting)
        rows, misfits = rows_of_events(self.decoder, list(verdicts.landed.values()))
        for name, reason in zip(_at(verdicts.landed, misfits), misfits.values(), strict=True):
            del verdicts.landed[name]
            verdicts.refused[name] = reason
        number = done + 1 if verdicts.landed else done
        self._tell(quarantine, verdicts, waiting, number)
        if verdicts.landed:
            append(table, rows, transactions={_NUMBER: number, _FENCE: number})
            empty_events(quarantine, {name: why for name, why in verdicts.partly.items() if name in verdicts.landed})
        self._count(verdicts, waiting, rows.num_rows)
        return number

    def _decode(self, waiting: list[dict[str, Any]]) -> _Verdicts:
        verdicts = _Verdicts()
        for event in waiting:
            try:
                place = {"line": event["line"], "offset": event["offset"]}
                facts, reason = self.decoder.sifted(self.decoder.facts(event["event"], **place), event["event"], **place)
                if facts or not reason:
                    verdicts.landed[event["event_id"]] = facts
                if reason:
                    (verdicts.partly if facts else verdicts.emptied)[event["event_id"]] = reason
            except MalformedEventError as error:
                verdicts.refused[event["event_id"]] = storable(str(error))
        return verdicts

    def _tell(self, quarantine: DeltaTable, verdicts: _Verdicts, waiting: list[dict[str, Any]], number: int) -> None:
        """Write the verdicts into quarantine, where there is any news."""
        known = {event["event_id"]: event["reason"] for event in waiting}
        refused = {name: why for name, why in verdicts.refused.items() if why != known[name]}
        news = _Verdicts(verdicts.landed, refused, verdicts.emptied)
        changes = news.rows(number)
        if not changes.num_rows:
            return
        with delta_errors(quarantine.table_uri):
            merge = quarantine.merge(
                changes,
                predicate="kept.event_id = change.event_id",
                source_alias="change",
                target_alias="kept",
                commit_properties=recording({_NUMBER: number}),
            )
            told = {name: f"COALESCE(change.{name}, kept.{name})" for name in ("reason", "event")} | {"replay": "change.replay"}
            merge.when_matched_update(told).execute()

    def _count(self, verdicts: _Verdicts, waiting: list[dict[str, Any]], facts: int) -> None:
        refused = [Rejection(e["line"], verdicts.refused[e["event_id"]]) for e in waiting if e["event_id"] in verdicts.refused]
        self.report = replace(
            self.report,
            events=self.report.events + len(verdicts.landed),
            facts=self.report.facts + facts,
            waiting=self.report.waiting + len(verdicts.refused),
            rejections=(self.report.rejections + tuple(refused))[:SHOWN_REJECTIONS],
            forgotten=self.report.forgotten + len(verdicts.emptied) + len(verdicts.partly),
        )


def _emptied(event_id: str, reason: str) -> dict[str, Any]:
    return {"event_id": event_id, "reason": reason, "replay": SETTLED, "event": NOT_KEPT}


def _at(named: dict[str, list[Fact]], indexes: dict[int, str]) -> list[str]:
    names = list(named)
    return [names[index] for index in indexes]
