"""Text that dbt renders with Jinja: literal text, and placeholders."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

_OPENING = re.compile(r"\{(?=[{%#])")


def literal(text: str) -> str:
    """Return a template that renders to exactly `text`, even if that contains Jinja's marks.

    >>> literal("a {{ b }} {% c")
    "a {{ '{' }}{ b }} {{ '{' }}% c"
    """
    return _OPENING.sub("{{ '{' }}", text)


def filled(text: str, places: Mapping[str, str]) -> str:
    """Return a template that renders to `text`, with each word in `places` replaced by the value of its expression."""
    template = literal(text)
    for word, expression in places.items():
        template = template.replace(word, "{{ " + expression + " }}")
    return template


def free_word(word: str, names: Iterable[str]) -> str:
    """Return `word`, lengthened until no name contains it, so that it can only be a placeholder."""
    taken = " ".join(names)
    while word in taken:
        word += "_"
    return word


def value(found: Any) -> str:
    """Return a Jinja expression for a text, a number, a list or a mapping.

    >>> print(value({"key": ["it's"]}))
    {"key": ["it's"]}
    """
    return json.dumps(found, ensure_ascii=False)
