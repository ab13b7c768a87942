"""PostgreSQL's printed arrays."""

from __future__ import annotations

import re
from typing import Any

_TOKENS = {mark: re.compile(rf'"((?:[^"\\]|\\.)*)"|([{{}}])|([^"{{}}{mark}]+)|{mark}', re.DOTALL) for mark in ",;"}
"""By the delimiter of the element's type: a comma, but for `box`."""
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_MOST_NESTED = 6


def parse_array(text: str, delimiter: str = ",") -> list[Any]:
    r"""Return the elements, each its printed text or None, inner arrays as lists; raises ValueError.

    >>> parse_array('{1,NULL,"a \\"b\\"","NULL"}')
    ['1', None, 'a "b"', 'NULL']
    >>> parse_array("[0:1]={{1,2},{3,4}}")
    [['1', '2'], ['3', '4']]
    """
    body = text.partition("=")[2] if text.startswith("[") else text
    open_lists: list[list[Any]] = [[]]
    token, at = _TOKENS[delimiter], 0
    while at < len(body):
        found = token.match(body, at)
        if found is None:
            raise ValueError(f"{text[:40]!r} is no array")
        _take(found, open_lists)
        at = found.end()
    if len(open_lists) != 1 or len(open_lists[0]) != 1 or not isinstance(open_lists[0][0], list):
        raise ValueError(f"{text[:40]!r} is no array")
    return list(open_lists[0][0])


def _take(found: re.Match[str], open_lists: list[list[Any]]) -> None:
    if found[1] is not None:
        open_lists[-1].append(_ESCAPED.sub(r"\1", found[1]))
    elif found[2] == "{":
        inner: list[Any] = []
        open_lists[-1].append(inner)
        open_lists.append(inner)
        if len(open_lists) > _MOST_NESTED + 1:
            raise ValueError("more dimensions than PostgreSQL has")
    elif found[2] == "}":
        open_lists.pop()
        if not open_lists:
            raise ValueError("closed once too often")
    elif found[3] is not None:
        open_lists[-1].append(None if found[3] == "NULL" else found[3])
