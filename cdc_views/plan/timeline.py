"""Facts by instant: the parts that each fact wrote at each of its instants.

The *instants* of a fact are the write times of its cells, row marker and deletions, and the expiries of its cells. The fact
changes a view at no other time. Instants are in the unit of write times: µs, or log positions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields

from cdc_views.formats.base import WriteOrder
from cdc_views.model.naming import physical_name
from cdc_views.plan import names
from cdc_views.plan.expr import Case, Each, Expr, Gathered, Item, Named, both, col, cols, equal, when
from cdc_views.plan.nodes import Explode, Node, Select
from cdc_views.plan.order import LAST_EXPIRY, RANK, SHIFT, WRITTEN, has_expiry, now_rank
from cdc_views.plan.reduce import single_cells, stored_keys, with_elements
from cdc_views.plan.reduction import Reduction
from cdc_views.plan.walk import columns_used
from cdc_views.rules.facts import FactKind

_TIMES = "_times"
_MICROS = 1_000_000


@dataclass(frozen=True, slots=True)
class Timeline(Reduction):
    """A reduction of raw by key and instant, with expiries up to `as_of` (s): all keys and identities include the instant."""

    as_of: int = 0

    @classmethod
    def of(cls, reduction: Reduction, *, as_of: int) -> Timeline:
        """Return the same reduction by instant."""
        return cls(**{field.name: getattr(reduction, field.name) for field in fields(reduction)}, as_of=as_of)

    @property
    def clock(self) -> int:
        """The last second of the clock, within the range of expiries."""
        return min(max(self.as_of, -1), LAST_EXPIRY)

    def owners(self, kind: FactKind) -> tuple[str, ...]:
        """Return the columns that identify the row or partition of a `kind` fact, without the instant."""
        return Reduction.identities(self, kind)

    def of_rows(self) -> tuple[str, ...]:
        """Return the columns that identify a row, without the instant."""
        return Reduction.row_keys(self)

    def of_partitions(self) -> tuple[str, ...]:
        """Return the columns that identify and show a partition, without the instant."""
        return tuple(dict(stored_keys(Reduction.partition_keys(self), self.schema.partition)))

    def row_keys(self) -> tuple[str, ...]:
        return (*self.of_rows(), names.INSTANT)

    def partition_keys(self) -> tuple[str, ...]:
        return (*self.of_partitions(), names.INSTANT)

    def identities(self, kind: FactKind) -> tuple[str, ...]:
        return (*self.owners(kind), names.INSTANT)

    def in_time(self, written: Expr) -> Expr | None:
        return both(equal(written, col(names.INSTANT)), Reduction.in_time(self, written))

    def so_far(self, written: Expr) -> Expr:
        """Return whether a part with this write time counts at the instant."""
        counts, until_now = Reduction.in_time(self, written), written <= col(names.INSTANT)
        return until_now if counts is None else until_now & counts

    def facts(self, name: str, *, kinds: Iterable[FactKind], columns: Named, where: Expr | None = None) -> Node:
        """Return one row per fact and each of its instants; `columns` may use the instant."""
        wanted = tuple(kinds)
        used = {c.name for _, value in columns for c in columns_used(value)} - {names.INSTANT}
        read = cols(sorted(used))
        scan = self.scan(f"{name}_read", kinds=wanted, columns=(*read, (_TIMES, self._times(wanted))), where=where)
        grain = f"{scan.grain} and instant of it"
        timed = Explode(f"{name}_at_instants", grain, scan, tuple(sorted(used)), col(_TIMES), names.INSTANT)
        return Select(name, grain, timed, columns)

    def clock_at_instant(self) -> Expr:
        """Return the least rank that is live at the row's instant: the clock follows the instants, up to `as_of`."""
        last = now_rank(self.clock)
        if self.relation.order is not WriteOrder.MICROS:
            return last
        instant = col(names.INSTANT)
        before = (instant < 0, now_rank(-1))  # nothing expires before 1970
        after = (instant >= self.clock * _MICROS, last)
        # like `now_rank`, but without overflow
        return Case((before, after), (instant // _MICROS + (1 - (1 << 32))) * (1 << SHIFT))

    def _times(self, kinds: tuple[FactKind, ...]) -> Gathered:
        values: list[Expr] = [] if kinds == (FactKind.STATIC,) else [col(names.DELETED)[WRITTEN]]
        arrays: list[Expr] = []
        if FactKind.ROW in kinds:
            values += self._of_cell(col(names.LIVE))
        columns = self.schema.regulars * (FactKind.ROW in kinds) + self.schema.statics * (FactKind.STATIC in kinds)
        for column in self.reducible(columns):
            stored = col(physical_name(column.name))
            if column.type.is_multicell:
                values.append(stored["deletion"][WRITTEN])
            for _, cell, _ in single_cells(column, stored):
                values += self._of_cell(cell)
        for column in with_elements(self, columns):
            elements = col(physical_name(column.name))["cells"]
            arrays += [Each(elements, time) for time in self._of_cell(Item())]
        return Gathered(tuple(values), tuple(arrays))

    def _of_cell(self, cell: Expr) -> Iterator[Expr]:
        yield cell[WRITTEN]
        if self.relation.order is WriteOrder.MICROS:
            yield self._expiry(cell[RANK])

    def _expiry(self, rank: Expr) -> Expr:
        """The expiry (µs) of a cell of that rank; null if it does not expire by the last clock."""
        expires = has_expiry(rank) & (rank < now_rank(self.clock))
        # rank = expires_at · 2^31 + (less than 2^31) - 2^63; negated against overflow
        before_last = (rank + 1) * -1 // (1 << SHIFT)
        return when(expires, (before_last * -1 + LAST_EXPIRY) * _MICROS)
