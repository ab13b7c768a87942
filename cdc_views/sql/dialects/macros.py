"""Definitions that all views of a schema share, as functions of the engine: `generate --style macros`.

A definition is the plain text of one expression, with parameters in place of the column. So both styles say the same, and no
rule is written a second time. Whatever has no definition here stays in the view's text.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from sqlglot import exp

from cdc_views.errors import UnsupportedError
from cdc_views.model.types import Kind, Scalar, is_reshaped
from cdc_views.plan import expr as e
from cdc_views.plan.order import BYTES, RANK, SHOWS, SHOWS_BODY, VALUE, WRITTEN, parts_of_shows
from cdc_views.sql.dialects.decimals import DecimalDialect
from cdc_views.sql.dialects.writing import EACH, Sql, identifier
from cdc_views.sql.layout import printed

if TYPE_CHECKING:
    from cdc_views.sql.dialects.base import Dialect

WHOLE, WHOLE_DAYS, TEXT = "whole", "days", "text"
"""The types of parameters: 64 bits, the days of a date, and text."""
_NEGATIVE = "negative"
_LATEST: dict[tuple[str, ...], tuple[str, str]] = {
    (WRITTEN, RANK, BYTES, VALUE): ("by_bytes", "by write time, rank and serialized bytes (C2, C3)"),
    (WRITTEN, RANK, _NEGATIVE, VALUE): (
        "number",
        "by write time, rank and value; Cassandra compares unsigned bytes, so a number below 0 is above all others (C2, C3)",
    ),
}
"""The order of a group's cells → the end of a definition's name, and what its comment says."""


_SHOWN = {
    Kind.TIMESTAMP: "ms since 1970 as a timestamp; null outside of the years that the type holds",
    Kind.INSTANT: "µs since 1970 as a timestamp; null outside of the years that the type holds",
    Kind.DATETIME: "µs since 1970 as a timestamp without a zone; null outside of the years that the type holds",
    Kind.DATE: "days since 1970 as a date; null outside of the years that the type holds",
    Kind.TIME: "ns since midnight as a text",
}
_DECIMAL = "a text as decimal({}, {}); the query fails for one that does not fit, since a cast would round it"
"""What the definitions of types give."""
_CELL = e.col("cell")


def _parts(cell: e.Expr, names: tuple[str, ...]) -> e.Named:
    return tuple((name, cell[VALUE] < 0 if name == _NEGATIVE else cell[name]) for name in names)


@dataclass(frozen=True, slots=True)
class MacroForm:
    """How an engine defines a function: the text around its body; its parameters' types, empty if they have none.

    `aggregates`: a function may aggregate. `within_lambdas`: a lambda may call one.
    """

    create: str
    opening: str
    closing: str = ""
    types: Mapping[str, str] = field(default_factory=dict)
    aggregates: bool = False
    within_lambdas: bool = True


Parameters = tuple[tuple[str, str], ...]
"""Names and types."""


@dataclass(frozen=True, slots=True)
class Macro:
    """One definition: the function's its name, its parameters and their types, its body, and what it gives, for a comment."""

    name: str
    parameters: Parameters
    body: Sql
    note: str


@dataclass(slots=True)
class Macros:
    """The definitions that the text of one view calls, in the view's schema."""

    schema: str
    known: dict[str, Macro] = field(default_factory=dict)

    def called(self, macro: Macro, args: list[Sql]) -> Sql:
        """Return a call of a definition, and keep the definition."""
        self.known.setdefault(macro.name, macro)
        call = exp.Anonymous(this=macro.name, expressions=args)
        parts = [identifier(part) for part in self.schema.split(".") if part]
        return exp.Dot.build([*parts, call]) if parts else call

    def statements(self, dialect: Dialect) -> dict[str, str]:
        """Return the statements that make the definitions, name → text, in the order of their names."""
        return {name: self._statement(self.known[name], dialect) for name in sorted(self.known)}

    def _statement(self, macro: Macro, dialect: Dialect) -> str:
        form = dialect.macro_form
        assert form is not None, "no view in this dialect calls a definition"
        types = ((name, form.types.get(kind, "")) for name, kind in macro.parameters)
        given = ", ".join(f"{identifier(name).sql(dialect=dialect.sqlglot_name)} {kind}".rstrip() for name, kind in types)
        called = self.called(macro, []).sql(dialect=dialect.sqlglot_name).removesuffix("()")
        body = textwrap.indent(_text(macro.body, dialect), "  ")
        return f"-- {macro.note}\n{form.create} {called}({given}){form.opening}{body}{form.closing}"


def _text(body: Sql, dialect: Dialect) -> str:
    """The aligned text of an expression: of a query's one column."""
    text = printed(exp.select(body.copy()), dialect.sqlglot_name)
    return textwrap.dedent(text.removeprefix("SELECT").removeprefix(" ").lstrip("\n"))


class MacroDialect(DecimalDialect):
    """The definitions of a dialect.

    Attributes:
        macro_form: How the engine defines functions; None if views of this dialect call none.
        macros: The definitions that the text calls; None if the text stands alone.
    """

    name: ClassVar[str]
    macro_form: ClassVar[MacroForm | None] = None
    macros: Macros | None = None

    def share(self, schema: str) -> Macros:
        """Call definitions of a schema from now on; return them. Raises `UnsupportedError` if the dialect has none."""
        if self.macro_form is None:
            raise UnsupportedError(
                f"views in dialect {self.name} have no macros",
                remedy="leave out --style macros, or use it with duckdb, spark, databricks or bigquery",
            )
        self.macros = Macros(schema)
        return self.macros

    def plain(self, expression: e.Expr, item: Sql | None = None) -> Sql:
        """Return an expression in text that stands alone."""
        raise NotImplementedError

    def render(self, expression: e.Expr, item: Sql | None = None) -> Sql:
        """Return the expression in this dialect, or a call of its definition; `item` is the SQL of `Item()`."""
        if self.macros is None:
            return self.plain(expression, item)
        found = self._shows(expression, item) if isinstance(expression, e.Call) else None
        if isinstance(expression, e.Agg):
            found = self._latest(expression)
        return found if found is not None else self.plain(expression, item)

    def _shows(self, test: e.Call, item: Sql | None) -> Sql | None:
        """A call that tells whether a cell shows, None for another test."""
        parts = parts_of_shows(test)
        if parts is None or not self._may_call(item):
            return None
        note = (
            "whether a cell shows: no deletion covers it (D1) and it lives (C4): the lowest ranks never expire, others live from "
            "clock to -1, ranks from 0 on are tombstones; null without a cell"
        )
        parameters = tuple((name, WHOLE) for name in SHOWS)
        return self._call("cdc_shows", parameters, SHOWS_BODY, note, [self.plain(part, item) for part in parts])

    def _latest(self, fold: e.Agg) -> Sql | None:
        """A call that gives a group's latest cell, None for another aggregate."""
        form, struct = self.macro_form, fold.value
        if form is None or not form.aggregates or fold.fold is not e.Fold.MAX or not isinstance(struct, e.Struct):
            return None
        parts = tuple(name for name, _ in struct.parts)
        written = dict(struct.parts).get(WRITTEN)
        if parts not in _LATEST or not isinstance(written, e.Field):
            return None
        cell, (ending, order) = written.base, _LATEST[parts]
        if (struct.parts, fold.where) != (_parts(cell, parts), e.not_null(written)):
            return None
        body = e.Agg(fold.fold, e.Struct(_parts(_CELL, parts)), e.not_null(_CELL[WRITTEN]))
        note = f"the latest cell of a group: {order}"
        return self._call(f"cdc_latest_{ending}", ((_CELL.name, WHOLE),), body, note, [self.plain(cell)])

    def shown_leaf(self, base: Sql, kind: Scalar) -> Sql:
        """Return a stored scalar in its friendly type, or a call of the definition of that type."""
        if self.macros is None or not is_reshaped(kind) or not self._may_call(base):
            return self.friendly_leaf(base, kind)
        size = kind.decimal_size
        name = kind.kind.value if size is None else "decimal_{}_{}".format(*size)
        said = _SHOWN[kind.kind] if size is None else _DECIMAL.format(*size)
        stored = TEXT if size is not None else WHOLE_DAYS if kind.kind is Kind.DATE else WHOLE
        body = self.friendly_leaf(exp.column(identifier("_value")), kind)
        macro = Macro(f"cdc_{name}", (("_value", stored),), body, said)
        return self.macros.called(macro, [base])

    def _may_call(self, inside: Sql | None) -> bool:
        """Whether an expression over `inside`, the element of a lambda or a value, may call a definition."""
        if self.macro_form is None or self.macro_form.within_lambdas or inside is None:
            return self.macro_form is not None
        return not any(column.name == EACH for column in inside.find_all(exp.Column))

    def _call(self, name: str, parameters: Parameters, body: e.Expr, note: str, args: list[Sql]) -> Sql:
        macros, self.macros = self.macros, None
        assert macros is not None, "only a text that shares definitions calls them"
        try:
            macro = Macro(name, parameters, self.plain(body), note)
        finally:
            self.macros = macros
        return macros.called(macro, args)
