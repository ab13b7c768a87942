"""`explain`: the candidates for each cell of a row, the winner, and the rule that beat each loser (C2, D1 to D3)."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from operator import attrgetter
from typing import Any

from cdc_views.errors import UsageError
from cdc_views.model.schema import Column, Role, TableSchema
from cdc_views.model.types import ListOf, MapOf, SetOf, Udt
from cdc_views.rules.cells import Cell, Deletion, Liveness, deciding_rule, latest_deletion, precedence
from cdc_views.rules.codec.comparable import comparable
from cdc_views.rules.facts import Bound, Fact, FactKind, Origin
from cdc_views.rules.oracle import path_type


class Scope(str, Enum):
    """The scope of a deletion, widest first."""

    TABLE = "table"
    PARTITION = "partition"
    RANGE = "range"
    ROW = "row"
    COLUMN = "column"


_RULES = {Scope.TABLE: "S6", Scope.PARTITION: "D2", Scope.RANGE: "D2", Scope.ROW: "D1", Scope.COLUMN: "D3"}


@dataclass(frozen=True, slots=True)
class DeletionSeen:
    """A deletion in scope, with the origins of all equal copies; `column` is empty except for a multi-cell column's deletion."""

    scope: Scope
    deletion: Deletion
    origins: tuple[Origin, ...]
    column: str = ""
    start: Bound | None = None
    end: Bound | None = None

    @property
    def rule(self) -> str:
        """The rule of this deletion."""
        return _RULES[self.scope]


_BY_PLACE = attrgetter("node", "segment", "position")


def deletions_over(schema: TableSchema, facts: Iterable[Fact], *, clustering: tuple[Any, ...] | None) -> list[DeletionSeen]:
    """Return the deletions that cover a row (`clustering` None: its partition's static row); widest scope first, then latest."""
    found: dict[Any, DeletionSeen] = {}
    for fact in facts:
        if clustering is None and fact.kind in (FactKind.ROW, FactKind.RANGE):
            continue
        for seen in _of_fact(schema, fact, clustering=clustering or ()):
            identity = (seen.scope, seen.column, seen.deletion, repr((seen.start, seen.end)))
            known = found.get(identity)
            copies = seen.origins if known is None else known.origins + seen.origins
            found[identity] = replace(seen, origins=tuple(sorted(copies, key=_BY_PLACE)))
    order = list(Scope)
    return sorted(found.values(), key=lambda s: (order.index(s.scope), s.column, -s.deletion.written, -s.deletion.deleted_at))


def _of_fact(schema: TableSchema, fact: Fact, *, clustering: tuple[Any, ...]) -> list[DeletionSeen]:
    found = []
    if fact.deletion is not None and _covers_key(schema, fact, clustering):
        found.append(DeletionSeen(Scope(fact.kind.value), fact.deletion, (fact.origin,), "", fact.start, fact.end))
    for name, elements in fact.elements.items():
        if elements.deletion is not None:
            found.append(DeletionSeen(Scope.COLUMN, elements.deletion, (fact.origin,), name))
    return found


def _covers_key(schema: TableSchema, fact: Fact, key: tuple[Any, ...]) -> bool:
    """Return whether a deletion covers a full clustering key (rule D2); a deletion without a range does."""
    if fact.start is None or fact.end is None:
        return True
    return _is_inside(schema, fact.start, key, is_start=True) and _is_inside(schema, fact.end, key, is_start=False)


def _is_inside(schema: TableSchema, bound: Bound, key: tuple[Any, ...], *, is_start: bool) -> bool:
    for column, limit, value in zip(schema.clustering, bound.prefix, key, strict=False):
        ours, theirs = comparable(column.type, value), comparable(column.type, limit)
        if ours != theirs:
            comes_after = (ours > theirs) != column.descending
            return comes_after == is_start
    return bound.inclusive or not bound.prefix


class Outcome(str, Enum):
    """The outcome of a candidate."""

    SHOWN = "shown"
    LOST = "lost"
    DELETED = "deleted"
    EXPIRED = "expired"
    TOMBSTONE = "tombstone"
    DROPPED = "dropped"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A cell or row marker that competed for a place, with the `origins` of equal copies; `rule` beat it, empty if SHOWN."""

    cell: Cell | Liveness
    outcome: Outcome
    rule: str
    origins: tuple[Origin, ...]

    @property
    def is_winner(self) -> bool:
        """Whether it beat all other candidates of its place; a read may still not show it."""
        return self.outcome not in (Outcome.LOST, Outcome.DROPPED)


@dataclass(frozen=True, slots=True)
class CellPlace:
    """A place where cells compete: a column, with a path if multi-cell. `column` None is the row marker."""

    column: Column | None
    path: Any = None
    candidates: tuple[Candidate, ...] = ()

    @property
    def winner(self) -> Candidate | None:
        """The winning candidate; None if all were dropped."""
        return next((candidate for candidate in self.candidates if candidate.is_winner), None)

    @property
    def shown(self) -> Cell | None:
        """The cell that a read shows, or None."""
        found = self.winner
        return found.cell if found is not None and found.outcome is Outcome.SHOWN and isinstance(found.cell, Cell) else None


@dataclass(frozen=True, slots=True, repr=False)
class Explanation:
    """Everything that concerns one row at one instant.

    `key` has native values by column, only of the partition for a static row. `now` is in epoch seconds: the clock of rule C4.
    `places` are the row marker, then columns in schema order, paths in rule-K2 order; candidates latest first. `deletions` are
    those in scope, widest first, latest first within a scope. `is_row`: the row exists at `now` (rule W2), or a cell of a static
    row shows (rule W3).
    """

    schema: TableSchema
    key: Mapping[str, Any]
    now: int
    places: tuple[CellPlace, ...]
    deletions: tuple[DeletionSeen, ...]
    is_row: bool

    def __repr__(self) -> str:
        from cdc_views.operations.explained import summary

        candidates = sum(len(place.candidates) for place in self.places)
        return f"Explanation({summary(self)}, by {candidates} candidates and {len(self.deletions)} deletions)"

    def _repr_html_(self) -> str:
        from cdc_views.operations.explained import explanation_html

        return explanation_html(self)

    def value(self, column: str) -> Any:
        """Return the native value that a read of the column shows, None for null."""
        places = [place for place in self.places if place.column is not None and place.column.name == column]
        kind = self.schema.column(column).type
        shown = [(place.path, place.shown.value) for place in places if place.shown is not None]
        if not kind.is_multicell:
            return shown[0][1] if shown else None
        return _assembled(kind, shown) if shown else None


def explain(
    schema: TableSchema,
    facts: Iterable[Fact],
    *,
    key: tuple[tuple[Any, ...], tuple[Any, ...] | None],
    now: int,
    columns: Collection[str] = (),
) -> Explanation:
    """Explain one row from the facts that concern it (`relation_read.KeyFacts.of_row`), at `now` (epoch seconds).

    `key` has the values of the partition and of the clustering columns, or None: the static row. Only `columns`; empty: all.
    """
    found = explain_facts(schema, facts, key=key, now=now)
    if not columns:
        return found
    places = tuple(place for place in found.places if place.column is not None and place.column.name in columns)
    is_static = all(schema.column(column).role is Role.STATIC for column in columns)
    beside = {Scope.RANGE, Scope.ROW} if is_static else set()  # rule D2: they do not reach static columns
    deletions = tuple(seen for seen in found.deletions if seen.column in ("", *columns) and seen.scope not in beside)
    return replace(found, places=places, deletions=deletions)


def check_columns(schema: TableSchema, columns: Collection[str]) -> None:
    """Raise `UsageError` for a column of the key, which has no cells, and `UnknownColumnError` for one that is not there."""
    for column in columns:
        if schema.column(column).is_key:
            raise UsageError(f"{schema.full_name}: column {column!r} is part of the key and has no cells; name another column")


def explain_facts(
    schema: TableSchema, facts: Iterable[Fact], *, key: tuple[tuple[Any, ...], tuple[Any, ...] | None], now: int
) -> Explanation:
    """Return the explanation of all columns; see `explain`."""
    kept, is_static = list(facts), key[1] is None
    partition, clustering = key
    named = zip(schema.row_key, partition + (clustering or ()), strict=False)
    deletions = deletions_over(schema, kept, clustering=clustering)
    rows, statics = _Contest(schema, deletions, now), _Contest(schema, deletions, now)
    for fact in kept:
        if fact.kind is FactKind.ROW:
            rows.enter(fact)
        elif fact.kind is FactKind.STATIC:
            statics.enter(fact)
    places = statics.places(schema.statics, {Scope.PARTITION, Scope.TABLE})
    if clustering is not None:
        places = rows.markers() + places + rows.places(schema.regulars, set(Scope) - {Scope.COLUMN})
    # rules W2 and W3: a static cell makes only the static row exist
    alive = [place.column for place in places if place.winner is not None and place.winner.outcome is Outcome.SHOWN]
    is_row = any(is_static or column is None or column.role is not Role.STATIC for column in alive)
    return Explanation(schema, {c.name: v for c, v in named}, now, tuple(places), tuple(deletions), is_row)


@dataclass(slots=True)
class _Contest:
    schema: TableSchema
    deletions: list[DeletionSeen]
    now: int
    entered: dict[str, dict[bytes, list[tuple[Cell, Origin]]]] = field(default_factory=dict)
    paths: dict[tuple[str, bytes], Any] = field(default_factory=dict)
    marks: list[tuple[Liveness, Origin]] = field(default_factory=list)

    def enter(self, fact: Fact) -> None:
        if fact.liveness is not None:
            self.marks.append((fact.liveness, fact.origin))
        for name, cell in fact.cells.items():
            self.entered.setdefault(name, {}).setdefault(b"", []).append((cell, fact.origin))
        for name, elements in fact.elements.items():
            kind = path_type(self.schema.column(name).type)
            for path, cell in elements.cells:
                place = comparable(kind, path)
                known = self.paths.setdefault((name, place), path)
                self.paths[name, place] = min(known, path, key=str)  # the oracle chooses among equal paths in the same way
                self.entered.setdefault(name, {}).setdefault(place, []).append((cell, fact.origin))

    def markers(self) -> list[CellPlace]:
        if not self.marks:
            return []
        scopes = set(Scope) - {Scope.COLUMN}
        copies = [(_as_cell(mark), origin) for mark, origin in self.marks]
        by_cell = {_as_cell(mark): mark for mark, _ in self.marks}
        found = []
        for candidate in self._candidates(copies, self._deletion(scopes, ""), None):
            assert isinstance(candidate.cell, Cell)
            rule = "W1" if candidate.outcome is Outcome.LOST else candidate.rule
            found.append(replace(candidate, cell=by_cell[candidate.cell], rule=rule))
        return [CellPlace(None, candidates=tuple(found))]

    def places(self, columns: Iterable[Column], scopes: set[Scope]) -> list[CellPlace]:
        found = []
        for column in columns:
            wanted = scopes | {Scope.COLUMN} if column.type.is_multicell else scopes
            deletion = self._deletion(wanted, column.name)
            for order, copies in sorted(self.entered.get(column.name, {}).items()):
                candidates = self._candidates(copies, deletion, self.schema.drop_time(column.name))
                found.append(CellPlace(column, self.paths.get((column.name, order)), tuple(candidates)))
        return found

    def _deletion(self, scopes: set[Scope], column: str) -> DeletionSeen | None:
        mine = [seen for seen in self.deletions if seen.scope in scopes and seen.column in ("", column)]
        latest = latest_deletion(seen.deletion for seen in mine)
        return next((seen for seen in mine if seen.deletion == latest), None)

    def _candidates(
        self, copies: list[tuple[Cell, Origin]], deletion: DeletionSeen | None, dropped_at: int | None
    ) -> list[Candidate]:
        grouped: dict[Hashable, tuple[Cell, list[Origin]]] = {}
        for cell, origin in copies:
            grouped.setdefault(precedence(cell), (cell, []))[1].append(origin)
        ordered = [grouped[rank] for rank in sorted(grouped, reverse=True)]  # type: ignore[type-var]
        winner: Cell | None = None
        found = []
        for cell, origins in ordered:
            outcome, rule = Outcome.DROPPED, "W6"
            if dropped_at is None or cell.written > dropped_at:
                outcome, rule = self._verdict(cell, deletion) if winner is None else (Outcome.LOST, deciding_rule(winner, cell))
                winner = winner or cell
            found.append(Candidate(cell, outcome, rule, tuple(sorted(origins, key=_BY_PLACE))))
        return found

    def _verdict(self, cell: Cell, deletion: DeletionSeen | None) -> tuple[Outcome, str]:
        if deletion is not None and deletion.deletion.covers(cell.written):
            return Outcome.DELETED, deletion.rule
        if cell.is_tombstone:
            return Outcome.TOMBSTONE, "C5"
        return (Outcome.SHOWN, "") if cell.is_live(self.now) else (Outcome.EXPIRED, "C4")


def _as_cell(mark: Liveness) -> Cell:
    """Return a row marker as a cell without value: markers compete by the same rules (W1 is C2.1 to C2.5 without tombstones)."""
    return Cell(mark.written, b"", b"", mark.ttl, mark.expires_at)


def _assembled(kind: Any, shown: list[tuple[Any, Any]]) -> Any:
    match kind:
        case ListOf():
            return tuple(value for _, value in shown)
        case SetOf():
            return tuple(path for path, _ in shown)
        case MapOf():
            return tuple(shown)
        case Udt():
            values = dict(shown)
            return tuple(values.get(name) for name, _ in kind.fields)
    raise TypeError(f"{kind} is not multi-cell")
