"""The check of SQL statements that users write over merged tables: what they may be, and where their text names tables.

A statement runs as it is written: only the names of tables in it are replaced, by their place in the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import sqlglot
from sqlglot import TokenType, exp
from sqlglot.errors import ParseError, SqlglotError

from cdc_views.errors import UsageError

EXPECTED = "one query was expected, which begins with SELECT, WITH or FROM and reads the project's tables alone"
_BEGINNING = re.compile(r"(?:\s|--[^\n]*\n|/\*.*?\*/)*(?:SELECT|WITH|FROM)\b", re.IGNORECASE | re.DOTALL)
_MADE = "range generate_series unnest explode explode_outer posexplode posexplode_outer inline inline_outer stack json_tuple"
TABLE_FUNCTIONS = frozenset(_MADE.split())
"""Functions that make rows of the query's own values."""
_OUTSIDE = "reflect try_reflect java_method getenv current_setting getvariable from_protobuf to_protobuf write_log"
_FORBIDDEN_FUNCTIONS = frozenset(_OUTSIDE.split())
"""Functions that run code, or read something else than their arguments."""
_ACTIONS = (
    exp.DDL, exp.DML, exp.Command, exp.Into, exp.Show, exp.Describe, exp.Summarize, exp.Pragma, exp.Attach, exp.Detach, exp.Set,
    exp.Copy, exp.Use, exp.QueryTransform, exp.Lock,
)  # fmt: skip
_OF_A_TABLE = frozenset({"this", "db", "catalog", "alias", "joins", "pivots", "sample", "laterals", "hints", "ordinality"})
"""Arguments of a table in a syntax tree; others, as `when` and `version`, travel in time."""


def begins_as_query(text: str) -> bool:
    """Return whether a text is meant as a statement, and not as a table's name.

    >>> begins_as_query("select 1"), begins_as_query("selections"), begins_as_query("COPY t TO 'f'")
    (True, False, False)
    """
    return any(map(str.isspace, text.strip())) and _BEGINNING.match(text) is not None


@dataclass(frozen=True, slots=True)
class TableReference:
    """A place where a statement names a table: from `start` to before `end` of its text.

    `parts` is the name, as written but without quotes. `alias` is what to add after it, so that columns can still be named by
    it; empty if the user gave an alias.
    """

    parts: tuple[str, ...]
    start: int
    end: int
    alias: str

    @property
    def name(self) -> str:
        """The name with dots."""
        return ".".join(self.parts)


@dataclass(frozen=True, slots=True)
class UserStatement:
    """One query in an engine's own SQL; `dialect` is sqlglot's name of it. The constructor checks it.

    `references` are the places of tables' names, in order. Names of the statement's own WITH are none.

    Raises:
        UsageError: It is no single query, or does more than read tables by their names.

    >>> found = UserStatement("WITH a AS (FROM shop.orders) SELECT orders.id FROM a, orders", "duckdb")
    >>> [(one.name, one.alias) for one in found.references]
    [('shop.orders', 'orders'), ('orders', 'orders')]
    >>> found.over({"shop.orders": "v1", "orders": "v2"})
    'WITH a AS (FROM v1 AS orders) SELECT orders.id FROM a, v2 AS orders'
    """

    text: str
    dialect: str
    references: tuple[TableReference, ...] = field(init=False)
    _dropped: tuple[tuple[int, int], ...] = field(init=False, repr=False)
    """Places of `shop.` in columns `shop.orders.id`: the alias has no such part."""

    def __post_init__(self) -> None:
        tree, end = self._parsed()
        object.__setattr__(self, "text", self.text[:end])
        nodes = list(tree.walk())
        for node in nodes:
            self._check(node)
        tables = [node for node in nodes if isinstance(node, exp.Table) and not _is_else(node)]
        found = {one.start: one for one in map(self._reference, tables)}
        references = tuple(found[start] for start in sorted(found))
        object.__setattr__(self, "references", references)
        columns = (node for node in nodes if isinstance(node, exp.Column))
        object.__setattr__(self, "_dropped", tuple(sorted(set(_qualifiers(columns, references)))))

    def over(self, names: Mapping[str, str]) -> str:
        """Return the text with other names of its tables: `TableReference.name` → SQL."""
        edits = [(start, end, "") for start, end in self._dropped]
        for one in self.references:
            edits.append((one.start, one.end, names[one.name] + (f" AS {one.alias}" if one.alias else "")))
        text, done = [], 0
        for start, end, replacement in sorted(edits):
            text += [self.text[done:start], replacement]
            done = end
        return "".join([*text, self.text[done:]])

    def _parsed(self) -> tuple[exp.Expr, int]:
        """The tree, and where the text of the query ends."""
        if not begins_as_query(self.text):
            raise _refused(f"{_shortened(self.text)!r} is no query")
        try:
            tokens = sqlglot.tokenize(self.text, read=self.dialect)
            trees = [one for one in sqlglot.parse(self.text, read=self.dialect) if not isinstance(one, exp.Semicolon | None)]
        except ParseError as error:
            raise UsageError(f"the query cannot be read{_place(error)}, as {self.dialect}'s SQL; correct it there") from error
        except SqlglotError as error:
            raise UsageError("the query cannot be read: a quote or a comment is not closed") from error
        except RecursionError as error:
            raise UsageError("the query is nested too deeply; write parts of it as WITH") from error
        if len(trees) != 1 or trees[0] is None:
            raise _refused(f"there are {len(trees)} statements")
        if not isinstance(trees[0], exp.Query):
            raise _refused(f"this is {type(trees[0]).__name__.upper()}")
        ends = (token.start for token in tokens if token.token_type is TokenType.SEMICOLON)
        return trees[0], next(ends, len(self.text))

    def _check(self, node: exp.Expr) -> None:
        if isinstance(node, _ACTIONS):
            raise _refused(f"the query holds {type(node).__name__.upper()}")
        if not isinstance(node, exp.Func):
            return
        name = _called(node)
        if name in _FORBIDDEN_FUNCTIONS:
            raise _refused(f"the query calls {name}, which reads or runs something else")
        is_read_from = node.arg_key == "this" and isinstance(node.parent, exp.Table | exp.From | exp.Join | exp.Lateral)
        if is_read_from and name not in TABLE_FUNCTIONS:
            raise _refused(f"the query reads from {name}(…)")

    def _reference(self, table: exp.Table) -> TableReference:
        parts = table.parts
        if not all(isinstance(one, exp.Identifier) and "start" in one.meta for one in parts):
            raise _refused(f"the query reads from {table.sql(dialect=self.dialect)}")
        if others := [name for name, value in table.args.items() if value and name not in _OF_A_TABLE]:
            raise _refused(f"the query asks {table.name} for another version ({others[0]}); --as-of and --landed-as-of do that")
        start, end = parts[0].meta["start"], parts[-1].meta["end"] + 1
        last = self.text[parts[-1].meta["start"] : end]
        if last.startswith("'"):  # DuckDB's name of a file
            last = exp.to_identifier(parts[-1].name, quoted=True).sql(dialect=self.dialect)
        return TableReference(tuple(one.name for one in parts), start, end, "" if table.args.get("alias") else last)


def _called(node: exp.Func) -> str:
    return str(node.name if isinstance(node, exp.Anonymous) else node.sql_names()[0]).lower()


def _is_else(table: exp.Table) -> bool:
    """Whether this is no table's name: a checked function, an alias in a hint, or a name of WITH."""
    return isinstance(table.this, exp.Func) or table.find_ancestor(exp.Hint) is not None or _is_of_with(table)


def _is_of_with(table: exp.Table) -> bool:
    """Whether a name is that of a WITH around it: of an earlier part of the same WITH, or of the part itself if it recurs."""
    child: exp.Expr = table
    node = table.parent
    while node is not None and len(table.parts) == 1:
        seen: list[exp.Expr] = []
        own = node.args.get("with_")
        if isinstance(node, exp.With):
            place = next(i for i, one in enumerate(node.expressions) if one is child)
            calls_itself = node.args.get("recursive") and isinstance(child.this, exp.SetOperation)
            seen = node.expressions[: place + bool(calls_itself)]
        elif own is not None and own is not child:
            seen = own.expressions
        if any(one.alias.casefold() == table.name.casefold() for one in seen):
            return True
        child, node = node, node.parent
    return False


def _qualifiers(columns: Iterator[exp.Column], references: tuple[TableReference, ...]) -> Iterator[tuple[int, int]]:
    """Yield where columns name a table by more than its last part, and the table has no other alias."""
    known = {_folded(one.parts) for one in references if one.alias and len(one.parts) > 1}
    for column in columns:
        parts = column.parts
        for name in known:
            if (
                len(parts) > len(name)
                and "start" in parts[0].meta
                and _folded(tuple(part.name for part in parts[: len(name)])) == name
            ):
                yield parts[0].meta["start"], parts[len(name) - 1].meta["start"]


def _folded(parts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(map(str.casefold, parts))


def _refused(what: str) -> UsageError:
    return UsageError(f"{what}; {EXPECTED}")


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 60 else f"{line[:60]}…"


def _place(error: ParseError) -> str:
    (first, *_) = error.errors or [{}]
    line, column, found = first.get("line"), first.get("col"), first.get("highlight")
    if not line or not found:
        return ""
    return f" at {found!r} (line {line}, column {(column or 0) - len(found) + 1})"
