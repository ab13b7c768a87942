"""Texts of others, safe to read: no letter that is not seen, none that turns the line around, none too long."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from markupsafe import Markup

from cdc_views.model.column_policies import Policy
from cdc_views.rules.codec.row_texts import plain

if TYPE_CHECKING:
    from cdc_views.operations.context import TableContext

LONGEST = 160
"""Letters of a value in a table of many."""
LONGEST_ALONE = 4_000
"""Letters of a value that a page is about."""


def visible(text: str, *, most: int = LONGEST_ALONE) -> str:
    r"""Return a text whose unprintable letters, those that change the direction of others among them, are written out.

    >>> visible("a\u202eb\n"), visible("abcdef", most=3)
    ('a\\u202eb\\n', 'abc… (6 letters)')
    """
    shown = text[:most]
    if not shown.isprintable():
        shown = "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in shown)
    return shown if len(text) <= most else f"{shown}… ({len(text):,} letters)"


def visible_lines(text: str, *, most: int = 1 << 18) -> str:
    """As `visible`, and its lines stay lines."""
    return "\n".join(visible(line, most=most) for line in text[:most].split("\n"))


def ticked(text: str) -> Markup:
    """Return a text with the parts between backticks as code.

    >>> ticked("`late` lists <it>")
    Markup('<code>late</code> lists &lt;it&gt;')
    """
    parts = re.split("`([^`]*)`", text)
    return Markup("").join(Markup("<code>{}</code>").format(part) if at % 2 else part for at, part in enumerate(parts))


@dataclass(frozen=True, slots=True)
class ShownValue:
    """A value on a page; `kind` is value, null, masked, or text of no letters (empty)."""

    text: str
    kind: str = "value"


MASKED = ShownValue("masked", "masked")
LEFT_OUT = ShownValue("left out", "masked")


@dataclass(frozen=True, slots=True)
class Veil:
    """What a page does not show: the values of some columns, or with `is_whole` every key, value, path and bound."""

    columns: frozenset[str] = frozenset()
    is_whole: bool = False

    def hides(self, column: str) -> bool:
        """Return whether the values of a column stay out."""
        return self.is_whole or column in self.columns

    @property
    def shown(self) -> ShownValue:
        """What stands instead of a value."""
        return LEFT_OUT if self.is_whole else MASKED


def shown_value(text: str, *, most: int = LONGEST) -> ShownValue:
    """Return a JSON text as a page shows it.

    >>> shown_value('"x"'), shown_value("null"), shown_value('""')
    (ShownValue(text='x', kind='value'), ShownValue(text='null', kind='null'), ShownValue(text='empty', kind='empty'))
    """
    if text == "null":
        return ShownValue("null", "null")
    told = plain(text)
    return ShownValue(visible(told, most=most)) if told else ShownValue("empty", "empty")


def masked_columns(table: TableContext) -> frozenset[str]:
    """Return the columns whose values no page shows: a mask may be younger than what landed."""
    return frozenset(name for name, one in table.config.policies.columns.items() if one.policy is Policy.MASK)


def has_withheld(table: TableContext) -> bool:
    """Whether events of the table may hold what no page shows."""
    return bool(table.config.policies.columns)
