"""Compares some partitions, which the oracle recomputes from raw, with what an engine shows of state and tail, or of raw alone.

`seed` draws the first digits of their keys' digests, so that each run takes other partitions and reads only the state's files
of that bucket. Keys come from raw and from the state, so that a partition that only one of them has is noticed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cdc_views.engines.base import Engine, Read, Sources
from cdc_views.engines.buckets import in_buckets
from cdc_views.engines.duckdb.connections import with_stores
from cdc_views.engines.duckdb.tables import from_clause, from_row_groups, snapshot_of_sources, tables_of
from cdc_views.engines.duckdb.types import quoted
from cdc_views.engines.exact import rows_of
from cdc_views.engines.snapshot import REGISTERED, Snapshot, snapshot_of
from cdc_views.engines.state_plan import digest, digits_in, part_in
from cdc_views.model.naming import physical_name
from cdc_views.model.schema import TableSchema
from cdc_views.model.types import Kind, Scalar, carries_comparable, reads_from_bytes
from cdc_views.operations.comparing import comparison_key
from cdc_views.plan import names
from cdc_views.plan.parts import Source
from cdc_views.plan.representation import exact_key
from cdc_views.quality.checks import Check, key_text
from cdc_views.rules.codec.comparable import partition_identity
from cdc_views.rules.facts import Fact, FactKind
from cdc_views.rules.oracle import Row, latest_rows
from cdc_views.storage.places import arrow_source
from cdc_views.storage.relation import Relation
from cdc_views.storage.relation_read import facts_of, key_of

SAMPLE = Check("sample_equals_oracle", "sampled partitions show what the rules make of their raw events", unit="rows and cells")
DELETIONS = Check("deletions_are_kept", "of sampled partitions, no deletion is lost: what it covered could come back (D1)")
_MOST_KEYS = 2_000
"""Rows of one file to draw partitions from."""
_LISTED = tuple(map(Scalar, (Kind.TINYINT, Kind.SMALLINT, Kind.INT, Kind.BIGINT, Kind.TEXT, Kind.ASCII)))
_PLAIN = re.compile(r"[\w .:/@-]*", re.ASCII)
"""Texts that every dialect writes alike."""
Identity = tuple[bytes, ...]
"""The identity of a partition (rule K1)."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Some partitions, and `sources`: the state's files of their bucket, with the tail. `keys` has a row per partition with its
    stored key columns; `identities` are the same partitions as the oracle compares them.
    """

    sources: Sources
    keys: pa.Table
    identities: frozenset[Identity]

    def has(self, row: Row) -> bool:
        """Return whether a row's partition is in the sample."""
        relation = self.sources.raw.relation
        return _identity(relation, tuple(row[column.name] for column in relation.schema.partition)) in self.identities


def draw(sources: Sources, *, size: int, seed: int) -> Sample:
    """Return a sample of at most `size` partitions of raw and of state."""
    random = Random(seed)
    buckets = sorted({digits_in(part_in(path)) for path in sources.paths(Source.BASE)}, key=lambda digits: (-len(digits), digits))
    longest = [digits for digits in buckets if len(digits) == len(buckets[0])]
    prefix = random.choice(longest) if longest else ""  # the first digits of a bucket of the base
    chosen = in_buckets(sources, [prefix])
    relation = sources.raw.relation
    kept = [names.grouping(column) for column in relation.schema.partition]
    columns = list(dict.fromkeys(name for group in kept for name in group))
    of_raw = snapshot_of(sources.raw, version=sources.raw_version).files
    some = [*of_raw[-1:], *random.sample(of_raw[:-1], min(3, max(0, len(of_raw) - 1)))]  # always the newest
    stored = [_keys_in(path, relation, random) for path in (*chosen.paths(), *some)]
    found: dict[Identity, dict[str, Any]] = {}
    for keys in stored:
        for record in keys.to_pylist():
            identity = _identity(relation, key_of(relation.schema.partition, record))
            texts = (_stored_text(record.get(names.identity(column))) for column in relation.schema.partition)
            if identity not in found and digest(*texts).startswith(prefix):
                found[identity] = record
    drawn = random.sample(sorted(found), min(size, len(found)))
    rows = [{name: found[identity].get(name) for name in columns} for identity in drawn]
    layout = relation.arrow_schema()
    keys = pa.Table.from_pylist(rows, schema=pa.schema([layout.field(name) for name in columns]))
    return Sample(chosen, keys, frozenset(drawn))


def kept_facts(sample: Sample) -> list[Fact]:
    """Return the facts of state and tail about the sample, and truncates."""
    sources = sample.sources
    if not sources.paths():
        return []
    return facts_from(sample, tables_of(sources.raw, sources, snapshot_of_sources(sources))[Source.ALL])


def expected_rows(sample: Sample, facts: list[Fact], *, as_of: int) -> list[Row]:
    """Return the oracle's rows for facts of the sample."""
    return [row for row in latest_rows(sample.sources.raw.relation.schema, facts, now=as_of) if sample.has(row)]


def lost_deletions(schema: TableSchema, landed: list[Fact], kept: list[Fact]) -> list[str]:
    """Return deletions of rows and partitions without an equally late kept deletion: what they covered could come back. Skips
    partitions with ranges, because a range may replace a row's deletion.
    """
    has = _latest_deletions(kept)
    with_ranges = {fact.partition for fact in landed if fact.kind is FactKind.RANGE}
    places = []
    for (partition, clustering), written in sorted(_latest_deletions(landed).items(), key=repr):
        own, whole = has.get((partition, clustering)), has.get((partition, ()))
        newest = max((found for found in (own, whole, has.get(((), ()))) if found is not None), default=None)
        if partition not in with_ranges and (newest is None or newest < written):
            places.append(f"{key_text(schema.row_key, partition + clustering)}: the deletion of {written} is not kept")
    return places


def _latest_deletions(facts: Iterable[Fact]) -> dict[tuple[tuple[Any, ...], tuple[Any, ...]], int]:
    """Return the write time of the latest deletion of each partition and row; of the table, under empty keys."""
    found: dict[tuple[tuple[Any, ...], tuple[Any, ...]], int] = {}
    for fact in facts:
        if fact.deletion is not None and fact.kind in (FactKind.TABLE, FactKind.PARTITION, FactKind.ROW):
            place = (fact.partition, fact.clustering) if fact.kind is FactKind.ROW else (fact.partition, ())
            found[place] = max(found.get(place, fact.deletion.written), fact.deletion.written)
    return found


def facts_from(sample: Sample, table: str, *, arrow: pa.Table | None = None) -> list[Fact]:
    """Return the facts of the sample, and truncates, in a FROM clause; `arrow` is the table that it names, if not files."""
    same = " AND ".join(f"f.{quoted(name)} IS NOT DISTINCT FROM k.{quoted(name)}" for name in sample.keys.column_names)
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("sampled", sample.keys)
        if arrow is not None:
            connection.register(REGISTERED, arrow)
        truncates = f"SELECT * FROM {table} WHERE {quoted(names.KIND)} = 'table'"
        sql = f"SELECT f.* FROM (SELECT * FROM {table}) AS f SEMI JOIN sampled AS k ON {same} UNION ALL BY NAME {truncates}"
        return list(facts_of(sample.sources.raw.relation, with_stores(connection, sql).sql(sql).to_arrow_table()))


def shown_rows(engine: Engine, sample: Sample, *, as_of: int) -> list[Row]:
    """Return the rows of the sample that state and tail show."""
    if not sample.keys.num_rows:
        return []
    relation, where = sample.sources.raw.relation, _condition(sample)
    table = engine.read(Read(sample.sources.raw, as_of=as_of, is_ordered=False, sources=sample.sources, where=where))
    return list(rows_of(relation, (), _of_sample(sample, table)))


def _condition(sample: Sample) -> str | None:
    """Return a condition in SQL that few other partitions meet, so that few rows leave the engine; None for complex keys."""
    conditions = []
    for column in sample.sources.raw.relation.schema.partition:
        values = set(sample.keys[physical_name(column.name)].to_pylist()) if column.type in _LISTED else {None}
        if all(isinstance(value, int) or (isinstance(value, str) and _PLAIN.fullmatch(value)) for value in values):
            listed = (f"'{value}'" if isinstance(value, str) else str(value) for value in values)
            conditions.append(f"{quoted(column.name)} IN ({', '.join(listed)})")
    return " AND ".join(conditions) or None


def _of_sample(sample: Sample, table: pa.Table) -> pa.Table:
    """Return the rows of sampled partitions. Converts only one row per partition to Python, since there may be many rows."""
    relation = sample.sources.raw.relation
    for column in relation.schema.partition:
        if not (carries_comparable(column.type) or reads_from_bytes(column.type)):
            # in such a type equal values are equal keys (rule K1)
            shown, known = table[exact_key(column)], sample.keys[physical_name(column.name)]
            table = table.filter(pc.is_in(shown, value_set=known.combine_chunks().cast(shown.type)))
    number = pa.repeat(pa.scalar(0, pa.int64()), table.num_rows)
    for column in relation.schema.partition:
        coded = pc.dictionary_encode(table[exact_key(column)].combine_chunks(), null_encoding="encode")
        codes = pc.add(pc.multiply(number, len(coded.dictionary)), coded.indices.cast(pa.int64()))
        # numbered again, so that a key of many columns stays small
        number = pc.dictionary_encode(codes).indices.cast(pa.int64())
    rows = pa.table({"number": number, "row": pa.array(range(table.num_rows), pa.int64())})
    first = rows.group_by("number").aggregate([("row", "min")])
    of_keys = rows_of(relation, tuple(c.name for c in relation.schema.partition), table.take(first["row_min"]))
    sampled = first["number"].filter(pa.array([sample.has(row) for row in of_keys], pa.bool_()))
    return table.filter(pc.is_in(number, value_set=sampled))


def differences(schema: TableSchema, expected: Iterable[Row], found: Iterable[Row]) -> list[str]:
    """Return the places where two answers differ, cell by cell; a place names key and column, and shows no value but the key's.

    Keys with equal identity match even if spelled differently: a state keeps only the spellings of its winners (rule K1).
    """
    wanted, shown = (
        {tuple(comparison_key(c, row[c.name]) for c in schema.row_key): row for row in rows} for rows in (expected, found)
    )
    places: list[tuple[str, str]] = []
    for key in wanted.keys() | shown.keys():
        mine, theirs = wanted.get(key), shown.get(key)
        either = theirs if mine is None else mine
        assert either is not None
        named = key_text(schema.row_key, [either[column.name] for column in schema.row_key])
        if mine is None or theirs is None:
            places.append((named, "the row is missing" if theirs is None else "the row is not expected"))
            continue
        unlike = (c.name for c in schema.columns if comparison_key(c, mine[c.name]) != comparison_key(c, theirs[c.name]))
        places += [(named, f"column {name} differs") for name in unlike]
    return [f"{key}: {what}" for key, what in sorted(places)]


def _keys_in(path: str, relation: Relation, random: Random) -> pa.Table:
    """Return the partition keys of some adjacent rows of a file."""
    file = pq.ParquetFile(arrow_source(path))
    known = set(file.schema_arrow.names)
    of_key = {name for c in relation.schema.partition for name in (*names.grouping(c), *names.shown_as(c))}
    wanted = [name for name in relation.arrow_schema().names if name in known & {names.KIND, *of_key}]
    if not file.metadata.num_row_groups:
        return file.schema_arrow.empty_table().select(wanted)
    group = file.read_row_group(random.randrange(file.metadata.num_row_groups), columns=wanted)
    group = group.slice(random.randrange(max(1, group.num_rows - _MOST_KEYS + 1)), _MOST_KEYS)
    return group.filter(pc.not_equal(group[names.KIND], FactKind.TABLE.value))


def _stored_text(value: Any) -> str:
    """Return the text that `plan.expr.Bucket` makes of a value."""
    if value is None:
        return ""
    if isinstance(value, bytes):
        return value.hex().upper()
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def _identity(relation: Relation, partition: tuple[Any, ...]) -> Identity:
    return tuple(partition_identity(c.type, v) for c, v in zip(relation.schema.partition, partition, strict=True))


MOST_FACTS = 250_000
"""The largest number of raw facts to read, give or take a row group."""


@dataclass(frozen=True, slots=True)
class SampledRaw:
    """The sample's facts in raw, and truncates; `looked_at` raw facts were counted, `is_whole`: all of raw was read for them."""

    facts: list[Fact]
    looked_at: int
    is_whole: bool


_Group = tuple[str, range]
"""A row group: its file, and its row numbers."""


def landed(sample: Sample, *, seed: int, most: int | None = MOST_FACTS) -> SampledRaw:
    """Return the sample's facts in raw: in `most` of its facts (None: all), which `seed` draws, always with the newest file."""
    raw = sample.sources.raw
    snapshot = snapshot_of(raw, version=sample.sources.raw_version)
    groups: list[_Group] = []
    looked_at = 0
    for group in () if most is None else _drawn(snapshot, Random(seed)):
        if most is not None and looked_at >= most:
            facts = []
            for file in dict.fromkeys(file for file, _ in groups):
                ranges = [rows for its_file, rows in groups if its_file == file]
                facts += facts_from(sample, from_row_groups(file, ranges, pq.read_schema(arrow_source(file)), raw))
            return SampledRaw(facts, looked_at, is_whole=False)
        groups.append(group)
        looked_at += len(group[1])
    return SampledRaw(facts_from(sample, from_clause(snapshot, raw), arrow=snapshot.arrow), looked_at, is_whole=True)


def _drawn(snapshot: Snapshot, random: Random) -> Iterator[_Group]:
    """Yield row groups in random order, file by file, so that few footers are read; the newest file comes first."""
    if snapshot.arrow is not None:
        return
    others = list(snapshot.files[:-1])
    random.shuffle(others)
    for file in (*snapshot.files[-1:], *others):
        groups = list(_groups(file))
        random.shuffle(groups)
        yield from groups


def _groups(file: str) -> Iterator[_Group]:
    metadata, first = pq.read_metadata(arrow_source(file)), 0
    for number in range(metadata.num_row_groups):
        count = metadata.row_group(number).num_rows
        yield file, range(first, first + count)
        first += count


@dataclass(frozen=True, slots=True)
class Recomputed:
    """Drawn partitions, their facts in raw, in state and tail, and the oracle's rows at `as_of` (rule C4)."""

    sample: Sample
    landed: SampledRaw
    kept: list[Fact]
    expected: list[Row]
    as_of: int

    def against(self, engine: Engine) -> list[str]:
        """Return the places where these rows differ from what the engine shows of state and tail."""
        shown = shown_rows(engine, self.sample, as_of=self.as_of)
        return differences(self.sample.sources.raw.relation.schema, self.expected, shown)


def recomputed(
    sources: Sources,
    *,
    size: int,
    seed: int,
    as_of: int,
    without: frozenset[Identity] = frozenset(),
    most: int | None = MOST_FACTS,
) -> Recomputed:
    """Draw at most `size` partitions, none of `without`, and let the oracle compute rows from their facts.

    If raw is read only in part, because it has more facts than `most` (None: it is read whole), the state's facts replace the
    rest, since compacting is closed (M1).
    """
    sample = draw(sources, size=size, seed=seed)
    sample = replace(sample, identities=sample.identities - without)
    part, kept = landed(sample, seed=seed, most=most), kept_facts(sample)
    facts = part.facts if part.is_whole else part.facts + kept
    return Recomputed(sample, part, kept, expected_rows(sample, facts, as_of=as_of), as_of)
