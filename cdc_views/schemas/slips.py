"""Slips in DDL that change what is read without an error: a statement, or a type, that is almost one that is known.

A type that is not known may be one of the user's, and a statement one that does not matter here, so none of them is refused.
"""

from __future__ import annotations

from functools import lru_cache

from cdc_views.errors import nearest
from cdc_views.schemas.tokens import Token, TokenKind

_ALIKE = 0.8
"""How alike two words are at least (`difflib`): one letter more, less or exchanged of five. CITEXT is less like TEXT."""
_VERBS = frozenset({"alter", "comment", "create", "drop", "rename"})
_OBJECTS = frozenset({"table", "type"})


@lru_cache(maxsize=1024)  # a type of the user's stands in many columns
def meant(word: str, known: frozenset[str]) -> str:
    """Return the known word that another one is almost; empty if it is none, or is known itself."""
    word = word.lower()
    if word in known or len(word) < 3:
        return ""
    return nearest(word, known, alike=_ALIKE) or ""


def statement_slip(first: Token, *, is_object: bool = False, where: str) -> str:
    """Return what to say of a statement that is passed over, and begins with this word, or creates this kind of object; empty if
    that is no slip.
    """
    wanted = meant(first.text, _OBJECTS if is_object else _VERBS) if first.kind is TokenKind.WORD else ""
    told = f"{where}:{first.line}: a statement with {first.text!r} is passed over"
    return f"{told}; did you mean {wanted.upper()}?" if wanted else ""


def type_slip(name: str, column: Token, known: frozenset[str], *, where: str) -> str:
    """Return what to say of a type that is read as text because it is not known; empty if it is like no known one."""
    wanted = meant(name, known)
    return f"{where}:{column.line}: type {name!r} is not known, and is read as text; did you mean {wanted!r}?" if wanted else ""
