"""DuckDB's SQL that counts on how many nodes each cell fact was seen.

Every statement is about one place (`places.Place`), so that types stay the table's own and only one column is read.
Two steps: `copies` (one row a copy as it stands in the raw table) and `facts` (one row a cell fact, with the set of nodes
that have shown it). Sets of nodes are bit strings, a digit a node, which are fast to unite and to group by.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from cdc_views.operations.replication.places import CellStructs
from cdc_views.plan import names
from cdc_views.plan.order import WRITTEN
from cdc_views.sql.dialects import dialect
from cdc_views.sql.dialects.base import Sql, function, identifier, number
from cdc_views.storage.relation import Relation

NODES, OWNERS, NODE, COUNT, OLDEST, NEWEST, LANDED = "_nodes", "_owners", "_node", "_count", "_oldest", "_newest", "_landed"
_AT, _COPY, _ORIGIN = "_at", "_copy", "_origin"


def field_name(field: str) -> str:
    """Return the column in which a statement gives a field of a place's struct."""
    return f"_f_{field}"


@dataclass(frozen=True, slots=True)
class Behind:
    """A node that lacks facts, and a witness: a node that has them."""

    node: str
    witness: str


LogPlace = tuple[int, str, int]
"""Where an event stands in a node's log: length of the segment's name, segment, position; orderable."""


@dataclass(frozen=True, slots=True)
class Statements:
    """Statements over one raw table."""

    relation: Relation
    table: str
    """What stands after FROM, text in DuckDB's dialect."""
    nodes: tuple[str, ...] = ()
    """Names of the nodes in the raw table; the n-th digit of a set is for the n-th. Only `landed` needs none."""
    landed_as_of: int | None = None
    """Leave out what landed later (µs)."""

    def landed(self) -> str:
        """One row a node: its newest place, and when it last landed (µs)."""
        last = function("epoch_us", function("MAX", _col(names.LANDED)))
        query = exp.select(_as(_node(), NODE), _as(function("MAX", _place()), NEWEST), _as(last, LANDED))
        return _text(query.from_(self._raw()).where(self._in_time()).group_by(_node()).order_by(_node()))

    def tally(self, place: CellStructs, *, with_owners: bool) -> str:
        """One row a set of nodes (and of owners of the partition): how many facts these nodes have, and their times."""
        sets = [NODES, OWNERS] if with_owners else [NODES]
        folds = [
            _as(function("COUNT", exp.Star()), COUNT),
            _as(function("MIN", _col(_WRITTEN)), OLDEST),
            _as(function("MAX", _col(_WRITTEN)), NEWEST),
        ]
        query = exp.select(*map(_digits, sets), *folds).from_(_sub(self._owned(place, with_owners=with_owners)))
        return _text(query.group_by(*map(_col, sets)))

    def first(self, place: CellStructs, behind: list[Behind], *, with_owners: bool) -> str:
        """One row: for each of `behind`, where in its witness's log the first fact stands that it lacks; null for none."""
        facts = self._owned(place, with_owners=with_owners, witnesses=_witnesses(behind))
        firsts = []
        for i, one in enumerate(behind):
            lacks = [self._has(one.witness), exp.not_(self._has(one.node))]
            owns = [self._has(one.node, among=OWNERS)] if with_owners else []
            firsts.append(_as(_filtered(function("MIN", _col(_at(one, behind))), *lacks, *owns), f"_{i}"))
        return _text(exp.select(*firsts).from_(_sub(facts)))

    def after(self, place: CellStructs, behind: dict[Behind, LogPlace]) -> str:
        """One row: for each of `behind`, how many facts it has that stand in its witness's log after that place."""
        facts = self._facts(place, witnesses=_witnesses(list(behind)))
        counts = []
        for i, (one, (_, segment, position)) in enumerate(behind.items()):
            later = exp.GT(this=_col(_at(one, list(behind))), expression=_place_of(_literal(segment), number(position)))
            counts.append(_as(_filtered(function("COUNT", exp.Star()), self._has(one.node), later), f"_{i}"))
        return _text(exp.select(*counts).from_(_sub(facts)))

    def listing(self, place: CellStructs, *, fewer_than: int | None, only_on: str | None, with_owners: bool) -> str:
        """One row a cell fact that fewer nodes than that have shown, or one node alone, in the order of keys."""
        schema = self.relation.schema
        keys, ids = place.keys(schema), [field_name(f) for f in place.identity]
        others = [*place.shown(schema), *(field_name(f) for f in place.spelled + place.carried)]
        sets = [NODES, OWNERS] if with_owners else [NODES]
        query = exp.select(*map(_col, [*keys, *ids, *others]), *map(_digits, sets))
        query = query.from_(_sub(self._owned(place, with_owners=with_owners)))
        if fewer_than is not None:
            query = query.where(exp.LT(this=_size(NODES), expression=number(fewer_than)))
        if only_on is not None:
            query = query.where(self._has(only_on), exp.EQ(this=_size(NODES), expression=number(1)))
        return _text(query.order_by(*map(_col, [*keys, *ids])))

    def confirmed(self, place: CellStructs, *, quorum: int) -> str:
        """One row a cell fact that at least so many nodes have shown, its struct's fields apart."""
        schema = self.relation.schema
        columns = [*place.keys(schema), *place.shown(schema), *(field_name(f) for f in place.fields)]
        query = exp.select(*map(_col, columns)).from_(_sub(self._facts(place)))
        return _text(query.where(exp.GTE(this=_size(NODES), expression=number(quorum))))

    def _raw(self) -> Sql:
        return dialect("duckdb").table(self.table)

    def _in_time(self) -> Sql:
        if self.landed_as_of is None:
            return exp.true()
        return exp.LTE(this=function("epoch_us", _col(names.LANDED)), expression=number(self.landed_as_of))

    def _copies(self, place: CellStructs) -> exp.Select:
        struct: Sql = _col(place.steps[0])
        for step in place.steps[1:]:
            struct = _extract(struct, step)
        given = function("UNNEST", struct) if place.is_array else struct
        schema = self.relation.schema
        keys = [*place.keys(schema), *place.shown(schema)]
        is_kind = exp.EQ(this=_col(names.KIND), expression=exp.Literal.string(place.kind.value))
        is_there = exp.Not(this=exp.Is(this=_col(place.steps[0]), expression=exp.Null()))
        inner = exp.select(*map(_col, keys), _as(_node(), NODE), _as(_place(), _AT), _as(given, _COPY))
        inner = inner.from_(self._raw()).where(exp.and_(is_kind, is_there, self._in_time(), copy=False))
        fields = [_as(_extract(_col(_COPY), f), field_name(f)) for f in place.fields]
        is_copy = exp.Not(this=exp.Is(this=_col(_COPY), expression=exp.Null()))
        return exp.select(*map(_col, keys), _col(NODE), _col(_AT), *fields).from_(_sub(inner)).where(is_copy)

    def _facts(self, place: CellStructs, *, witnesses: tuple[str, ...] = ()) -> exp.Select:
        """One row a cell fact; of each witness the first place in its log, null where it has not shown the fact."""
        schema = self.relation.schema
        keys = [*place.keys(schema), *(field_name(f) for f in place.identity)]
        least = [*place.shown(schema), *(field_name(f) for f in place.spelled)]
        folds = [_as(function("MIN", _col(name)), name) for name in least]
        folds += [_as(function("ANY_VALUE", _col(field_name(f))), field_name(f)) for f in place.carried]
        folds.append(_as(self._united(_col(NODE)), NODES))
        for i, witness in enumerate(witnesses):
            is_witness = exp.EQ(this=_col(NODE), expression=_literal(witness))
            folds.append(_as(_filtered(function("MIN", _col(_AT)), is_witness), f"{_AT}_{i}"))
        query = exp.select(*map(_col, keys), *folds).from_(_sub(self._copies(place)))
        return query.group_by(*map(_col, keys))

    def _owned(self, place: CellStructs, *, with_owners: bool, witnesses: tuple[str, ...] = ()) -> exp.Select:
        """Facts, each with the nodes that have shown any fact of its partition."""
        facts = self._facts(place, witnesses=witnesses)
        if not with_owners:
            return facts
        keys = [names.identity(c) for c in self.relation.schema.partition]
        owned = exp.select(*map(_col, keys), _as(self._united(_node()), OWNERS)).from_(self._raw())
        owned = owned.where(self._in_time()).group_by(*map(_col, keys))
        on = [exp.EQ(this=_side("_l", key), expression=_side("_r", key)) for key in keys]
        columns = [*(_side("_l", column.alias_or_name) for column in facts.selects), _side("_r", OWNERS)]
        return exp.select(*columns).from_(_sub(facts, "_l")).join(_sub(owned, "_r"), on=exp.and_(*on, copy=False))

    def _united(self, node: Sql) -> Sql:
        """The set of a group's nodes."""
        known = exp.Array(expressions=[_literal(name) for name in self.nodes])
        index = exp.Sub(this=function("list_position", known, node), expression=number(1))
        none = function("bitstring", exp.Literal.string("0"), number(len(self.nodes)))
        return function("bit_or", function("set_bit", none, exp.cast(index, "INTEGER"), number(1)))

    def _has(self, node: str, *, among: str = NODES) -> Sql:
        return exp.EQ(this=function("get_bit", _col(among), number(self.nodes.index(node))), expression=number(1))


_WRITTEN = field_name(WRITTEN)


def _text(query: exp.Select) -> str:
    return query.sql(dialect="duckdb")


def _col(name: str) -> exp.Column:
    return exp.column(identifier(name))


def _side(side: str, name: str) -> exp.Column:
    return exp.Column(this=identifier(name), table=identifier(side))


def _as(value: Sql, name: str) -> Sql:
    return exp.alias_(value, identifier(name), copy=False)


def _sub(query: exp.Select, alias: str = "_steps") -> Sql:
    return query.subquery(identifier(alias), copy=False)


def _extract(base: Sql, name: str) -> Sql:
    """A field of a struct. Not by a dot: `a.b` would be column `b` of a table `a`."""
    return function("struct_extract", base, exp.Literal.string(name))


def _node() -> Sql:
    return _extract(_col(_ORIGIN), "node")


def _place() -> Sql:
    return _place_of(_extract(_col(_ORIGIN), "segment"), _extract(_col(_ORIGIN), "position"))


def _place_of(segment: Sql, position: Sql) -> Sql:
    """What orders a node's log: segments are numbers that grow, written without leading zeros."""
    return dialect("duckdb").struct([("size", function("LENGTH", segment)), ("segment", segment.copy()), ("position", position)])


def _witnesses(behind: list[Behind]) -> tuple[str, ...]:
    return tuple(sorted({one.witness for one in behind}))


def _at(one: Behind, behind: list[Behind]) -> str:
    """The column of the witness's places."""
    return f"{_AT}_{_witnesses(behind).index(one.witness)}"


def _filtered(fold: Sql, *conditions: Sql) -> Sql:
    return exp.Filter(this=fold, expression=exp.Where(this=exp.and_(*conditions, copy=False)))


def _digits(name: str) -> Sql:
    return _as(exp.cast(_col(name), "VARCHAR"), name)


def _size(name: str) -> Sql:
    return function("bit_count", _col(name))


def _literal(text: str) -> Sql:
    """A text; of an unusual one its bytes, so that no printer or parser meets its letters."""
    if text.isascii() and text.isprintable() and "\\" not in text:
        return exp.Literal.string(text)
    return function("decode", function("unhex", exp.Literal.string(text.encode().hex())))
