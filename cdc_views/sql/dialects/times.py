"""Stored instants, days and times in a dialect's own types: what several dialects write alike."""

from __future__ import annotations

from sqlglot import exp

from cdc_views.sql.dialects.base import Sql, function, number

MICROS_LIMIT = 9_000_000_000_000_000
"""Largest µs that every engine's TIMESTAMP holds (year 2255); beyond it a view shows null, `query` the exact value."""
DAYS_LIMIT = 2_000_000_000
"""Largest day number that DuckDB's DATE arithmetic takes."""


def in_range(base: Sql, limit: int, value: Sql) -> Sql:
    """Return `value` where `base` lies within ±`limit`, else null."""
    inside = exp.Between(this=base.copy(), low=number(-limit), high=number(limit))
    return exp.Case(ifs=[exp.If(this=inside, true=value)])


def time_text(nanos: Sql, printf: str) -> Sql:
    """Return `HH:MM:SS.nnnnnnnnn` of nanoseconds by the dialect's C-like `printf`; a minus sign may lead."""

    def part(size: int, modulus: int) -> Sql:
        # integer division: `/` would pass through a double
        whole = exp.Paren(this=exp.IntDiv(this=function("abs", nanos.copy()), expression=number(size)))
        return function("mod", whole, number(modulus)) if modulus else whole

    negative = exp.LT(this=nanos.copy(), expression=number(0))
    sign = exp.Case(ifs=[exp.If(this=negative, true=exp.Literal.string("-"))], default=exp.Literal.string(""))
    parts = [part(3600 * 10**9, 0), part(60 * 10**9, 60), part(10**9, 60), part(1, 10**9)]
    return function(printf, exp.Literal.string("%s%02d:%02d:%02d.%09d"), sign, *parts)
