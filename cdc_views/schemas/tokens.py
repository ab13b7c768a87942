"""Tokens of a DDL file and a cursor over them, shared by the CQL and the SQL reader."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

from cdc_views.errors import SchemaError

Found = TypeVar("Found")


class TokenKind(Enum):
    """What a token is; `WORD` is an unquoted name or keyword, `QUOTED` a name in quotes."""

    WORD = "word"
    QUOTED = "quoted name"
    STRING = "string"
    NUMBER = "number"
    SYMBOL = "symbol"
    END = "the end"


@dataclass(frozen=True, slots=True)
class Token:
    """One token; `text` is without quotes, in the case the file writes it; `line` and `column` count from 1."""

    kind: TokenKind
    text: str
    line: int
    column: int

    def __str__(self) -> str:
        return self.kind.value if self.kind is TokenKind.END else repr(self.text)

    def error(self, message: str, *, where: str) -> SchemaError:
        """Return the error to raise about this token of the file `where`."""
        return SchemaError(message, where=where, line=self.line, column=self.column)


class LineIndex:
    """Turns offsets in a text into lines and columns, both from 1."""

    def __init__(self, text: str, *, line: int = 1, column: int = 1) -> None:
        """Remember where lines start; `line` and `column` are the place of the text's first character."""
        self._starts = [0] + [i + 1 for i, char in enumerate(text) if char == "\n"]
        self._line, self._column = line, column

    def place(self, offset: int) -> tuple[int, int]:
        """Return (line, column) of the character at `offset`."""
        row = bisect_right(self._starts, offset) - 1
        within = offset - self._starts[row]
        return self._line + row, within + (self._column if row == 0 else 1)


class Cursor:
    """Reads tokens forward; what is expected and not found is a `SchemaError` with file, line and column."""

    def __init__(self, tokens: Sequence[Token], *, where: str, folds_case: bool = True) -> None:
        """Start at the first token; the last one must be of kind `END`. Unquoted names fold when `folds_case`."""
        self._tokens, self._next = tokens, 0
        self.where, self._folds_case = where, folds_case

    @property
    def token(self) -> Token:
        """The token to be read next."""
        return self._tokens[self._next]

    @property
    def at_end(self) -> bool:
        """Whether everything has been read."""
        return self.token.kind is TokenKind.END

    def advance(self) -> Token:
        """Read one token, whatever it is; at the end stay there."""
        token = self.token
        if token.kind is not TokenKind.END:
            self._next += 1
        return token

    def sees(self, *parts: str) -> bool:
        """Whether these symbols and unquoted words (in lower case here, in any case there) come next."""
        ahead = self._tokens[self._next : self._next + len(parts)]
        return [token.text.lower() for token in ahead if token.kind in (TokenKind.WORD, TokenKind.SYMBOL)] == [*parts]

    def sees_any(self, *parts: str) -> bool:
        """Whether one of these symbols and unquoted words comes next."""
        return self.token.kind in (TokenKind.WORD, TokenKind.SYMBOL) and self.token.text.lower() in parts

    def accept(self, *parts: str) -> bool:
        """Read these symbols and words if all of them come next."""
        found = self.sees(*parts)
        if found:
            self._next += len(parts)
        return found

    def expect(self, part: str) -> None:
        """Read this symbol or word; raises `SchemaError` when it does not come next."""
        if not self.accept(part):
            raise self.error(f"expected {part.upper() if part.isalpha() else repr(part)}, found {self.token}")

    def name(self, what: str) -> str:
        """Read an identifier, quoted or not; `what` says in the error which name was expected."""
        token = self.token
        if token.kind is TokenKind.QUOTED and token.text:
            return self.advance().text
        if token.kind is TokenKind.WORD:
            return self.advance().text.lower() if self._folds_case else self.advance().text
        raise self.error(f"expected {what}, found {token}")

    def list_of(self, read: Callable[[], Found]) -> list[Found]:
        """Read one thing, and another after each comma."""
        found = [read()]
        while self.accept(","):
            found.append(read())
        return found

    def skip_group(self) -> None:
        """Read one token, or a whole bracketed group when the token opens one."""
        depth = 0
        while not self.at_end:
            token = self.advance()
            if token.kind is TokenKind.SYMBOL:
                depth += (token.text in _OPENING) - (token.text in _CLOSING)
            if depth <= 0:
                return

    def skip_until(self, *symbols: str) -> None:
        """Read up to one of `symbols` outside brackets, or to the end; the symbol itself stays unread."""
        while not (self.at_end or self.sees_any(*symbols)):
            self.skip_group()

    def error(self, message: str, *, at: Token | None = None) -> SchemaError:
        """Return the error to raise, placed at `at` or at the next token."""
        return (at or self.token).error(message, where=self.where)


_OPENING, _CLOSING = frozenset("([{"), frozenset(")]}")
