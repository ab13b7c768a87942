"""Commits to a raw table in BigQuery: rows, bad events, and how far their source is read, all or nothing.

Load jobs, which bill nothing, bring rows into tables of their own, which BigQuery drops after a day. One transaction then copies
them and writes the *marks*: texts by name in `<raw>__marks`. A commit is a compare-and-swap: it states the marks that it has
read. Each commit also changes the same row, because two transactions that only insert would both succeed.

Source: BigQuery, Multi-statement transactions, Transaction concurrency.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from cdc_views.landing.decoding import Decoder, rows_of_events
from cdc_views.landing.pipeline import check_current
from cdc_views.landing.quarantine import COLUMNS, RejectedEvent, rows_of
from cdc_views.rules.facts import Fact
from cdc_views.sql.statements import envelope
from cdc_views.storage.relation import LAYOUT_VERSION, RawTable
from cdc_views_bigquery.client import Connection
from cdc_views_bigquery.merging import Merging
from cdc_views_bigquery.storable import rows_with_null
from cdc_views_bigquery.telling import LOST
from cdc_views_bigquery.types import bare, fields_of, one_line, quoted, text_literal

MARKS, QUARANTINE, TAKEN = "__marks", "__quarantine", "__taken"
_DIGESTS = pa.schema([("digest", pa.binary())])
Marks = Mapping[str, str]


def rows_that_fit(decoder: Decoder, events: Sequence[Sequence[Fact]]) -> tuple[pa.Table, dict[int, str]]:
    """Return the rows of all events that BigQuery can keep, and the reason (`storable`) for each other event, by its index."""
    rows, misfits = rows_of_events(decoder, events)
    with_null = rows_with_null(rows)
    if not with_null:
        return rows, misfits
    owners = [n for n, facts in enumerate(events) if n not in misfits for _ in facts]
    for name, found in sorted(with_null.items()):
        misfits |= {owners[row]: f"{name} holds null in an array, which BigQuery cannot keep" for row in found}
    return rows.filter(pa.array([owner not in misfits for owner in owners])), misfits


@dataclass(frozen=True, slots=True)
class Commit:
    """What one commit does.

    Attributes:
        rejected: Events for quarantine; ids that are there already are left out.
        known: Marks as they were read; empty for a mark that was not there.
        marks: Marks to write.
        resolved: Ids of events in quarantine that landed whole now.
        taken: Digests of the external rows that this takes in.
        replaces: Delete what is there: rows, quarantine and digests, and what a state has merged of them.
        replayed: Ids of events in quarantine that land now, and the number of that replay.
    """

    decoder: Decoder
    rows: pa.Table
    rejected: Sequence[RejectedEvent] = ()
    known: Marks = field(default_factory=dict)
    marks: Marks = field(default_factory=dict)
    resolved: Sequence[str] = ()
    taken: Sequence[bytes] | None = None
    replaces: bool = False
    replayed: tuple[Sequence[str], int] = ((), 0)


@dataclass(frozen=True, slots=True)
class Incoming:
    """Commits to one raw table with the full name `name`; `make` makes that table if it is missing; `state` may be its state."""

    connection: Connection
    raw: RawTable
    name: str
    make: Callable[[], None]
    state: Merging

    def prepare(self, *, takes: bool = False) -> None:
        """Make the raw table and the missing tables beside it; `takes` includes the table of digests."""
        self.make()
        if not self._has(self.name + MARKS):
            described = f"how far sources of {self.name} are read; the row without a name counts commits (cdc-views)"
            made = f"CREATE TABLE IF NOT EXISTS {quoted(self.name + MARKS)} (\n  name STRING,\n  value STRING\n)"
            options = f"OPTIONS (description = {text_literal(described)})"
            self._make(f"{made}\n{options}\nAS SELECT '', '0';", self.name + MARKS)
        if not self._has(self.name + QUARANTINE):
            self._make(_table(self.name + QUARANTINE, COLUMNS, what=f"events of {self.name} that do not decode"), "quarantine")
        if takes and not self._has(self.name + TAKEN):
            self._make(_table(self.name + TAKEN, _DIGESTS, what=f"digests of the rows that {self.name} was made of"), "digests")

    def marks(self, prefix: str) -> Marks:
        """Return the marks whose names begin with `prefix`."""
        text = f"SELECT name, value FROM {quoted(self.name + MARKS)} WHERE STARTS_WITH(name, {text_literal(prefix)})"
        found = self.connection.rows(text, what=f"reading how far sources of {self.name} are").to_pylist()
        return {row["name"]: row["value"] for row in found}

    def commit(self, commit: Commit) -> None:
        """Commit; raises `ConflictError`, with nothing done, if a mark has changed or keys were forgotten since."""
        check_current(commit.decoder, source=self.name)
        run = uuid.uuid4().hex
        parts = [self._part(self.name, commit.rows, run, "rows")] if commit.rows.num_rows else []
        if commit.rejected:
            known = f"event_id NOT IN (SELECT event_id FROM {quoted(self.name + QUARANTINE)})"
            rejected = rows_of(commit.decoder, commit.rejected)
            parts.append(self._part(self.name + QUARANTINE, rejected, run, "rejected", condition=known))
        if commit.taken:
            digests = pa.table({"digest": pa.array(commit.taken, pa.binary())})
            parts.append(self._part(self.name + TAKEN, digests, run, "taken"))
        replaced = [quoted(self.name + suffix) for suffix in ("", QUARANTINE, TAKEN)] if commit.replaces else []
        has_state = commit.replaces and self._has(self.state.watermark)
        # all of the state, except for its watermark and its serving table, which the next run makes again
        replaced += filter(self._has, (self.state.state, self.state.seen, self.state.late) if has_state else ())
        expected = [f"name = {text_literal(n)} AND value = {text_literal(v)}" for n, v in commit.known.items() if v]
        sql = envelope(
            "bigquery_incoming.sql.j2",
            table=one_line(self.raw.relation.schema.full_name),
            layout=LAYOUT_VERSION,
            marks=quoted(self.name + MARKS),
            quarantine=quoted(self.name + QUARANTINE),
            lost=LOST,
            expected=expected,
            unknown=[f"name = {text_literal(name)}" for name, value in commit.known.items() if not value],
            replaced=replaced,
            watermark=self.state.watermark if has_state else "",
            parts=parts,
            resolved=", ".join(map(text_literal, commit.resolved)),
            replayed=", ".join(map(text_literal, commit.replayed[0])),
            number=commit.replayed[1],
            names=", ".join(map(text_literal, commit.marks)),
            written=", ".join(
                f"STRUCT({text_literal(name)} AS name, {text_literal(value)} AS value)" for name, value in commit.marks.items()
            ),
        )
        self.connection.script(sql, what=f"landing into {self.name}")

    def _has(self, table: str) -> bool:
        return self.connection.deployed(bare(table)) is not None

    def _part(self, into: str, rows: pa.Table, run: str, what: str, *, condition: str = "") -> dict[str, str]:
        """Load rows into a table of their own; return the script's step that copies them."""
        source = f"{self.name}__incoming_{run}_{what}"
        self._make(_table(source, rows.schema, what="rows on their way", is_short_lived=True), source)
        self.connection.load(rows, source, what=f"loading into {source}")
        columns = ", ".join(quoted(name) for name in rows.schema.names)
        return {"into": quoted(into), "columns": columns, "source": quoted(source), "condition": condition}

    def _make(self, sql: str, what: str) -> None:
        self.connection.run(sql, what=f"creating {what}")


def _table(name: str, columns: pa.Schema, *, what: str, is_short_lived: bool = False) -> str:
    listed = ",\n".join(f"  {quoted(f.name)} {f.text}" for f in fields_of(columns, table=name))
    options = [f"description = {text_literal(what + ' (cdc-views)')}"]
    if is_short_lived:
        options.append("expiration_timestamp = TIMESTAMP_ADD(CURRENT_TIMESTAMP(), INTERVAL 1 DAY)")
    return f"CREATE TABLE IF NOT EXISTS {quoted(name)} (\n{listed}\n)\nOPTIONS ({', '.join(options)})"
