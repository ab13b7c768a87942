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
    """The kind of a token; `WORD` is an unquoted name or keyword, `QUOTED` a name in quotes."""

    WORD = "word"
    QUOTED = "quoted name"
    STRING = "string"
    NUMBER = "number"
    SYMBOL = "symbol"
    END = "the end"


@dataclass(frozen=True, slots=True)
class Token:
    """One token; `text` is without quotes, in the file's case; `line` and `column` count from 1."""

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
    """The lines and columns of offsets in a text; `line` and `column`, from 1, are the place of its first character."""

    def __init__(self, text: str, *, line: int = 1, column: int = 1) -> None:
        self._starts = [0] + [i + 1 for i, char in enumerate(text) if char == "\n"]
        self._line, self._column = line, column

    def place(self, offset: int) -> tuple[int, int]:
        """Return (line, column) of the character at `offset`."""
        row = bisect_right(self._starts, offset) - 1
        within = offset - self._starts[row]
        return self._line + row, within + (self._column if row == 0 else 1)


class Cursor:
    """A reader of tokens up to `END`; its `SchemaError` has the place. With `folds_case`, unquoted names are in lower case."""

    def __init__(self, tokens: Sequence[Token], *, where: str, folds_case: bool = True) -> None:
        self._tokens, self._next = tokens, 0
        self.where, self._folds_case = where, folds_case

    @property
    def token(self) -> Token:
        """The next token."""
        return self._tokens[self._next]

    @property
    def at_end(self) -> bool:
        """Whether everything has been read."""
        return self.token.kind is TokenKind.END

    def advance(self) -> Token:
        """Read one token of any kind; stay at the end."""
        token = self.token
        if token.kind is not TokenKind.END:
            self._next += 1
        return token

    def sees(self, *parts: str) -> bool:
        """Whether these symbols and unquoted words come next; `parts` are in lower case, the text may be in any case."""
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
        """Read this symbol or word; raises `SchemaError` if it does not come next."""
        if not self.accept(part):
            raise self.error(f"expected {part.upper() if part.isalpha() else repr(part)}, found {self.token}")

    def name(self, what: str) -> str:
        """Read an identifier, quoted or not; `what` names the expected name in the error."""
        token = self.token
        if token.kind is TokenKind.QUOTED and token.text:
            return self.advance().text
        if token.kind is TokenKind.WORD:
            return self.advance().text.lower() if self._folds_case else self.advance().text
        raise self.error(f"expected {what}, found {token}")

    def text(self) -> str:
        """Read a string in quotes; empty, with nothing read, if none comes next."""
        return self.advance().text if self.token.kind is TokenKind.STRING else ""

    def list_of(self, read: Callable[[], Found]) -> list[Found]:
        """Read one thing, and another one after each comma."""
        found = [read()]
        while self.accept(","):
            found.append(read())
        return found

    def skip_group(self) -> None:
        """Read one token, or a whole bracketed group if the token opens one."""
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
