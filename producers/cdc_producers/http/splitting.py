"""The events of a batch, letter by letter: an array is cut, not parsed and printed, so that no number changes."""

from __future__ import annotations

import json
from collections.abc import Iterator

_SPACE = " \t\r\n"
# only where a value ends matters here: numbers of any length are left alone
_DECODER = json.JSONDecoder(parse_int=str, parse_float=str)


def elements(content: bytes) -> list[bytes] | None:
    """Return the texts of the elements of a JSON array; None where it is none.

    >>> elements(b'[{"a": 1.10}, 2]')
    [b'{"a": 1.10}', b'2']
    >>> elements(b'[1, ]') is None
    True
    """
    try:
        return [text.encode() for text in _texts(content.decode())]
    except (ValueError, RecursionError):
        return None


def _texts(text: str) -> Iterator[str]:
    at = _expect(text, _skip(text, 0), "[")
    if text[at : at + 1] == "]":
        _expect_end(text, at + 1)
        return
    while True:
        _, end = _DECODER.raw_decode(text, at)
        yield text[at:end]
        at = _skip(text, end)
        if text[at : at + 1] == "]":
            _expect_end(text, at + 1)
            return
        at = _expect(text, at, ",")


def _expect(text: str, at: int, letter: str) -> int:
    if text[at : at + 1] != letter:
        raise ValueError(f"{letter} was expected at {at}")
    return _skip(text, at + 1)


def _expect_end(text: str, at: int) -> None:
    if _skip(text, at) != len(text):
        raise ValueError("something follows the array")


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in _SPACE:
        at += 1
    return at
