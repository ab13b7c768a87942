"""The CQL lexer. Source: Apache Cassandra 5.0, src/antlr/Lexer.g (comments `--`, `//`, `/* */`; strings `'…'` with `''`,
and `$$…$$`; names `"…"` with `""`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from cdc_views.errors import SchemaError
from cdc_views.schemas.tokens import LineIndex, Token, TokenKind

_TOKEN = re.compile(
    r"""
      (?P<skipped>\s+ | --[^\n]* | //[^\n]* | /\*.*?\*/)
    | (?P<quoted>"(?:[^"]|"")*")
    | (?P<string>'(?:[^']|'')*' | \$\$.*?\$\$)
    | (?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?!\w))
    | (?P<word>\w+)
    | (?P<unclosed>"|'|\$\$|/\*)
    | (?P<symbol>.)
    """,
    re.VERBOSE | re.DOTALL,
)
"""The groups are named after `TokenKind`."""
_CLOSED_BY = {'"': 'quoted name is not closed by "', "'": "string is not closed by '"}


def tokenize(text: str, *, where: str, line: int = 1, column: int = 1) -> list[Token]:
    """Return the tokens of `text`, an `END` token last. In error messages, the text begins at `where`, `line` and `column`.
    Raises `SchemaError` for a string, a quoted name or a comment that is not closed.
    """
    return list(_tokens(text, where=where, index=LineIndex(text, line=line, column=column)))


def _tokens(text: str, *, where: str, index: LineIndex) -> Iterator[Token]:
    for match in _TOKEN.finditer(text):
        group, raw = str(match.lastgroup), match.group()
        if group == "skipped":
            continue
        row, within = index.place(match.start())
        if group == "unclosed":
            fault = _CLOSED_BY.get(raw, f"what {raw} opens is never closed")
            raise SchemaError(f"{fault} before the end of the file", where=where, line=row, column=within)
        yield Token(TokenKind[group.upper()], _unquoted(raw), row, within)
    yield Token(TokenKind.END, "", *index.place(len(text)))


def _unquoted(raw: str) -> str:
    if raw.startswith("$$"):
        return raw[2:-2]
    if len(raw) > 1 and raw[0] in "\"'":
        return raw[1:-1].replace(raw[0] * 2, raw[0])
    return raw
