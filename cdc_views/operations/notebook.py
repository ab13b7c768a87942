"""Tables of HTML for notebooks: what `_repr_html_` of projects, tables, results, explanations and test reports return."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence

from cdc_views.rules.codec.jsontext import JsonRow
from cdc_views.rules.codec.row_texts import plain

_LEFT = "text-align:left;vertical-align:top;white-space:pre-wrap"
"""Whole values, in lines as they are: notebooks align cells to the right and fold white space."""


def html_table(columns: Sequence[str], rows: Iterable[Mapping[str, str | None]], *, title: str = "", note: str = "") -> str:
    """Return a table of texts, between a title above and a note below; None is shown as null, and everything is escaped."""
    head = "".join(f'<th style="{_LEFT}">{html.escape(name)}</th>' for name in columns)
    lines = ("<tr>" + "".join(_cell(row[name]) for name in columns) + "</tr>" for row in rows)
    above = f"<p><b>{html.escape(title)}</b></p>" if title else ""
    below = f"<p>{html.escape(note)}</p>" if note else ""
    return f"{above}<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>{below}"


def plain_row(row: JsonRow) -> dict[str, str | None]:
    """Return a row of JSON texts as `html_table` takes it: texts without quotes, None for null."""
    return {name: None if text == "null" else plain(text) for name, text in row.items()}


def _cell(text: str | None) -> str:
    if text is None:
        return f'<td style="{_LEFT};opacity:0.5">null</td>'
    return f'<td style="{_LEFT}">{html.escape(text)}</td>'
