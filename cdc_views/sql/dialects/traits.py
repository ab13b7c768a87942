"""Facts that a dialect declares about names and comparisons; the others are in `base`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import ClassVar

from sqlglot import exp

from cdc_views.errors import UnsupportedError


def identifier(name: str) -> exp.Identifier:
    """Return a quoted identifier; the printer escapes what the dialect needs escaped.

    Raises `UnsupportedError` for a name with a NUL, which no engine takes and some cut the statement at.
    """
    if "\0" in name:
        raise UnsupportedError(f"the name {name!r} holds a NUL, which no SQL engine takes", remedy="rename it at the source")
    return exp.to_identifier(name, quoted=True)


class NamingDialect:
    """What columns, views and schemas may be called."""

    name: ClassVar[str]
    ignores_case: ClassVar[bool] = True
    """Whether a view cannot have two columns whose names differ in case alone."""
    holds_any_field: bool = True
    """Whether a user type's fields keep their own names in a struct; a Delta table does not take all of them."""

    max_name_bytes: ClassVar[int | None] = None
    """The longest identifier, in UTF-8; some engines cut longer ones without a word, and two become one."""
    column_name: ClassVar[re.Pattern[str]] = re.compile(r"(?s).+\Z")
    """What a view's column may be called."""
    relation_name: ClassVar[re.Pattern[str]] = re.compile(r"(?s).*\Z")
    """What a schema and a view may be called."""

    def check_names(self, columns: Iterable[str], *, others: Iterable[str] = ()) -> None:
        """Raise `UnsupportedError` for a view's column, or for a view or schema, that the dialect cannot hold."""
        rules = [(n, self.column_name, "view columns") for n in columns]
        rules += [(n, self.relation_name, "views or schemas") for n in others]
        for name, rule, what in rules:
            if not rule.match(name):
                raise UnsupportedError(f"{self.name} has no {what} called {name!r}", remedy="rename it, or use another dialect")
            self.check_length(name)
            identifier(name)

    def check_length(self, name: str) -> None:
        """Raise `UnsupportedError` for a name that the dialect would cut."""
        if self.max_name_bytes is not None and len(name.encode()) > self.max_name_bytes:
            raise UnsupportedError(
                f"{self.name} takes names of at most {self.max_name_bytes} bytes, and {name!r} is longer",
                remedy="give the column, or the view, a shorter name at its source",
            )


class ComparingDialect:
    """How values compare, and what null does among them."""

    compares_structs: ClassVar[bool] = True
    """Whether `max` and `=` take structs, compared field by field."""
    greatest_skips_null: ClassVar[bool] = True
    types_bare_nulls: ClassVar[bool] = False
    """Whether `NULL AS x` in a step is of some type, which a UNION with a step of another type refuses."""

    compares_comparables_alone: ClassVar[bool] = False
    """Whether to partition and join by a key's comparable, not by its value too: equal bytes have one value.

    For engines where a value cannot be compared, or not as Cassandra does (NaN is not NaN).
    """
