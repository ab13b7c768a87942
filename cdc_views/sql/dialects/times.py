"""Common SQL of several dialects for instants, days and times."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from cdc_views.sql.dialects.writing import Sql, function, is_present, number, only_if, text

DAYS_LIMIT = 2_000_000_000
"""The largest day number that DuckDB's DATE arithmetic takes."""


YEARS = (-62_135_596_800, 253_402_300_799)
"""Seconds of the years 1 to 9999, which a view shows as timestamps; of others it shows null, and `query` the exact value."""
DAYS = (-719_162, 2_932_896)
"""Days of the years 1 to 9999."""


def within(base: Sql, limits: tuple[int, int], value: Sql, *, scale: int = 1) -> Sql:
    """Return `value` if `base / scale` is within `limits`, else null."""
    low, high = limits[0] * scale, limits[1] * scale + scale - 1
    inside = exp.Between(this=base.copy(), low=number(low), high=number(high))
    return only_if(inside, value)


def in_range(base: Sql, limit: int, value: Sql) -> Sql:
    """Return `value` if `base` is within ±`limit`, else null."""
    return within(base, (-limit, limit), value)


def _divided(nanos: Sql, size: int) -> Sql:
    # integer division: `/` would give a double
    return exp.Paren(this=exp.IntDiv(this=nanos, expression=number(size)))


def time_text(nanos: Sql, printf: str, *, divided: Callable[[Sql, int], Sql] = _divided) -> Sql:
    """Return nanoseconds as `[-]HH:MM:SS.nnnnnnnnn`, by the C-like function `printf` and the integer division `divided`.

    Null is null by a condition of its own: Java's `format`, so Spark's and Trino's, would write the letters `null`.
    """

    def part(size: int, modulus: int) -> Sql:
        whole = divided(function("abs", nanos.copy()), size)
        return function("mod", whole, number(modulus)) if modulus else whole

    parts = [part(3600 * 10**9, 0), part(60 * 10**9, 60), part(10**9, 60), part(1, 10**9)]
    return only_if(is_present(nanos.copy()), function(printf, text("%s%02d:%02d:%02d.%09d"), sign(nanos), *parts))


def sign(nanos: Sql) -> Sql:
    """Return `-` for a negative number, else an empty text."""
    return only_if(exp.LT(this=nanos.copy(), expression=number(0)), text("-"), text(""))
