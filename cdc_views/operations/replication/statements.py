"""DuckDB's SQL that counts on how many nodes each cell fact was seen.

Every statement is about one place (`places.CellStructs`), so that it keeps the table's types and reads only one column. It has
two steps: copies (one row per copy in the raw table) and facts (one row per cell fact, with the set of nodes that have shown
it). Sets of nodes are bit strings, one digit per node, because these are fast to unite and to group by.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from cdc_views.engines.duckdb.types import literal, quoted
from cdc_views.operations.replication.places import CellStructs
from cdc_views.plan import names
from cdc_views.plan.order import WRITTEN
from cdc_views.storage.relation import Relation

NODES, OWNERS, NODE, COUNT, OLDEST, NEWEST, LANDED = "_nodes", "_owners", "_node", "_count", "_oldest", "_newest", "_landed"
SINCE, SPAN, DELAY = "_since", "_span", "_delay"


def field_name(field: str) -> str:
    """Return the column of a statement for a field of a place's struct."""
    return f"_f_{field}"


@dataclass(frozen=True, slots=True)
class Behind:
    """A node that lacks facts, and a witness: a node that has them."""

    node: str
    witness: str


LogPlace = tuple[int, str, int]
"""The place of an event in a node's log, orderable: length of the segment's name, segment, position."""


def _place(segment: str, position: str) -> str:
    """Return SQL that orders a node's log: segments are growing numbers without leading zeros."""
    return f"struct_pack(size := length({segment}), segment := {segment}, position := {position})"


_NODE_OF = "struct_extract(_origin, 'node')"
_PLACE_OF = _place("struct_extract(_origin, 'segment')", "struct_extract(_origin, 'position')")


@dataclass(frozen=True, slots=True)
class Statements:
    """Statements on one raw table; `table` is the FROM clause, `landed_as_of` (µs) leaves out later landings. `nodes` names the
    nodes in the raw table, in the order of a set's digits; only `landed` does not need them.
    """

    relation: Relation
    table: str
    nodes: tuple[str, ...] = ()
    landed_as_of: int | None = None

    def landed(self) -> str:
        """Return one row per node: its newest place, and when it first and last landed (µs)."""
        first, last = (f"epoch_us({fold}({names.LANDED}))" for fold in ("min", "max"))
        return (
            f"SELECT {_NODE_OF} AS {NODE}, max({_PLACE_OF}) AS {NEWEST}, {first} AS {SINCE}, {last} AS {LANDED} "
            f"FROM {self.table} WHERE {self._in_time()} GROUP BY {_NODE_OF} ORDER BY {_NODE_OF}"
        )

    def tally(self, place: CellStructs, *, with_owners: bool) -> str:
        """Return one row per set of nodes (and partition owners): how many facts the nodes have, and their write times."""
        written, sets = field_name(WRITTEN), _sets(with_owners=with_owners)
        return (
            f"SELECT {_as_digits(sets)}, count(*) AS {COUNT}, min({written}) AS {OLDEST}, max({written}) AS {NEWEST} "
            f"FROM ({self._owned(place, with_owners=with_owners)}) AS _owned GROUP BY {_listed(sets)}"
        )

    def arrivals(self, place: CellStructs, *, since: int, step: int) -> str:
        """Return one row per node and span of `step` µs of landing from `since` on: its number, how many copies of facts landed
        then, and the sum of the µs from the write of each to its landing.
        """
        at = f"epoch_us({names.LANDED})"
        return (
            f"SELECT {NODE}, ({at} - {since}) // {step} AS {SPAN}, count(*) AS {COUNT}, "
            f"CAST(sum(CAST({at} AS HUGEINT) - {field_name(WRITTEN)}) AS VARCHAR) AS {DELAY} "
            f"FROM ({self._copies(place)}) AS _copies GROUP BY ALL"
        )

    def first(self, place: CellStructs, behind: list[Behind], *, with_owners: bool) -> str:
        """Return one row: for each of `behind`, the place of the first fact that it lacks in its witness's log; null for none."""
        firsts = []
        for i, one in enumerate(behind):
            lacks = f"{self._has(one.witness)} AND NOT {self._has(one.node)}"
            owns = f" AND {self._has(one.node, among=OWNERS)}" if with_owners else ""
            firsts.append(f"min({_at(one, behind)}) FILTER (WHERE {lacks}{owns}) AS _{i}")
        facts = self._owned(place, with_owners=with_owners, witnesses=_witnesses(behind))
        return f"SELECT {', '.join(firsts)} FROM ({facts}) AS _owned"

    def after(self, place: CellStructs, behind: dict[Behind, LogPlace]) -> str:
        """Return one row: for each of `behind`, how many of its facts come after that place in its witness's log."""
        counts = []
        for i, (one, (_, segment, position)) in enumerate(behind.items()):
            is_later = f"{_at(one, list(behind))} > {_place(_text(segment), str(position))}"
            counts.append(f"count(*) FILTER (WHERE {self._has(one.node)} AND {is_later}) AS _{i}")
        return f"SELECT {', '.join(counts)} FROM ({self._facts(place, witnesses=_witnesses(list(behind)))}) AS _facts"

    def listing(self, place: CellStructs, *, fewer_than: int | None, only_on: str | None, with_owners: bool) -> str:
        """Return one row per cell fact that fewer than `fewer_than` nodes, or `only_on` alone, have shown, by key."""
        schema = self.relation.schema
        keys = [*place.keys(schema), *map(field_name, place.identity)]
        others = [*place.shown(schema), *map(field_name, place.spelled + place.carried)]
        wanted = [] if fewer_than is None else [f"bit_count({NODES}) < {fewer_than}"]
        if only_on is not None:
            wanted += [self._has(only_on), f"bit_count({NODES}) = 1"]
        return (
            f"SELECT {_listed(keys + others)}, {_as_digits(_sets(with_owners=with_owners))} "
            f"FROM ({self._owned(place, with_owners=with_owners)}) AS _owned "
            f"WHERE {' AND '.join(wanted) or 'TRUE'} ORDER BY {_listed(keys)}"
        )

    def confirmed(self, place: CellStructs, *, quorum: int) -> str:
        """Return one row per cell fact that at least `quorum` nodes have shown, with one column per field of its struct."""
        schema = self.relation.schema
        columns = [*place.keys(schema), *place.shown(schema), *map(field_name, place.fields)]
        return f"SELECT {_listed(columns)} FROM ({self._facts(place)}) AS _facts WHERE bit_count({NODES}) >= {quorum}"

    def _in_time(self) -> str:
        return "TRUE" if self.landed_as_of is None else f"epoch_us({names.LANDED}) <= {self.landed_as_of}"

    def _copies(self, place: CellStructs) -> str:
        # not with dots: `a.b` would mean column `b` of table `a`
        struct = quoted(place.steps[0])
        for step in place.steps[1:]:
            struct = f"struct_extract({struct}, {literal(step)})"
        copy = f"unnest({struct})" if place.is_array else struct
        schema = self.relation.schema
        keys = _listed([*place.keys(schema), *place.shown(schema)])
        inner = (
            f"SELECT {keys}, {names.LANDED}, {_NODE_OF} AS {NODE}, {_PLACE_OF} AS _at, {copy} AS _copy FROM {self.table} WHERE "
            f"{names.KIND} = '{place.kind.value}' AND {quoted(place.steps[0])} IS NOT NULL AND {self._in_time()}"
        )
        fields = ", ".join(f"struct_extract(_copy, {literal(field)}) AS {field_name(field)}" for field in place.fields)
        return f"SELECT {keys}, {names.LANDED}, {NODE}, _at, {fields} FROM ({inner}) AS _copies WHERE _copy IS NOT NULL"

    def _facts(self, place: CellStructs, *, witnesses: tuple[str, ...] = ()) -> str:
        """Return one row per cell fact, with its first place in each witness's log; null if the witness has not shown it."""
        schema = self.relation.schema
        keys = _listed([*place.keys(schema), *map(field_name, place.identity)])
        least = map(quoted, [*place.shown(schema), *map(field_name, place.spelled)])
        folds = [f"min({name}) AS {name}" for name in least]
        folds += [f"any_value({name}) AS {name}" for name in map(field_name, place.carried)]
        folds += [f"{self._united(NODE)} AS {NODES}"]
        folds += [f"min(_at) FILTER (WHERE {NODE} = {_text(witness)}) AS _at_{i}" for i, witness in enumerate(witnesses)]
        return f"SELECT {keys}, {', '.join(folds)} FROM ({self._copies(place)}) AS _copies GROUP BY {keys}"

    def _owned(self, place: CellStructs, *, with_owners: bool, witnesses: tuple[str, ...] = ()) -> str:
        """Return facts, each with the nodes that have shown any fact of its partition."""
        facts = self._facts(place, witnesses=witnesses)
        if not with_owners:
            return facts
        keys = [quoted(names.identity(column)) for column in self.relation.schema.partition]
        owners = (
            f"SELECT {', '.join(keys)}, {self._united(_NODE_OF)} AS {OWNERS} FROM {self.table} WHERE {self._in_time()} "
            f"GROUP BY {', '.join(keys)}"
        )
        on = " AND ".join(f"_l.{key} = _r.{key}" for key in keys)
        return f"SELECT _l.*, _r.{OWNERS} FROM ({facts}) AS _l JOIN ({owners}) AS _r ON {on}"

    def _united(self, node: str) -> str:
        index = f"list_position([{', '.join(map(_text, self.nodes))}], {node}) - 1"
        return f"bit_or(set_bit(bitstring('0', {len(self.nodes)}), CAST({index} AS INTEGER), 1))"

    def _has(self, node: str, *, among: str = NODES) -> str:
        return f"get_bit({among}, {self.nodes.index(node)}) = 1"


def _listed(columns: Iterable[str]) -> str:
    return ", ".join(map(quoted, columns))


def _sets(*, with_owners: bool) -> list[str]:
    return [NODES, OWNERS] if with_owners else [NODES]


def _as_digits(sets: Iterable[str]) -> str:
    return ", ".join(f"CAST({name} AS VARCHAR) AS {name}" for name in sets)


def _witnesses(behind: list[Behind]) -> tuple[str, ...]:
    return tuple(sorted({one.witness for one in behind}))


def _at(one: Behind, behind: list[Behind]) -> str:
    return f"_at_{_witnesses(behind).index(one.witness)}"


def _text(text: str) -> str:
    """Return a text literal; an unusual text as its bytes, so that no printer or parser sees its letters."""
    if text.isascii() and text.isprintable() and "\\" not in text:
        return literal(text)
    return f"decode(unhex('{text.encode().hex()}'))"
