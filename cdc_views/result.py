"""`Result`: the rows of a query, as native values, JSON, Arrow, pandas or a notebook's table."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cdc_views.codec.jsontext import to_json
from cdc_views.relation import Relation

if TYPE_CHECKING:
    import pandas
    import pyarrow as pa

_SHOWN_ROWS = 50


@dataclass(frozen=True, slots=True)
class Result:
    """The rows of one query.

    Attributes:
        relation: What the columns mean.
        columns: User names, in the order asked for.
        exact: The rows as the engine gave them, losslessly.
        as_of: Epoch seconds: the clock of rule C4 they were read at.
        note: What a reader should know, such as that nothing has landed yet; mostly empty.
        overrides: Friendly types the project file asks for, by column.
    """

    relation: Relation
    columns: tuple[str, ...]
    exact: pa.Table
    as_of: int
    note: str = ""
    overrides: Mapping[str, str] = field(default_factory=dict)

    def __len__(self) -> int:
        """Return how many rows there are."""
        return int(self.exact.num_rows)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield one dict of native values a row (see `cdc_views.types`), None for null."""
        from cdc_views.engines.exact import rows_of

        return iter(rows_of(self.relation, self.columns, self.exact))

    def json_rows(self) -> Iterator[dict[str, str]]:
        """Yield one dict a row, of the JSON texts that `SELECT JSON` would print."""
        kinds = {name: self.relation.schema.column(name).type for name in self.columns}
        for row in self.rows():
            yield {name: to_json(kind, row[name]) for name, kind in kinds.items()}

    def to_arrow(self) -> pa.Table:
        """Return the rows with friendly types: timestamps, dates, maps; what would lose digits stays text.

        The value of 0 bytes (`EMPTY`) becomes null. See `cdc_views.friendly`.
        """
        from cdc_views.friendly import friendly_table

        return friendly_table(self.relation.schema, self.rows(), columns=self.columns, overrides=self.overrides)

    def to_pandas(self) -> pandas.DataFrame:
        """Return `to_arrow()` as a DataFrame; pandas must be installed.

        A time is a timedelta64[ns] and a date a datetime64, since Python's own types hold neither nanoseconds nor
        years past 9999; nested columns with such parts stay Arrow's (`pandas.ArrowDtype`).
        """
        from cdc_views.friendly import pandas_frame

        return pandas_frame(self.to_arrow())

    def _repr_html_(self) -> str:
        """The first rows as an HTML table: what a notebook shows."""
        head = "".join(f"<th>{html.escape(name)}</th>" for name in self.columns)
        lines = []
        for index, row in enumerate(self.json_rows()):
            if index == _SHOWN_ROWS:
                break
            lines.append("<tr>" + "".join(f"<td>{html.escape(row[name])}</td>" for name in self.columns) + "</tr>")
        more = f"<p>{len(self):,} rows" + (f", the first {_SHOWN_ROWS} shown</p>" if len(self) > _SHOWN_ROWS else "</p>")
        return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>{more}"
