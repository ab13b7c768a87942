"""State and serving tables in BigQuery: the scripts of `cdc_views_bigquery.merging` make them and bring them up to date.

A run is one job and one transaction: if it is killed, nothing of it remains, and the next run makes up for it. Of two runs at
the same time BigQuery cancels one, which is then tried again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from cdc_views.engines.warehouses import StateDefinition, StateRun, StateStanding
from cdc_views.errors import EngineError, UnsupportedError, UsageError
from cdc_views.plan import names
from cdc_views.plan.purge import PURGED_KIND
from cdc_views.rules.instants import micros, span_seconds
from cdc_views.storage.conflicts import retried
from cdc_views.storage.relation import Relation
from cdc_views_bigquery.client import Connection, Deployed
from cdc_views_bigquery.config import SCHEME, BigQueryConfig
from cdc_views_bigquery.ddl import raw_fields
from cdc_views_bigquery.merging import Merging, run_script, setup_script
from cdc_views_bigquery.merging.columns import (
    WATERMARK,
    Column,
    identity_of,
    raw_columns,
    serving_columns,
    setting_of,
    state_columns,
)
from cdc_views_bigquery.merging.scripts import EVERYTHING, IDENTITY_LABEL
from cdc_views_bigquery.telling import ATTEMPTS, PAUSE_SECONDS
from cdc_views_bigquery.types import Fields, bare, differences, merged, quoted

SETTLE_SHARE = 0.2
"""The state is written again once the facts merged since are this share of it, as for Delta's base."""


def merging_of(dataset: str, config: BigQueryConfig, state: StateDefinition) -> Merging:
    """Return what a state's scripts work on; `dataset` is the place of its tables."""
    return Merging(
        raw=quoted(state.raw.location.removeprefix(SCHEME)),
        dataset=dataset,
        name=state.name,
        serving=state.serving,
        lateness=state.lateness,
        overlap=span_seconds(config.overlap, option="overlap", example="1h", digits=6),
        buckets=config.buckets,
    )


@dataclass(frozen=True, slots=True)
class StateTables:
    """The state of one table, and reads of it."""

    connection: Connection
    merging: Merging
    relation: Relation

    @property
    def table(self) -> str:
        """The table's full name."""
        return self.relation.schema.full_name

    def standing(self) -> StateStanding | None:
        """Return the state's progress; None before its first run."""
        view = self.connection.deployed(bare(self.merging.facts))
        mark = None if view is None else self.mark()
        state = None if mark is None else self.connection.deployed(bare(self.merging.state))
        if view is None or mark is None or state is None or not mark["runs"]:
            return None
        lacking, conflicts = differences(view.fields, raw_fields(self.relation))
        return StateStanding(
            name=state.name,
            rows=state.rows,
            bytes=state.bytes,
            landed=mark["landed"],
            ran_at=mark["ran_at"],
            facts=view.name,
            is_complete=not lacking and not conflicts,
            horizon=mark.get("horizon"),
        )

    def mark(self) -> Mapping[str, Any] | None:
        """Return the watermark's row, None if there is no such table or no row in it."""
        return next(iter(self.connection.listed(bare(self.merging.watermark))), None)

    def late(self) -> tuple[pa.Table, pa.Table]:
        """Return the facts that landed too late, and what partitions have purged; both are empty if nothing was ever late."""
        there = self.connection.deployed(bare(self.merging.late))
        if there is None:
            nothing = self.relation.arrow_schema().empty_table()
            return nothing, nothing
        known = {field.name for field in there.fields}
        columns = ", ".join(column.quoted for column in raw_columns(self.relation) if column.name in known)
        what = f"reading what landed too late for {self.table}"
        late = self.connection.rows(f"SELECT {columns} FROM {self.merging.late}", what=what)
        purged = f"SELECT {columns} FROM {self.merging.state} WHERE _kind = '{PURGED_KIND}'"
        return late, self.connection.rows(purged, what=what)

    def draw(self, *, size: int, seed: int | None) -> list[str]:
        """Return digests of at most `size` partitions of the state and of raw, to notice partitions that only one of them has.

        Equal seeds and facts give equal partitions; with `seed` None they differ after each run of the state. None of them purged
        anything (M2). Reads only the columns of the key.
        """
        drawn = (self.mark() or {}).get("ran_at") if seed is None else seed
        of_row = f"`_kind` NOT IN ('table', '{PURGED_KIND}')"
        sides = (f"SELECT {self._digest} AS p FROM {table} WHERE {of_row}" for table in (self.merging.facts, self.merging.raw))
        purged = f"SELECT {self._digest} FROM {self.merging.state} WHERE `_kind` = '{PURGED_KIND}'"
        text = (
            f"SELECT p FROM ({' UNION DISTINCT '.join(sides)}) WHERE p NOT IN ({purged}) "
            f"ORDER BY TO_HEX(MD5(CONCAT(p, '{drawn}'))) LIMIT {size:d}"
        )
        found = self.connection.rows(text, what=f"drawing partitions of {self.table}")
        return [str(digest) for digest in found["p"].to_pylist()]

    def landed(self, partitions: Sequence[str]) -> pa.Table:
        """Return all facts of partitions in raw, and truncates, in the raw layout."""
        return self._facts(self._chosen(self.merging.raw, partitions), where="raw")

    def kept(self, partitions: Sequence[str]) -> pa.Table:
        """Return all facts of partitions in state and tail, and truncates, in the raw layout."""
        return self._facts(self.chosen(partitions), where="its state")

    def _facts(self, chosen: str, *, where: str) -> pa.Table:
        columns = ", ".join(column.quoted for column in raw_columns(self.relation))
        return self.connection.rows(f"SELECT {columns} FROM {chosen}", what=f"reading partitions of {self.table} in {where}")

    def chosen(self, partitions: Sequence[str]) -> str:
        """Return a FROM clause that reads only these partitions of state and tail."""
        return self._chosen(self.merging.facts, partitions)

    def _chosen(self, table: str, partitions: Sequence[str]) -> str:
        listed = ", ".join(f"'{digest}'" for digest in partitions)
        return f"(SELECT * FROM {table} WHERE `_kind` = 'table' OR {self._digest} IN ({listed}))"

    @property
    def _digest(self) -> str:
        """The digest of a partition's identity (rule K1): no value of a key goes into a statement."""
        keys = ", ".join(quoted(names.identity(column)) for column in self.relation.schema.partition)
        return f"TO_HEX(MD5(TO_JSON_STRING(STRUCT({keys}))))"

    def run(self, *, full: bool) -> StateRun:
        """Merge the tail, or all of raw; raises as `WarehouseEngine.materialize` does."""
        message = f"{self.table}: other runs kept changing its state first; run it again"
        return retried(partial(self._attempt, full=full), what=message, attempts=ATTEMPTS, pause=PAUSE_SECONDS)

    def _attempt(self, *, full: bool) -> StateRun:
        added = self._prepare(full=full)
        mark = self.mark()
        if mark is None:
            raise EngineError(f"{bare(self.merging.watermark)} is empty, and nobody knows how far the state is; {self._anew}")
        self._check_lateness(mark)
        is_first = not mark["runs"]
        if full and not is_first and self.merging.lateness is not None:
            self._merge()  # the tail's lateness is judged before everything is read
        settles = full or is_first or self._is_due(mark)
        said, is_settled = self._settled(full=full and not is_first) if settles else (self._merge(), False)
        state = self._there(self.merging.state)
        served = self._there(self.merging.served) if self.merging.serving else None
        return StateRun(
            facts=said["facts_read"],
            keys=said["facts_touched"],
            late=said["facts_late"],
            landed=said["landed"],
            is_full=full or is_first,
            is_settled=is_settled,
            state_rows=state.rows,
            state_bytes=state.bytes,
            served_rows=None if served is None else served.rows,
            why="" if full or not is_first else "there was none",
            added=added,
        )

    def _settled(self, *, full: bool) -> tuple[Mapping[str, Any], bool]:
        """Merge and write the state again; only merge if that script is too long and nothing has to leave the state."""
        try:
            script = run_script(self.relation, self.merging, settles=True, full=full)
        except UnsupportedError:
            if self.merging.lateness is not None:
                raise
            return self._merge(full=full), False
        return self._sent(script), True

    def _merge(self, *, full: bool = False) -> Mapping[str, Any]:
        return self._sent(run_script(self.relation, self.merging, full=full))

    def _sent(self, script: str) -> Mapping[str, Any]:
        (said,) = self.connection.script(script, what=f"bringing the state of {self.table} up to date").to_pylist()
        return dict(said)

    def _is_due(self, mark: Mapping[str, Any]) -> bool:
        merged_since = mark.get("unsettled") or 0
        return merged_since > 0 and merged_since >= SETTLE_SHARE * self._there(self.merging.state).rows

    def _check_lateness(self, mark: Mapping[str, Any]) -> None:
        if mark.get("horizon") is not None and self.merging.lateness is None:
            raise UsageError(
                f"{self.table}: its state has forgotten what ended before second {mark['horizon']}, so that what lands late has "
                "to be told; leave `materialize: {lateness: …}` in the project file, as long as you like"
            )

    def planned(self, *, full: bool) -> StateRun:
        """Return what `run` would do; bills one count of landing times."""
        mark = self.mark()
        found = {name: self.connection.deployed(name) for name in self._wanted()}
        lines, *_ = self._changes(found, full=full)
        since = None if mark is None or full else mark["since"]
        instant = f"TIMESTAMP '{EVERYTHING}'" if since is None else f"TIMESTAMP_MICROS({micros(since)})"
        landed = f"FROM {self.merging.raw} WHERE _landed_at >= {instant}"
        columns = ", ".join(column.quoted for column in raw_columns(self.relation))
        count = f"SELECT COUNT(*) AS facts, MAX(_landed_at) AS landed {landed}"
        (counted,) = self.connection.rows(count, what="counting what landed").to_pylist()
        reads = self.connection.dry_run(f"SELECT {columns} {landed}", what="asking what a run reads").reads
        state, served = found[bare(self.merging.state)], found.get(bare(self.merging.served))
        seen = self.connection.deployed(bare(self.merging.seen)) if since is not None else None
        is_first = mark is None or not mark["runs"]
        return StateRun(
            facts=max(counted["facts"] - (seen.rows if seen is not None else 0), 0),
            keys=None,
            late=0,
            landed=counted["landed"] or (mark or {}).get("landed"),
            is_full=full or is_first,
            is_settled=full or is_first or (mark is not None and self._is_due(mark)),
            state_rows=state.rows if state is not None else 0,
            state_bytes=state.bytes if state is not None else 0,
            served_rows=served.rows if served is not None else None,
            added=lines,
            reads=reads + sum(table.bytes for table in (state, served) if table is not None),
        )

    def _prepare(self, *, full: bool) -> tuple[str, ...]:
        """Make missing tables and columns; return a line for each."""
        found = {name: self.connection.deployed(name) for name in self._wanted()}
        lines, additions, replaced = self._changes(found, full=full)
        if replaced:
            self.connection.run(f"DROP TABLE IF EXISTS {self.merging.served};", what=f"replacing {replaced}")
        for name, fields in additions.items():
            self.connection.extend(name, fields)
        if replaced or None in found.values():
            self.connection.run(setup_script(self.relation, self.merging), what=f"making the state of {self.table}")
        return lines

    def _wanted(self) -> dict[str, tuple[Column, ...]]:
        of = {
            self.merging.state: state_columns(self.relation),
            self.merging.watermark: WATERMARK,
            **({self.merging.late: raw_columns(self.relation)} if self.merging.lateness is not None else {}),
            **({self.merging.served: serving_columns(self.relation)} if self.merging.serving else {}),
        }
        return {bare(name): columns for name, columns in of.items()}

    def _changes(self, found: Mapping[str, Deployed | None], *, full: bool) -> tuple[tuple[str, ...], dict[str, Fields], str]:
        """Return a line for each change, the columns that tables get, and a serving table to be replaced."""
        lines: list[str] = []
        additions: dict[str, Fields] = {}
        replaced = ""
        self._check_identity(found[bare(self.merging.state)])
        for name, columns in self._wanted().items():
            there = found[name]
            if there is None:
                lines.append(f"+ {name}")
                continue
            wanted = self._fields(columns)
            more, conflicts = differences(there.fields, wanted)
            is_served = bool(self.merging.serving) and name == bare(self.merging.served)
            if is_served and full and (conflicts or self._is_shown_anew()):
                replaced = name
                lines.append(f"! {name} is made anew")
            elif conflicts:
                raise self._misfit(name, conflicts, is_served=is_served)
            elif more:
                additions[name] = merged(there.fields, wanted)
                lines += [f"+ {name}: {line[2:]}" for line in more]
        return tuple(lines), additions, replaced

    def _misfit(self, name: str, conflicts: list[str], *, is_served: bool) -> UsageError:
        told = "; ".join(line[2:] for line in conflicts)
        if is_served:
            advice = f"run `cdc-views materialize --full --select {self.table}`, which makes the serving table anew"
        else:
            advice = f"put the column's type back, or give it another name; {self._anew}"
        return UsageError(f"{name} does not fit the schema of {self.table}: {told}; {advice}")

    def _check_identity(self, state: Deployed | None) -> None:
        known = None if state is None else state.labels.get(IDENTITY_LABEL)
        if state is None or known in (None, identity_of(self.relation)):
            return
        key = ", ".join(f"{column.name} {column.type}" for column in self.relation.schema.row_key)
        raise UsageError(
            f"{state.name} was made for another key, another order of writes or another layout than the schema file's, "
            f"whose key is ({key}); a state cannot change its key: put it back, or {self._anew}"
        )

    @property
    def _anew(self) -> str:
        listed = ", ".join([*self._wanted(), bare(self.merging.seen), bare(self.merging.facts)])
        return f"to begin anew from raw drop {listed}, and run `cdc-views materialize` again"

    def _is_shown_anew(self) -> bool:
        shown = (self.mark() or {}).get("setting")
        return shown is not None and shown != setting_of(self.relation)

    def _fields(self, columns: tuple[Column, ...]) -> Fields:
        """Return the columns with BigQuery's names of their types, by a dry run, which costs nothing."""
        nulls = ", ".join(f"CAST(NULL AS {column.type}) AS {column.quoted}" for column in columns)
        return self.connection.dry_run(f"SELECT {nulls}", what=f"asking for the types of {self.table}'s columns").fields

    def _there(self, name: str) -> Deployed:
        found = self.connection.deployed(bare(name))
        if found is None:
            raise EngineError(f"{bare(name)} is gone; somebody has dropped it while `materialize` ran; {self._anew}")
        return found
