"""What files have of a key to forget: how many rows, their values, and when they were written; each file in a task or here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from cdc_views.errors import MalformedEventError
from cdc_views.formats.base import WriteOrder
from cdc_views.landing.decoding import Decoder
from cdc_views.landing.delta import open_delta
from cdc_views.landing.denylist import ErasedKey, latest_written
from cdc_views.landing.spreading import Tasks
from cdc_views.landing.vacuum import active_files
from cdc_views.operations.erasing.places import ErasableTable, Holds
from cdc_views.operations.erasing.proof import ValuesToErase, each_file, parquet_files
from cdc_views.operations.erasing.rewriting import matching
from cdc_views.plan.names import KIND
from cdc_views.rules.facts import Fact, FactKind
from cdc_views.storage.places import Place, place_of
from cdc_views.storage.relation import Relation
from cdc_views.storage.relation_read import facts_of
from cdc_views.storage.table_log import TableLog


@dataclass(slots=True)
class OfKey:
    """The key's values, and its latest write times; see `latest_written`."""

    values: ValuesToErase = field(default_factory=ValuesToErase)
    through: int | None = None
    ahead: int | None = None

    def add(self, other: OfKey) -> None:
        """Add what another file has."""
        self.values.add(other.values)
        self._reach(other.through, other.ahead)

    def take_event(self, facts: Sequence[Fact], decoder: Decoder) -> None:
        """Add what an event says of the key."""
        with suppress(MalformedEventError):  # a value that fits no column was only in quarantine
            self.values.take(decoder.rows(facts).drop_columns(["_landed_at"]))
        self.take_written(facts, decoder.format.order, now=decoder.landed_at)

    def take_written(self, facts: Iterable[Fact], order: WriteOrder, *, now: int) -> None:
        """Add the write times of facts."""
        self._reach(*latest_written(facts, order, now=now))

    def _reach(self, through: int | None, ahead: int | None) -> None:
        self.through, self.ahead = _later(self.through, through), _later(self.ahead, ahead)


def _later(*times: int | None) -> int | None:
    return max((time for time in times if time is not None), default=None)


def gathered(places: Sequence[ErasableTable], key: ErasedKey, relation: Relation, *, now: int, tasks: Tasks) -> OfKey:
    """Return the values of the key's rows in every Parquet file of the places, also of replaced files, since an older version may
    have more; and the write times of those in the newest versions.
    """
    found = OfKey()
    for place in _of_facts(places):
        table = open_delta(place.location)
        active, layout = active_files(table), pa.schema(table.schema().to_arrow())
        files = parquet_files(place)
        # reading a lost file fails here, before the key is remembered
        files += [place_of(path) for path in sorted(active - set(map(str, files)))]
        asked = [(file, str(file) in active) for file in files]
        for one in each_file(tasks, partial(_in_file, key, relation, layout, now), asked, place, files=files):
            found.add(one)
    return found


def _in_file(key: ErasedKey, relation: Relation, layout: pa.Schema, now: int, asked: tuple[Place, bool]) -> OfKey:
    file, is_active = asked
    found = OfKey()
    for rows in matching(file, key.condition(), by=key.columns):
        found.values.take(rows)
        if is_active:
            found.take_written(facts_of(relation, _whole(rows, layout)), relation.order, now=now)
    return found


def counts_of(table: DeltaTable, place: ErasableTable, key: ErasedKey, *, tasks: Tasks) -> dict[str, int]:
    """Return the key's facts in each file that has some, at the version at which a place's table is open; none of quarantine and
    serving tables, whose rows are no facts.
    """
    if not list(_of_facts([place])):
        return {}
    paths, sizes = _files_at(table)
    counts = tasks.each(partial(_count, key), paths, sizes=sizes, sees=[place.location])
    return {str(path): count for path, count in zip(paths, counts, strict=True) if count}


def _count(key: ErasedKey, file: Place) -> int:
    return sum(rows.num_rows for rows in matching(file, key.condition(), by=key.columns))


def ranges_naming(table: DeltaTable, key: ErasedKey, relation: Relation, *, tasks: Tasks) -> int:
    """Return how many range deletions of a raw table have the row as a bound."""
    layout = pa.schema(table.schema().to_arrow())
    paths, sizes = _files_at(table)
    found = tasks.each(partial(_ranges, key, relation, layout), paths, sizes=sizes, sees=[str(place_of(table.table_uri))])
    return sum(found)


def _ranges(key: ErasedKey, relation: Relation, layout: pa.Schema, file: Place) -> int:
    whole, count = replace(key, clustering=None), 0
    for rows in matching(file, whole.condition(), by=whole.columns):
        ranges = rows.filter(pc.equal(rows[KIND], FactKind.RANGE.value))
        count += sum(map(key.is_named_by, facts_of(relation, _whole(ranges, layout))))
    return count


def _files_at(table: DeltaTable) -> tuple[list[Place], list[int]]:
    root = place_of(table.table_uri)
    files = TableLog.open(root, version=table.version()).added
    return [root / path for path in files], [file.size for file in files.values()]


def _of_facts(places: Iterable[ErasableTable]) -> Iterator[ErasableTable]:
    return (place for place in places if place.holds not in (Holds.EVENTS, Holds.SERVED))


def _whole(rows: pa.Table, layout: pa.Schema) -> pa.Table:
    """Return rows with the columns that came to the table after them."""
    return pa.concat_tables([rows, layout.empty_table()], promote_options="default")
