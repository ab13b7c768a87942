"""Facts of a dialect about names and comparisons; the other facts are in `base`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import ClassVar

from cdc_views.errors import UnsupportedError
from cdc_views.sql.dialects.writing import identifier


class NamingDialect:
    """The allowed names of columns, views and schemas.

    Attributes:
        reads_events: The dialect has what `plan.documents` needs.
        ignores_case: A view cannot have two columns whose names differ only in case.
        holds_any_field: Fields of user types keep their own names in a struct; Delta tables do not allow all of them.
        max_name_bytes: The longest identifier, in UTF-8; some engines silently cut longer ones, so that two become one.
        column_name: Names of a view's columns.
        relation_name: Names of schemas and views.
    """

    name: ClassVar[str]
    reads_events: ClassVar[bool] = False
    ignores_case: ClassVar[bool] = True
    holds_any_field: bool = True

    max_name_bytes: ClassVar[int | None] = None
    column_name: ClassVar[re.Pattern[str]] = re.compile(r"(?s).+\Z")
    relation_name: ClassVar[re.Pattern[str]] = re.compile(r"(?s).*\Z")

    def check_names(self, columns: Iterable[str], *, others: Iterable[str] = ()) -> None:
        """Raise `UnsupportedError` for a name of a column, or of a view or schema (`others`), that the dialect cannot hold."""
        rules = [(n, self.column_name, "view columns") for n in columns]
        rules += [(n, self.relation_name, "views or schemas") for n in others]
        for name, rule, what in rules:
            if not rule.match(name):
                raise UnsupportedError(f"{self.name} has no {what} called {name!r}", remedy="rename it, or use another dialect")
            self.check_length(name)
            identifier(name)

    def check_length(self, name: str) -> None:
        """Raise `UnsupportedError` for a name longer than `max_name_bytes`."""
        if self.max_name_bytes is not None and len(name.encode()) > self.max_name_bytes:
            raise UnsupportedError(
                f"{self.name} takes names of at most {self.max_name_bytes} bytes, and {name!r} is longer",
                remedy="give the column, or the view, a shorter name at its source",
            )


class ComparingDialect:
    """How values compare, and the effect of null.

    `compares_structs`: `max` and `=` compare structs field by field. `types_bare_nulls`: `NULL AS x` in a step gets a type, and a
    UNION with a step of another type fails. `compares_comparables_alone`: partition and join by a key's comparable, not also by
    its value (equal bytes have one value), because the engine cannot compare values, or compares them unlike Cassandra (NaN).
    """

    compares_structs: ClassVar[bool] = True
    greatest_skips_null: ClassVar[bool] = True
    types_bare_nulls: ClassVar[bool] = False

    compares_comparables_alone: ClassVar[bool] = False
