"""Seeded random histories: few keys, few write times, every kind of fact; so ties and overlaps happen all the time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from cdc_views.formats.base import WriteOrder, order_key
from cdc_views.model.schema import Column
from cdc_views.model.types import EMPTY, LogicalType, Scalar, SetOf, Udt, carries_comparable
from cdc_views.rules.cells import Cell, Deletion, Liveness
from cdc_views.rules.codec.comparable import comparable
from cdc_views.rules.codec.serialized import serialize
from cdc_views.rules.facts import Bound, Elements, Fact, FactKind, Origin
from cdc_views.rules.oracle import path_type
from cdc_views.storage.relation import element_value_type
from helpers.schemas import Subject
from helpers.values import GREATEST, LEAST, SCALARS, some

NOW = 1_795_254_655
"""The instant that expiries of histories lie around."""
TICKS = 8
"""Write times of a history are at most so many neighbouring ones."""
MAX_TTL = 630_720_000
"""20 years. Source: Cassandra 5.0, `Attributes.MAX_TTL`."""
MAX_SECONDS = (1 << 32) - 1
NODES = ("node1", "node2", "node3")
LATE_LANDING = 1_000_000
"""When (µs) the second batch of a table's facts landed; the first landed at 0."""


@dataclass(frozen=True, slots=True)
class Histories:
    """The facts of one raw table, every case's, replicated and shuffled, in two batches that landed one after the other."""

    subject: Subject
    early: tuple[Fact, ...]
    late: tuple[Fact, ...]

    @property
    def facts(self) -> tuple[Fact, ...]:
        """All of them."""
        return self.early + self.late

    def of_case(self, case: int) -> list[Fact]:
        """Return the facts that bear on one case, copies once, in a stable order."""
        once = {repr(replace(f, origin=Origin())): f for f in self.facts if not f.partition or f.partition[0] == case}
        return [replace(fact, origin=Origin()) for _, fact in sorted(once.items())]


def histories(subject: Subject, *, cases: int, seed: int) -> Histories:
    """Return `cases` random histories of one table; the same for equal arguments."""
    facts = [fact for case in range(cases) for fact in history(subject, case=case, seed=seed)]
    rng = Random(f"{seed} {subject.name}")
    if subject.order is WriteOrder.LOG_POSITION:
        facts += [Fact(FactKind.TABLE, deletion=Deletion(order_key(2, ordinal=n), 0)) for n in (0, 3)]
    copies = [copy for fact in facts for copy in replicated(rng, fact)]
    rng.shuffle(copies)
    half = len(copies) // 2
    return Histories(subject, tuple(copies[:half]), tuple(copies[half:]))


def history(subject: Subject, *, case: int, seed: int) -> list[Fact]:
    """Return one history: the facts of a few keys, all with `case` as their first partition column."""
    rng = Random(f"{seed} {subject.name} {case}")
    if subject.order is WriteOrder.LOG_POSITION:
        return _WholeRows(subject, case, rng).facts()
    return _Mutations(subject, case, rng).facts()


def replicated(rng: Random, fact: Fact) -> list[Fact]:
    """Return the fact as one to three replicas tell it, some of them twice."""
    nodes = rng.sample(NODES, rng.randint(1, 3))
    nodes += rng.choices(nodes, k=rng.choice((0, 0, 0, 1)))
    return [replace(fact, origin=Origin(node, "log", rng.randrange(1 << 40))) for node in nodes]


def pool(rng: Random, kind: LogicalType, *, count: int = 3) -> list[Any]:
    """Return a few values, often ones that are equal or nearly so."""
    if isinstance(kind, Scalar) and rng.random() < 0.4:
        return list(SCALARS[kind.kind][:2])
    return some(rng, kind, count)


class _Keys:
    """The few keys of one case."""

    def __init__(self, subject: Subject, case: int, rng: Random) -> None:
        self.subject, self.schema, self.rng, self.case = subject, subject.schema, rng, case
        self.partitions = [self._partition() for _ in range(rng.choice((1, 1, 2)))]
        pools = [pool(rng, c.type) for c in self.schema.clustering]
        self.clusterings = [tuple(map(rng.choice, pools)) for _ in range(rng.choice((1, 2, 2, 3)))]
        self.values = {c.name: pool(rng, c.type) for c in self.schema.columns if not c.is_key and not c.type.is_multicell}

    def _partition(self) -> tuple[Any, ...]:
        others = (self.rng.choice(pool(self.rng, c.type)) for c in self.schema.partition[1:])
        return (self.case, *map(self._storable, self.schema.partition[1:], others))

    def _storable(self, column: Column, value: Any) -> Any:
        # a partition key of 0 bytes is refused where it would be stored as null
        if value is EMPTY and (self.subject.order is WriteOrder.LOG_POSITION or not carries_comparable(column.type)):
            return next(v for v in some(self.rng, column.type, 2) if v is not EMPTY)
        return value


class _Mutations(_Keys):
    """Cassandra's partition updates: cells with times of their own, deletions of every scope."""

    def __init__(self, subject: Subject, case: int, rng: Random) -> None:
        super().__init__(subject, case, rng)
        bases = (0,) if self.schema.dropped else (0, 0, 0, 1_700_000_000_000_000, LEAST, GREATEST - TICKS + 1)
        self.base = rng.choice(bases)
        self.ticks = TICKS if self.schema.dropped else rng.choice((2, TICKS, TICKS))
        self.paths = {c.name: pool(rng, path_type(c.type)) for c in self.schema.columns if c.type.is_multicell}
        for column in self.schema.columns:
            if column.type.is_multicell and isinstance(column.type, Udt):
                names = [name for name, _ in column.type.fields]
                self.paths[column.name] = rng.sample(names, min(len(names), 3))

    def facts(self) -> list[Fact]:
        if self.rng.random() < 0.1:
            return [self.rng.choice((self.marker, self.marker, self.row_deletion))() for _ in range(self.rng.randint(2, 6))]
        makers = [self.row] * 6 + [self.marker, self.partition_deletion, self.row_deletion]
        if self.schema.clustering:
            makers += [self.range_deletion]
        if self.schema.statics:
            makers += [self.static] * 2
        return [self.rng.choice(makers)() for _ in range(self.rng.randint(1, 10))]

    def row(self) -> Fact:
        at = self._clock()
        cells, elements = self._content(self.schema.regulars, at)
        marker = self._liveness(at()) if self.rng.random() < 0.4 else None
        deletion = self._deletion(at()) if self.rng.random() < 0.1 else None
        return Fact(FactKind.ROW, self._partition_key(), self._clustering_key(), marker, deletion, cells=cells, elements=elements)

    def marker(self) -> Fact:
        """An INSERT of only the key."""
        return Fact(FactKind.ROW, self._partition_key(), self._clustering_key(), self._liveness(self._tick()))

    def static(self) -> Fact:
        cells, elements = self._content(self.schema.statics, self._clock())
        return Fact(FactKind.STATIC, self._partition_key(), cells=cells, elements=elements)

    def row_deletion(self) -> Fact:
        return Fact(FactKind.ROW, self._partition_key(), self._clustering_key(), deletion=self._deletion(self._tick()))

    def partition_deletion(self) -> Fact:
        return Fact(FactKind.PARTITION, self._partition_key(), deletion=self._deletion(self._tick()))

    def range_deletion(self) -> Fact:
        deletion = self._deletion(self._tick())
        return Fact(FactKind.RANGE, self._partition_key(), deletion=deletion, start=self._bound(), end=self._bound())

    def _partition_key(self) -> tuple[Any, ...]:
        return self.rng.choice(self.partitions)

    def _clustering_key(self) -> tuple[Any, ...]:
        return self.rng.choice(self.clusterings)

    def _bound(self) -> Bound:
        """A prefix of a known key, its last value perhaps another one."""
        size = self.rng.randint(0, len(self.schema.clustering))
        prefix = list(self._clustering_key()[:size])
        if size and self.rng.random() < 0.4:
            prefix[-1] = self.rng.choice(pool(self.rng, self.schema.clustering[size - 1].type))
        return Bound(tuple(prefix), self.rng.random() < 0.5)

    def _tick(self) -> int:
        return self.base + self.rng.randrange(self.ticks)

    def _clock(self) -> Any:
        """One write time for the whole fact, as a statement has, or one for each cell, as a merged mutation has."""
        tick = self._tick()
        return self._tick if self.rng.random() < 0.3 else lambda: tick

    def _liveness(self, written: int) -> Liveness:
        return Liveness(written, *self._expiry()) if self.rng.random() < 0.4 else Liveness(written)

    def _deletion(self, written: int) -> Deletion:
        return Deletion(written, self._seconds())

    def _seconds(self) -> int:
        return self.rng.choice((NOW - 1, NOW, NOW, NOW + 1, NOW + 2, 0, MAX_SECONDS))

    def _expiry(self) -> tuple[int, int]:
        return self.rng.choice((1, 2, 3, MAX_TTL)), self.rng.choice((NOW - 1, NOW, NOW + 1, NOW + 1, NOW + 2, MAX_SECONDS))

    def _content(self, columns: Sequence[Column], at: Any) -> tuple[dict[str, Cell], dict[str, Elements]]:
        share = self.rng.choice((0.2, 0.5, 0.9))
        written = [c for c in columns if self.rng.random() < share]
        cells = {c.name: self._cell(c.type, self.values[c.name], at()) for c in written if not c.type.is_multicell}
        return cells, {c.name: self._elements(c, at) for c in written if c.type.is_multicell}

    def _cell(self, kind: LogicalType | None, values: Sequence[Any], written: int) -> Cell:
        """`kind` None: an element of a set, which has no value."""
        form = self.rng.choice("lllleetw")
        if form == "t":
            return Cell(written, deleted_at=self._seconds())
        ttl, expires_at = self._expiry() if form == "e" else (None, None)
        if kind is None:
            return Cell(written, b"", b"", ttl, expires_at)
        value = self.rng.choice(values)
        return Cell(written, value, serialize(kind, value), ttl, expires_at)

    def _elements(self, column: Column, at: Any) -> Elements:
        written = at()
        deletion = None
        if self.rng.random() < 0.4:
            # an overwrite deletes one microsecond before it writes (rule D3); a removal at its own time
            early = self.rng.choice((0, 1))
            deletion = self._deletion(max(LEAST, written - early))
        paths = self.rng.sample(self.paths[column.name], self.rng.randint(0 if deletion else 1, len(self.paths[column.name])))
        once = {comparable(path_type(column.type), path): path for path in paths}
        return Elements(deletion, tuple((path, self._element(column.type, path, written)) for path in once.values()))

    def _element(self, kind: LogicalType, path: Any, written: int) -> Cell:
        if isinstance(kind, SetOf):
            return self._cell(None, (), written)
        value = kind.field_type(path) if isinstance(kind, Udt) else element_value_type(kind)
        assert value is not None
        return self._cell(value, pool(self.rng, value), written)


class _WholeRows(_Keys):
    """Events of a relational source (rules S1 to S3): whole rows at one log position, deletes, now and then a TOAST."""

    def facts(self) -> list[Fact]:
        places = [(epoch, position, ordinal) for epoch in (0, 0, 1) for position in (1, 2, 3) for ordinal in (0, 1, 2)]
        chosen = self.rng.sample(sorted(set(places)), self.rng.randint(1, 6))
        return [self._event(order_key(p, ordinal=o, epoch=e)) for e, p, o in chosen]

    def _event(self, written: int) -> Fact:
        key = self.rng.choice(self.partitions)
        if self.rng.random() < 0.2:
            return Fact(FactKind.ROW, key, deletion=Deletion(written, 0))
        present = [c for c in self.schema.regulars if self.rng.random() < 0.8]
        return Fact(FactKind.ROW, key, liveness=Liveness(written), cells={c.name: self._cell(c, written) for c in present})

    def _cell(self, column: Column, written: int) -> Cell:
        value = self.rng.choice((None, *self.values[column.name]))
        if value is None or value is EMPTY:
            return Cell(written, deleted_at=0)
        return Cell(written, value, serialize(column.type, value))
