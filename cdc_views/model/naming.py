"""Physical names of columns, in raw tables and plans; the last step of a view restores the users' names.

They hold only `[a-z0-9_]`, start with a letter and never differ in case alone. Our own columns start with `_`. Reasons: Delta
refuses ` ,;{}()=` in names, Spark and DuckDB ignore case, BigQuery allows little else, and a source column may be called `_op`.
"""

from __future__ import annotations

import re

KIND = "_kind"
"""The column of raw tables and states that holds the kind of a fact."""
_PLAIN = re.compile(r"[a-z][a-z0-9_]*\Z")
_ESCAPED = "x_"
_UNHELD = re.compile(r"[ ,;{}()=`.\x00-\x1f\x7f]")
"""Characters that Delta or Parquet readers refuse in a name; also quote and dot, which tools misread."""
_UNSAFE = re.compile(r"[^a-zA-Z0-9_]")
_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789")


class RenamedField(str):
    """The present name of a renamed field of a user type. Raw tables store its values under its first name, `stored`."""

    stored: str

    def __new__(cls, name: str, stored: str) -> RenamedField:
        made = super().__new__(cls, name)
        made.stored = stored
        return made

    def __getnewargs__(self) -> tuple[str, str]:  # type: ignore[override]  # as many as `__new__` takes
        return str(self), self.stored


def renamed_field(former: str, name: str) -> str:
    """Return a field's new name, which remembers the first one."""
    stored = former.stored if isinstance(former, RenamedField) else former
    return name if name == stored else RenamedField(name, stored)


def physical_name(name: str) -> str:
    """Return the name in raw tables. Plain lower-case names stay as they are; a renamed field has its first name.

    >>> physical_name("user_id"), physical_name("user-id"), physical_name("_op")
    ('user_id', 'x_user_2did', 'x___op')
    """
    if isinstance(name, RenamedField):
        name = name.stored
    if _PLAIN.match(name) and not name.startswith(_ESCAPED):
        return name
    return _ESCAPED + "".join(_escape(letter) for letter in name)


def bound_name(name: str) -> str:
    """Return a clustering column's name inside `_from` and `_to`, which have members `size` and `inclusive` of their own.

    >>> bound_name("line"), bound_name("size")
    ('line', '_size')
    """
    physical = physical_name(name)
    return f"_{physical}" if physical in ("size", "inclusive") else physical


def held_name(name: str) -> str:
    """Return the name in a Delta table of plain columns: the user's own, encoded only if Delta refuses it, or if it starts with
    `_` (as our columns do) or with `x_` (as encoded names do).

    >>> held_name("OrderId"), held_name("user-id"), held_name("user id"), held_name("_op")
    ('OrderId', 'user-id', 'x_user_20id', 'x___op')
    """
    return name if name and not _UNHELD.search(name) and not name.startswith(("_", _ESCAPED)) else physical_name(str(name))


def sanitized(name: str) -> str:
    """Return a column's name as Connect's BigQuery sink writes it (`sanitizeFieldNames`): only letters, digits, `_`."""
    plain = _UNSAFE.sub("_", name)
    return f"_{plain}" if plain[:1].isdigit() else plain


def _escape(letter: str) -> str:
    if letter in _LETTERS:
        return letter
    if letter == "_":
        return "__"
    return "".join(f"_{byte:02x}" for byte in letter.encode())


def key_name(name: str) -> str:
    """Return the name of the comparable stored beside key column `name` (see `codec.comparable`)."""
    return "_key_" + physical_name(name)


def bytes_name(name: str) -> str:
    """Return the name of the serialized bytes stored beside key column `name` (see `types.reads_from_bytes`)."""
    return "_bytes_" + physical_name(name)
