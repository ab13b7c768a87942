"""`forget`: removes a key from raw, quarantine and state, keeps it from landing again, and proves that it is gone. Remembers the
key first, so that from then on no event of it lands. A second run finishes a killed one: every step removes what is left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from functools import partial
from typing import Any

import pyarrow as pa

from cdc_views.errors import EngineError, UnsupportedError
from cdc_views.landing.decoding import Decoder
from cdc_views.landing.delta import open_delta
from cdc_views.landing.denylist import Denylist, Entry, ErasedKey, add
from cdc_views.landing.raw_table import is_delta
from cdc_views.landing.replay import replay
from cdc_views.landing.spreading import Tasks
from cdc_views.landing.vacuum import active_files, begin_log_at, purge, vacuum_all
from cdc_views.operations.applying import Changed, refresh_view
from cdc_views.operations.context import TableContext
from cdc_views.operations.erasing.events import Attributed, Judge, Letters, Owner, attributed, empty, letters_about
from cdc_views.operations.erasing.of_key import counts_of, gathered, ranges_naming
from cdc_views.operations.erasing.places import ErasableTable, Holds, places_of
from cdc_views.operations.erasing.proof import Leftover, Proof, ValuesToErase, prove
from cdc_views.operations.erasing.rewriting import rewrite
from cdc_views.operations.ingest import forgotten_of
from cdc_views.operations.known_raw import check_known
from cdc_views.operations.lateness import state_of
from cdc_views.operations.renewing import renewed
from cdc_views.operations.scheduling import holding, lock_folder
from cdc_views.operations.spreading import spreading
from cdc_views.operations.verifying.record import forget_place
from cdc_views.rules.instants import epoch_seconds, micros
from cdc_views.state import materialize
from cdc_views.state.run import cover
from cdc_views.state.serving import serve
from cdc_views.state.state_table import TRANSACTION, StateTable, open_state
from cdc_views.state.tail import ERASURE
from cdc_views.storage.conflicts import retried
from cdc_views.storage.places import place_of, remove_tree
from cdc_views.storage.table_log import TableLog


class Undecodable(str, Enum):
    """What to do with quarantined events that cannot be decoded, and so may be about any key."""

    FAIL = "fail"
    KEEP = "keep"
    DROP = "drop"


@dataclass(frozen=True, slots=True)
class Removed:
    """The facts, or events of quarantine, removed from one location, or to remove in a dry run."""

    what: str
    location: str
    rows: int


@dataclass(frozen=True, slots=True)
class Erasure:
    """The outcome of one call; `forgotten` is its instant, in µs since the epoch.

    `undecodable` counts the quarantined events that cannot be decoded and still have bytes, `mentioning` those that contain a
    removed text. `proof` is None in a dry run; `is_accepted`: undecodable events may stay.
    """

    removed: tuple[Removed, ...]
    forgotten: int
    undecodable: int = 0
    mentioning: int = 0
    notes: tuple[str, ...] = ()
    proof: Proof | None = None
    is_accepted: bool = False

    @property
    def is_done(self) -> bool:
        """Whether nothing of the key is left, as far as can be known."""
        return self.proof is not None and self.proof.is_clean and (self.is_accepted or not self.undecodable)


def forget_table(
    table: TableContext,
    *,
    key: Mapping[str, Any] | str,
    now: datetime,
    dry_run: bool = False,
    undecodable: Undecodable = Undecodable.FAIL,
    engine: str | None = None,
    wait: float = 0.0,
) -> Erasure:
    """Remove a key from everything that is kept of a table, and prove it.

    Args:
        table: The table.
        key: As for `Table.explain`: a row key, or the partition key alone for the whole partition.
        now: The instant of forgetting: events of the key that are dated later land again.
        dry_run: Only report what would be removed.
        undecodable: What to do with quarantined events that may be about any key.
        engine: The engine that brings the state up to date; default: the project's.
        wait: Seconds to wait for another run of the table.

    Raises:
        UsageError: The key does not fit the table.
        MismatchError: The raw table or the state is not the one known.
        TableLockedError: Another run of the table is going on.
        ConflictError: Other writers kept committing first; run it again.
    """
    table = renewed(table)
    table.project.check_raw_tables_are_local()
    # facts erased from a wrong raw table, or from a state that is not believed, would stay in the right one
    check_known(table)
    state_of(table)
    parsed = ErasedKey.parse(table.schema, key)
    with spreading(table.project, engine) as tasks:
        running = _Forgetting(table, parsed, micros(now), undecodable, tasks)
        if dry_run:
            return running.planned()
        with holding(lock_folder(table.project, table.config), table=table.name, wait=wait):
            return running.run(now, engine)


@dataclass(slots=True)
class _Forgetting:
    table: TableContext
    key: ErasedKey
    now: int
    undecodable: Undecodable
    tasks: Tasks
    removed: dict[str, Removed] = field(default_factory=dict)

    def planned(self) -> Erasure:
        known = self._events()
        for place in places_of(self.table):
            is_quarantine = place.holds is Holds.EVENTS
            self._count(place.what, place.location, known.counts[Owner.KEY] if is_quarantine else self._rows(place))
        for letters in self._letters():
            self._count("dead letters", str(letters.file), len(letters.lines))
        return Erasure(tuple(self.removed.values()), self.now, known.counts[Owner.UNKNOWN], notes=self._notes())

    def run(self, now: datetime, engine: str | None) -> Erasure:
        places = places_of(self.table)
        values = self._remembered(places)
        if not self.table.is_external and any(place.holds is Holds.EVENTS for place in places):
            replay(self.table.raw, self.table.format, now=now, forgotten=forgotten_of(self.table))
        for place in places_of(self.table):
            self._count(place.what, place.location, self._cleaned(place))
        for letters in self._letters():
            letters.empty()
            self._count("dead letters", str(letters.file), len(letters.lines))
        forget_place(self.table)
        self._purge(engine)
        erasure = self._proven(values)
        serving, state = self.table.serving_location, self.table.state_location
        if serving is not None and is_delta(state):  # built from the state, which has nothing of the key any more
            with self.table.project.engine(engine) as opened:
                serve(opened, self.table.raw, state, serving, now=epoch_seconds(now))
        refresh_view(self.table, Changed.RAW | Changed.READING)  # a view of events in SQL knows no forgotten keys
        return erasure

    def _remembered(self, places: list[ErasableTable]) -> ValuesToErase:
        """Remember the key and return the values to erase."""
        found = gathered(places, self.key, self.table.raw.relation, now=self.now, tasks=self.tasks)
        found.add(self._events().of_key)
        add(self.table.forgotten_file, self.key, forgotten=self.now, through=found.through, ahead=found.ahead)
        return found.values

    def _events(self, texts: Sequence[bytes] = ()) -> Attributed:
        for place in places_of(self.table):
            if place.holds is Holds.EVENTS:
                return attributed(place.location, self._judge(), texts=texts, tasks=self.tasks)
        return Attributed()

    def _judge(self) -> Judge:
        return Judge(self._decoder(), self.key, self.table.is_external)

    def _letters(self) -> list[Letters]:
        return letters_about(self.table.project.warehouse, self._decoder(), self.key)

    def _decoder(self) -> Decoder:
        return Decoder(self.table.raw, self.table.format, self.now)

    def _rows(self, place: ErasableTable) -> int:
        return sum(counts_of(open_delta(place.location), place, self.key, tasks=self.tasks).values())

    def _cleaned(self, place: ErasableTable) -> int:
        if place.holds in (Holds.NOTHING_READ, Holds.SERVED):
            rows = self._rows(place)
            remove_tree(place_of(place.location))
            return rows
        if place.holds is Holds.EVENTS:
            entry = Denylist.read(self.table.forgotten_file).entry(self.key) or Entry("", "", self.now)
            drops = self.undecodable is Undecodable.DROP
            return empty(place.location, self._judge(), reason=entry.reason(), drops_undecodable=drops, tasks=self.tasks)
        return self._deleted(place)

    def _deleted(self, place: ErasableTable) -> int:
        def attempt() -> int:
            table = open_delta(place.location)
            counts = counts_of(table, place, self.key, tasks=self.tasks)
            if counts:
                how: Any = {"mark": ERASURE, "transactions": self._marked(place), "seen": self._seen(place)}
                rewrite(table, partial(without, self.key), **how, among=counts.keys(), tasks=self.tasks)
            return sum(counts.values())

        return retried(attempt, what=f"{place.location}: other writers keep committing first; run the command again")

    def _state(self, location: str) -> StateTable | None:
        raw = self.table.raw
        return open_state(location, raw.relation, raw=TableLog.open(raw.location))

    def _seen(self, place: ErasableTable) -> set[str]:
        """Return the raw files that the state has read, so that it does not read them again; nothing for other tables."""
        raw = self.table.raw.location
        if place.location == raw:
            with suppress(EngineError):  # the log of an old version may be gone
                state = self._state(self.table.state_location)
                if state is not None and state.raw_version is not None:
                    return active_files(open_delta(raw, version=state.raw_version))
        return set()

    def _marked(self, place: ErasableTable) -> dict[str, int]:
        """Return the watermark that every commit of a state carries, so that Delta refuses the second of two concurrent ones."""
        state = self._state(place.location) if place.holds is Holds.STATE else None
        return {} if state is None or state.mark is None else {TRANSACTION: state.mark.following().number}

    def _purge(self, engine: str | None) -> None:
        """Purge old files and logs; raw's log may only go once the state covers all of raw."""
        for place in places_of(self.table):
            if place.location == self.table.raw.location:
                version = vacuum_all(place.location, tasks=self.tasks)
                self._cover(version, engine)
                begin_log_at(place.location, version)
            else:
                purge(place.location, tasks=self.tasks)

    def _cover(self, version: int, engine: str | None) -> None:
        raw, location = self.table.raw, self.table.state_location
        state = self._state(location)
        if state is None or state.raw_version is None:
            return
        with self.table.project.engine(engine) as opened:

            def attempt() -> None:
                materialize(opened, raw, location)
                cover(raw, location, version=version)

            message = f"{raw.location}: events land faster than the state takes them in; run the command again"
            retried(attempt, what=message)

    def _proven(self, values: ValuesToErase) -> Erasure:
        proof = prove(places_of(self.table), self.key, values, tasks=self.tasks)
        known = self._events(sorted(values.texts()))
        for place in places_of(self.table):
            if place.holds is Holds.EVENTS:
                proof.found(place, place_of(place.location), {"events of the key": known.counts[Owner.KEY]})
        for letters in self._letters():
            proof.leftovers.append(Leftover("dead letters", str(letters.file), f"{len(letters.lines):,} events of the key"))
        return Erasure(
            tuple(self.removed.values()),
            self.now,
            known.counts[Owner.UNKNOWN],
            known.mentioning,
            self._notes(),
            proof,
            is_accepted=self.undecodable is not Undecodable.FAIL,
        )

    def _count(self, what: str, location: str, rows: int) -> None:
        known = self.removed.get(location)
        self.removed[location] = Removed(what, location, rows + (known.rows if known else 0))

    def _notes(self) -> tuple[str, ...]:
        notes = []
        if self.table.is_external:
            notes.append(f"{self.table.location} is somebody else's and was not touched: erase the key there too")
        bounds = 0 if self.key.is_partition else self._bounds()
        if bounds:
            notes.append(f"{bounds:,} range deletions name the row as a bound; they are about other rows too and stay")
        return tuple(notes)

    def _bounds(self) -> int:
        raw = self.table.raw
        if not is_delta(raw.location):
            return 0
        return ranges_naming(open_delta(raw.location), self.key, raw.relation, tasks=self.tasks)


def lift(table: TableContext, key: Mapping[str, Any] | str) -> None:
    """Let later events of a forgotten key land again, also undated ones, but not the removed events."""
    known = ErasedKey.parse(table.schema, key)
    entry = Denylist.read(table.forgotten_file).entry(known)
    if entry is None:
        raise UnsupportedError(f"{table.name}: that key was not forgotten", remedy="forget it first, or check the key")
    add(table.forgotten_file, known, forgotten=entry.forgotten, through=entry.through, is_lifted=True, ahead=entry.ahead)


def without(key: ErasedKey, rows: pa.Table) -> pa.Table:
    """Return rows of the raw layout without the key's; the same object if it has none."""
    kept = rows.filter(~key.condition())
    return rows if kept.num_rows == rows.num_rows else kept
