"""The rows of a table in plain, slow Python, by semantics.md and without the SQL: the reference for every engine."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from cdc_views.model.schema import Column, Role, TableSchema
from cdc_views.model.types import Kind, ListOf, LogicalType, MapOf, Scalar, SetOf, Udt, contains, reads_from_bytes
from cdc_views.rules.cells import Cell, Deletion, Liveness, latest_deletion, merge_cells, reconcile_liveness, visible
from cdc_views.rules.codec.comparable import comparable, partition_identity
from cdc_views.rules.codec.serialized import serialize
from cdc_views.rules.facts import Bound, Fact, FactKind

Row = dict[str, Any]  # column name → native value of every column; None is null


@dataclass(slots=True)
class _Group:
    """The reconciled facts about one row, or about the static row of a partition."""

    key: tuple[Any, ...]
    liveness: Liveness | None = None
    deletion: Deletion | None = None
    cells: dict[Hashable, Cell] = field(default_factory=dict)
    complex_deletions: dict[str, Deletion | None] = field(default_factory=dict)
    paths: dict[Hashable, Any] = field(default_factory=dict)

    def copy(self) -> _Group:
        deletions = dict(self.complex_deletions)
        return replace(self, cells=dict(self.cells), complex_deletions=deletions, paths=dict(self.paths))


@dataclass(slots=True)
class _Partition:
    key: tuple[Any, ...]
    deletion: Deletion | None = None
    ranges: list[Fact] = field(default_factory=list)
    rows: dict[Hashable, _Group] = field(default_factory=dict)
    static: _Group = field(default_factory=lambda: _Group(()))

    def copy(self) -> _Partition:
        groups = {place: group.copy() for place, group in self.rows.items()}
        return replace(self, ranges=list(self.ranges), rows=groups, static=self.static.copy())


def path_type(kind: LogicalType) -> LogicalType:
    """Return the type of a multi-cell column's paths: timeuuid for a list, text (field names) for a user type."""
    match kind:
        case ListOf():
            return Scalar(Kind.TIMEUUID)
        case SetOf():
            return kind.element
        case MapOf():
            return kind.key
    return Scalar(Kind.TEXT)


def one_spelling(column: Column, value: Any) -> Any:
    """Return a form of a column's value that is equal for all spellings of clustering keys, elements and map keys. Any of them
    may show (rule K1), because a state has only the spellings of the facts that it kept.
    """
    match column.type:
        case _ if value is None:
            return None
        case kind if column.role is Role.CLUSTERING:
            return comparable(kind, value)
        case SetOf() as kind if kind.is_multicell:
            return tuple(comparable(kind.element, element) for element in value)
        case MapOf() as kind if kind.is_multicell:
            return tuple((comparable(kind.key, key), element) for key, element in value)
    return value


def may_be_spelled_otherwise(column: Column) -> bool:
    """Whether equal keys in a column may differ in bytes, as decimals, NaN and nested types may."""
    if column.role is Role.CLUSTERING:
        return _has_spellings(column.type)
    return isinstance(column.type, SetOf | MapOf) and column.type.is_multicell and _has_spellings(path_type(column.type))


def _has_spellings(kind: LogicalType) -> bool:
    return reads_from_bytes(kind) or kind == Scalar(Kind.DECIMAL)


def compares_as_keys(schema: TableSchema) -> bool:
    """Return whether SQL compares keys like the source; 0.0 and -0.0 are two keys in Cassandra, but one in SQL."""
    return not any(contains(column.type, kind) for column in schema.row_key for kind in (Kind.FLOAT, Kind.DOUBLE))


def latest_rows(schema: TableSchema, facts: Iterable[Fact], *, now: int) -> list[Row]:
    """Return the rows that a read at `now` (epoch seconds) shows, in the order in which `query` prints them. Grain: one row per
    row key, plus one per partition without a row that has live static columns (rule W3).
    """
    known = Reconciled(schema)
    for fact in facts:
        known.add(fact)
    return known.rows(now=now)


@dataclass(slots=True)
class Reconciled:
    """Facts of a table without the losers: what shows at any instant, in memory that grows with cells and not with facts."""

    schema: TableSchema
    _partitions: dict[tuple[bytes, ...], _Partition] = field(default_factory=dict)
    _truncated: Deletion | None = None

    def add(self, fact: Fact) -> None:
        """Reconcile one more fact; the order of facts does not matter."""
        if fact.kind is FactKind.TABLE:
            self._truncated = latest_deletion([self._truncated, fact.deletion])
            return
        columns = zip(self.schema.partition, fact.partition, strict=True)
        identity = tuple(partition_identity(column.type, value) for column, value in columns)
        _absorb(self.schema, self._partitions.setdefault(identity, _Partition(fact.partition)), fact)

    def rows(self, *, now: int) -> list[Row]:
        """Return the rows that `latest_rows` does of the facts so far."""
        known = [self._partitions[identity] for identity in sorted(self._partitions)]
        return [row for partition in known for row in _partition_rows(self.schema, partition, self._truncated, now)]

    def copy(self) -> Reconciled:
        """Return a copy to which other facts may be added."""
        return replace(self, _partitions={identity: known.copy() for identity, known in self._partitions.items()})


def _absorb(schema: TableSchema, partition: _Partition, fact: Fact) -> None:
    match fact.kind:
        case FactKind.PARTITION:
            partition.deletion = latest_deletion([partition.deletion, fact.deletion])
        case FactKind.RANGE:
            partition.ranges.append(fact)
        case FactKind.STATIC:
            _merge(schema, partition.static, fact)
        case FactKind.ROW:
            _merge(schema, _row_group(schema, partition, fact), fact)


def _row_group(schema: TableSchema, partition: _Partition, fact: Fact) -> _Group:
    place = tuple(comparable(c.type, v) for c, v in zip(schema.clustering, fact.clustering, strict=True))
    group = partition.rows.setdefault(place, _Group(fact.clustering))
    # of equal keys that differ in bytes, show the least: any is right, but one must be chosen
    group.key = tuple(
        _least(c.type, ours, theirs) for c, ours, theirs in zip(schema.clustering, group.key, fact.clustering, strict=True)
    )
    return group


def _least(kind: LogicalType, left: Any, right: Any) -> Any:
    """Return the one of two equal keys that shows: the least by bytes if raw tables keep bytes, else by text."""
    return min(left, right, key=lambda value: serialize(kind, value) if reads_from_bytes(kind) else str(value).encode())


def _merge(schema: TableSchema, group: _Group, fact: Fact) -> None:
    group.liveness = reconcile_liveness(group.liveness, fact.liveness)
    group.deletion = latest_deletion([group.deletion, fact.deletion])
    merge_cells(group.cells, ((name, cell) for name, cell in fact.cells.items() if not _is_dropped(schema, name, cell)))
    for name, elements in fact.elements.items():
        group.complex_deletions[name] = latest_deletion([group.complex_deletions.get(name), elements.deletion])
        kind = path_type(schema.column(name).type)
        for path, cell in elements.cells:
            if not _is_dropped(schema, name, cell):
                place = (name, comparable(kind, path))
                group.paths[place] = _least(kind, group.paths.get(place, path), path)
                merge_cells(group.cells, [(place, cell)])


def _is_dropped(schema: TableSchema, name: str, cell: Cell) -> bool:
    """Whether rule W6 hides the cell: the table lacks the column, or the cell is not newer than the column's drop."""
    dropped_at = schema.drop_time(name)
    return not schema.has(name) or (dropped_at is not None and cell.written <= dropped_at)


def _partition_rows(schema: TableSchema, partition: _Partition, truncated: Deletion | None, now: int) -> list[Row]:
    whole = latest_deletion([partition.deletion, truncated])
    keys = {c.name: v for c, v in zip(schema.partition, partition.key, strict=True)}
    statics = _values(schema.statics, partition.static, deletion=whole, now=now)
    rows = [
        {**keys, **{c.name: v for c, v in zip(schema.clustering, group.key, strict=True)}, **statics, **values}
        for place, group in sorted(partition.rows.items(), key=lambda item: _order(schema, item[0]))
        if (values := _row_values(schema, partition, group, whole, now)) is not None
    ]
    if not rows and any(value is not None for value in statics.values()):
        nulls = dict.fromkeys(c.name for c in schema.columns)
        rows = [{**nulls, **keys, **statics}]
    return rows


def _order(schema: TableSchema, place: Any) -> tuple[Any, ...]:
    return tuple(_Descending(part) if c.descending else part for c, part in zip(schema.clustering, place, strict=True))


@dataclass(frozen=True)
class _Descending:
    """Bytes in reverse order."""

    part: bytes

    def __lt__(self, other: _Descending) -> bool:
        return other.part < self.part


def _row_values(schema: TableSchema, partition: _Partition, group: _Group, whole: Deletion | None, now: int) -> Row | None:
    """Return the values of the regular columns; None if the row does not exist at `now` (rule W2)."""
    covering = [r.deletion for r in partition.ranges if _in_range(schema, r, group.key)]
    deletion = latest_deletion([group.deletion, whole, *covering])
    values = _values(schema.regulars, group, deletion=deletion, now=now)
    liveness = group.liveness
    alive = liveness is not None and liveness.is_live(now) and not (deletion and deletion.covers(liveness.written))
    if alive or any(value is not None for value in values.values()):
        return values
    return None


def _in_range(schema: TableSchema, fact: Fact, key: tuple[Any, ...]) -> bool:
    if fact.start is None or fact.end is None:
        raise ValueError("a range fact has two bounds")
    return _beyond(schema, fact.start, key, side=1) and _beyond(schema, fact.end, key, side=-1)


def _beyond(schema: TableSchema, bound: Bound, key: tuple[Any, ...], *, side: int) -> bool:
    """Whether `key` lies inside `bound`; `side` is 1 for a start, -1 for an end, in clustering order."""
    for column, limit, value in zip(schema.clustering, bound.prefix, key, strict=False):
        ours, theirs = comparable(column.type, value), comparable(column.type, limit)
        if ours != theirs:
            return ((ours > theirs) != column.descending) == (side > 0)
    return bound.inclusive or not bound.prefix


def _values(columns: Iterable[Column], group: _Group, *, deletion: Deletion | None, now: int) -> Row:
    return {c.name: _column_value(c, group, deletion, now) for c in columns}


def _column_value(column: Column, group: _Group, deletion: Deletion | None, now: int) -> Any:
    if not column.type.is_multicell:
        cell = group.cells.get(column.name)
        return cell.value if cell is not None and visible(cell, deletion=deletion, now=now) else None
    own = latest_deletion([deletion, group.complex_deletions.get(column.name)])
    live = [
        (place[1], group.paths[place], cell.value)
        for place, cell in group.cells.items()
        if isinstance(place, tuple) and place[0] == column.name and visible(cell, deletion=own, now=now)
    ]
    return _assemble(column.type, sorted(live, key=lambda element: element[0]))


def _assemble(kind: LogicalType, live: list[tuple[bytes, Any, Any]]) -> Any:
    """Return a multi-cell value of live (order, path, value) elements; None if there are none (rule W4)."""
    if not live:
        return None
    match kind:
        case ListOf():
            return tuple(value for _, _, value in live)
        case SetOf():
            return tuple(path for _, path, _ in live)
        case MapOf():
            return tuple((path, value) for _, path, value in live)
        case Udt():
            values = {path: value for _, path, value in live}
            return tuple(values.get(name) for name, _ in kind.fields)
    raise TypeError(f"{kind} is not multi-cell")
