"""A lowered plan → SQL text: one CTE per node, the same text on every run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from sqlglot import exp

from cdc_views.errors import UnsupportedError
from cdc_views.plan.expr import Col, Expr, Lit, Named
from cdc_views.plan.folding import readable
from cdc_views.plan.nodes import Aggregate, Explode, Join, JoinKind, Node, OneValue, Ordered, Scan, Select, UnionAll, in_order
from cdc_views.plan.parts import Source
from cdc_views.plan.walk import parts_of
from cdc_views.sql.dialects.base import Dialect
from cdc_views.sql.dialects.writing import Sql, identifier, number
from cdc_views.sql.remarks import remarks


class Renderer:
    """Renders plans in one dialect over one raw table; an unknown node raises `UnsupportedError`."""

    def __init__(
        self, dialect: Dialect, *, table: str, tables: Mapping[Source, str] | None = None, computes_once: bool = False
    ) -> None:
        """`table` is the FROM clause of the raw table; `tables` are FROM clauses of its parts.

        `computes_once` materializes each step that several others read. Otherwise an engine may compute it for each reader.
        """
        self.dialect, self._tables = dialect, {Source.ALL: table, **(tables or {})}
        self._computes_once, self._inlined = computes_once, set[int]()
        self._names: dict[int, str] = {}

    def query(self, root: Node, *, comments: bool = True) -> exp.Select:
        """Return `WITH … SELECT …` of the plan's output columns; `comments` say what each step is for."""
        root = readable(root, nests_aggregates=self.dialect.greatest_skips_null)
        nodes = in_order(root)
        names = self._names = step_names(nodes, longest=self.dialect.max_name_bytes)
        within = [node for scalar in _scalars(nodes) for node in in_order(scalar.node)]
        self.dialect.begin([*within, *nodes])
        self.dialect.subquery = self._subquery
        self._inlined = {id(node) for node in nodes if self._is_inlined(node, nodes)}
        bodies = {id(node): self._body(node, names) for node in nodes if id(node) not in self._inlined}
        if comments:
            _commented(nodes, bodies)
        query = _as_select(root, bodies[id(root)])
        held = _read_by_several([*within, *nodes]) if self._computes_once else set()
        for node in nodes[:-1]:
            if id(node) in self._inlined:
                continue
            is_held = True if id(node) in held else None
            query = query.with_(identifier(names[id(node)]), as_=bodies[id(node)], materialized=is_held, copy=False)
        return self.dialect.finished(query)

    def sql(self, root: Node, *, is_pretty: bool = False) -> str:
        """Return the query's text: on one line for an engine, or aligned and with comments, which takes as long again."""
        return self.dialect.printed(self.query(root, comments=is_pretty), is_pretty=is_pretty)

    def _body(self, node: Node, names: dict[int, str]) -> exp.Query:
        visit: Callable[[Node, dict[int, str]], exp.Query] | None = getattr(self, f"_{type(node).__name__.lower()}", None)
        if visit is None:
            raise UnsupportedError(
                f"the SQL renderer has no way to write {type(node).__name__}", remedy="lower the plan with a strategy first"
            )
        self.dialect.node = node
        return visit(node, names)

    def _is_inlined(self, node: Node, nodes: list[Node]) -> bool:
        """Whether one step that computes columns reads the scan, which computes nothing: it then reads the table itself."""
        if not isinstance(node, Scan) or any(value != Col(name) for name, value in node.columns):
            return False
        readers = [other for other in nodes if any(source is node for source in other.sources())]
        return len(readers) == 1 and isinstance(readers[0], (Aggregate, Explode)) and self.dialect.beside(node) is None

    def _subquery(self, node: Node) -> Sql:
        """The one value of a group-by, in parentheses."""
        assert isinstance(node, Aggregate)
        if id(node.source) in self._names:
            query = self._aggregate(node, self._names)
            return query.select(query.selects[0].unalias(), append=False, copy=False).subquery(copy=False)
        assert isinstance(node.source, Scan)
        with self._within(node.source):
            scan = self._scan(node.source, {})
        ((_, value),) = node.folds
        with self._within(node):
            if self._is_inlined(node.source, [node]):
                return scan.select(self.dialect.render(value), append=False, copy=False).subquery(copy=False)
            facts = scan.subquery(identifier("_facts"), copy=False)
            return self._filtered(_select([self.dialect.render(value)], facts), node.where).subquery(copy=False)

    def _columns(self, columns: Named) -> list[Sql]:
        return [self._column(name, self.dialect.render(value)) for name, value in columns]

    def _column(self, name: str, value: Sql) -> Sql:
        if isinstance(value, exp.Column) and value.name == name:
            return value
        return exp.alias_(value, identifier(name), copy=False)

    def _from(self, node: Node, names: dict[int, str], alias: str = "") -> Sql:
        table = exp.Table(this=identifier(names[id(node)]))
        return exp.alias_(table, identifier(alias), table=True, copy=False) if alias else table

    def _filtered(self, query: exp.Select, condition: Expr | None) -> exp.Select:
        return query.where(self.dialect.render(condition), copy=False) if condition is not None else query

    @contextmanager
    def _within(self, node: Node) -> Iterator[None]:
        """Render expressions of `node` in this block."""
        outer, self.dialect.node = self.dialect.node, node
        yield
        self.dialect.node = outer

    def _scan(self, node: Scan, names: dict[int, str]) -> exp.Select:
        query = _select(self._columns(node.columns), self.dialect.table(self._tables[node.source]))
        beside = self.dialect.beside(node)
        if beside is not None:
            query = query.join(beside, join_type="cross", copy=False)
        return self._filtered(query, node.where)

    def _select(self, node: Select, names: dict[int, str]) -> exp.Select:
        return self._filtered(_select(self._columns(node.columns), self._from(node.source, names)), node.where)

    def _aggregate(self, node: Aggregate, names: dict[int, str]) -> exp.Select:
        keys = [_ref(key) for key in node.keys]
        query = self._filtered(self._over([*keys, *self._columns(node.folds)], node.source, names), node.where)
        return query.group_by(*(key.copy() for key in keys), copy=False) if keys else query

    def _over(self, columns: list[Sql], source: Node, names: dict[int, str]) -> exp.Select:
        """SELECT `columns` from a step, or from the table itself instead of a scan that is inlined."""
        if not isinstance(source, Scan) or id(source) not in self._inlined:
            return _select(columns, self._from(source, names))
        query = _select(columns, self.dialect.table(self._tables[source.source]))
        with self._within(source):
            return self._filtered(query, source.where)

    def _join(self, node: Join, names: dict[int, str]) -> exp.Select:
        query = _select(self._columns(node.columns), self._from(node.left, names, "l"))
        right = self._from(node.right, names, "r")
        if node.kind is JoinKind.CROSS:
            return query.join(right, join_type="cross", copy=False)
        equal: Callable[[Sql, Sql], Sql] = self.dialect.same if node.is_null_safe else _equal
        on = [equal(_ref(key, "l"), _ref(key, "r")) for key in self.dialect.distinguishing(node.on)]
        matching = [self.dialect.render(node.matching)] if node.matching is not None else []
        return query.join(right, on=exp.and_(*on, *matching, copy=False), join_type=node.kind.value, copy=False)

    def _explode(self, node: Explode, names: dict[int, str]) -> exp.Select:
        selected, lateral = self.dialect.explode(self.dialect.render(node.array), alias=node.element)
        keep = [_ref(name) for name in node.keep]
        query = self._over([*keep, *([selected] if selected is not None else [])], node.source, names)
        return query.join(lateral, join_type="cross", copy=False) if lateral is not None else query

    def _unionall(self, node: UnionAll, names: dict[int, str]) -> exp.Query:
        first = node.parts[0]
        parts = [_select(self._part_columns(part, first), self._from(part, names)) for part in node.parts]
        union: exp.Query = parts[0]
        for part in parts[1:]:
            union = exp.union(union, part, distinct=False, copy=False)
        return union

    def _part_columns(self, part: Node, first: Node) -> list[Sql]:
        """A part's columns; nulls become literals again if the engine gives a step's null a type."""
        computing = (Scan, Select, Join)
        if not (self.dialect.types_bare_nulls and isinstance(part, computing) and isinstance(first, computing)):
            return [_ref(n) for n in part.output()]
        ours, theirs = dict(part.columns), dict(first.columns)
        values = {n: self.dialect.bare_null(theirs[n]) if ours[n] == Lit(None) else _ref(n) for n in ours}
        return [self._column(n, value) for n, value in values.items()]

    def _ordered(self, node: Ordered, names: dict[int, str]) -> exp.Select:
        query = _select([_ref(n) for n in node.output()], self._from(node.source, names))
        for name, descending in node.by:
            key = exp.Ordered(this=_ref(name), desc=descending, nulls_first=not descending)
            query = query.order_by(key, copy=False)
        query = query.limit(number(node.limit), copy=False) if node.limit is not None else query
        return query.offset(number(node.offset), copy=False) if node.offset else query


def _commented(nodes: list[Node], bodies: Mapping[int, exp.Query]) -> None:
    """Write above each step what it is for."""
    for node in nodes:
        first = bodies.get(id(node))
        while isinstance(first, exp.Union):
            first = first.this
        if first is not None:
            first.add_comments([f" {node.comment(*remarks(node))}"])


def _as_select(node: Node, query: exp.Query) -> exp.Select:
    """The query of a plan's last step, which the steps before it stand in front of."""
    if isinstance(query, exp.Select):
        return query
    return _select([_ref(n) for n in node.output()], query.subquery(identifier("_parts"), copy=False))


def _scalars(nodes: list[Node]) -> Iterator[OneValue]:
    """The scalar subqueries of a plan: in columns they stand at most below one function."""
    for node in nodes:
        if isinstance(node, (Select, Aggregate)):
            columns = node.columns if isinstance(node, Select) else node.folds
            places = (part for _, value in columns for part in (value, *value.children()))
            conditions = parts_of(node.where) if node.where is not None else ()
            yield from (part for part in (*places, *conditions) if isinstance(part, OneValue))


def _read_by_several(nodes: list[Node]) -> set[int]:
    """The steps that several others read, except cheap ones (scans and anti-joins)."""
    readers = Counter(id(source) for node in nodes for source in node.sources())
    cheap = {id(node) for node in nodes if isinstance(node, Scan) or (isinstance(node, Join) and node.kind is JoinKind.ANTI)}
    return {node for node, count in readers.items() if count > 1} - cheap


def _select(columns: Sequence[Sql], source: Sql) -> exp.Select:
    """SELECT … FROM … without copies, which took a third of the time: nothing else uses these expressions."""
    return exp.select(*columns, copy=False).from_(source, copy=False)


def _equal(left: Sql, right: Sql) -> Sql:
    return exp.EQ(this=left, expression=right)


def _ref(name: str, side: str = "") -> exp.Column:
    return exp.Column(this=identifier(name), table=identifier(side) if side else None)


def step_names(nodes: list[Node], *, longest: int | None = None) -> dict[int, str]:
    """Return a name of at most `longest` bytes for each node. No column has it: in `a.b`, a step `a` would hide a column `a`."""
    taken: set[str] = {column for node in nodes for column in node.output()}
    names: dict[int, str] = {}
    for node in nodes:
        base = node.name if longest is None else node.name[: longest - len(str(len(nodes))) - 1]
        name, n = base, 1
        while name in taken:
            n += 1
            name = f"{base}_{n}"
        taken.add(name)
        names[id(node)] = name
    return names
