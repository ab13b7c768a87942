"""The SQL lexer: sqlglot's tokenizer, which knows the quotes and comments of each dialect."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar

from sqlglot import Token as SqlglotToken
from sqlglot import TokenType
from sqlglot.dialects.mysql import MySQL
from sqlglot.dialects.postgres import Postgres
from sqlglot.errors import TokenError

from cdc_views.errors import SchemaError
from cdc_views.schemas.tokens import LineIndex, Token, TokenKind

_NOT_SQL = re.compile(
    r"""
      ^copy\b[^;]*\bfrom\s+stdin[^;]*;.*?^\\\.[ ]*$   # rows of a pg_dump
    | ^\\[a-z][^\n]*                                  # psql's own commands
    | ^delimiter\b[^\n]*                              # the MySQL client's own command
    """,
    re.VERBOSE | re.DOTALL | re.MULTILINE | re.IGNORECASE,
)


class _MySQLTokenizer(MySQL.Tokenizer):
    # for sqlglot, the rest of a RENAME or REPLACE is one string, up to a `;`, even inside quotes
    COMMANDS: ClassVar[set[TokenType]] = set()


class _PostgresTokenizer(Postgres.Tokenizer):
    COMMANDS: ClassVar[set[TokenType]] = set()


def tokenize(text: str, *, dialect: str, where: str) -> list[Token]:
    """Return the tokens of `text`, an `END` token last, without the clients' own commands and COPY rows. Raises `SchemaError` for
    a string, a quoted name or a comment that is not closed.
    """
    statements = _NOT_SQL.sub(_blank, text)
    index = LineIndex(statements)
    try:
        tokenizer = _MySQLTokenizer if dialect == "mysql" else _PostgresTokenizer
        found = tokenizer(dialect=dialect).tokenize(statements)
    except TokenError as error:
        raise SchemaError(f"the file cannot be split into {dialect} tokens: {error}", where=where) from error
    tokens = [token for each in found for token in _split(each, index=index)]
    return [*tokens, Token(TokenKind.END, "", *index.place(len(statements)))]


def _blank(match: re.Match[str]) -> str:
    """Keep the line breaks, so that places in messages stay right."""
    return "\n" * match.group().count("\n")


def _split(token: SqlglotToken, *, index: LineIndex) -> Iterator[Token]:
    line, column = index.place(token.start)
    kind = _KINDS.get(token.token_type)
    if kind is not None:
        yield Token(kind, token.text, line, column)
    elif token.text[:1].isalnum() or token.text.startswith("_"):
        # sqlglot joins some keywords, such as `PRIMARY KEY`
        for word in token.text.split():
            yield Token(TokenKind.WORD, word, line, column)
    else:
        yield Token(TokenKind.SYMBOL, token.text, line, column)


_KINDS = {
    TokenType.IDENTIFIER: TokenKind.QUOTED,
    TokenType.STRING: TokenKind.STRING,
    TokenType.NATIONAL_STRING: TokenKind.STRING,
    TokenType.RAW_STRING: TokenKind.STRING,
    TokenType.HEREDOC_STRING: TokenKind.STRING,
    TokenType.BYTE_STRING: TokenKind.STRING,
    TokenType.BIT_STRING: TokenKind.STRING,
    TokenType.HEX_STRING: TokenKind.STRING,
    TokenType.NUMBER: TokenKind.NUMBER,
}
