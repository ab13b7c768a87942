"""Statements that the log has as text and that concern tables: they empty one, or change its columns."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum

from cdc_producers.binlog.log_events import Statement

_TOKEN = re.compile(
    r"""(?:\s+|--(?=\s|$)[^\n]*|\#[^\n]*|/\*(?!M?!).*?\*/|/\*M?!\d*|\*/)
    |(`(?:[^`]|``)*`|"(?:[^"\\]|\\.|"")*"|'(?:[^'\\]|\\.|'')*'|[\w$]+|.)""",
    re.DOTALL | re.VERBOSE,
)
_NAME = re.compile(r"""[\w$]|[`"].""", re.DOTALL)
"""The beginning of a token that may be a name; a quotation mark that nothing closes is none."""
_MOST_CHARACTERS = 20_000
"""Names come at a statement's beginning; megabytes of values may follow."""


class Action(Enum):
    """The effect of a statement on a table."""

    EMPTIED = "emptied"
    DROPPED = "dropped"
    CREATED = "created"
    ALTERED = "altered"
    RENAMED = "renamed"
    WRITTEN = "written"
    """Rows were written, and the log has the statement instead of the rows."""
    LOST_ROWS = "lost rows"
    """A partition was dropped, emptied or exchanged, or a tablespace replaced: the log does not have the changed rows."""


@dataclass(frozen=True, slots=True)
class Effect:
    """The effect of one statement on one table, or, if the table's name is empty, on every table of a database."""

    action: Action
    database: str
    table: str


def effects(statement: Statement) -> list[Effect]:
    """Return a statement's effects on tables."""
    words = _Words(statement)
    read = _READ_BY.get(words.next().upper())
    return [] if read is None else list(read(words))


def is_end(text: str) -> bool:
    """Return whether a statement ends a transaction."""
    return text.strip().upper() in ("COMMIT", "ROLLBACK") or text.upper().startswith(("XA COMMIT", "XA ROLLBACK"))


_XA_START = re.compile(r"XA\s+(?:START|BEGIN)\s+(.*?)\s*;?\s*", re.IGNORECASE | re.DOTALL)


def begun(text: str) -> bytes | None:
    """Return the name of the XA transaction that a statement begins, empty for another transaction; None if it begins none."""
    if text.strip().upper() in ("BEGIN", "START TRANSACTION"):
        return b""
    found = _XA_START.fullmatch(text)
    return None if found is None else found[1].encode()


_XA_END = re.compile(r"XA\s+(?:COMMIT|ROLLBACK)\s+(.*?)(?:\s+ONE\s+PHASE)?\s*;?\s*", re.IGNORECASE | re.DOTALL)


def completed_name(text: str) -> bytes:
    """Return the name of the XA transaction that a statement commits or rolls back; empty for any other statement."""
    found = _XA_END.fullmatch(text)
    return b"" if found is None else found[1].encode()


class _Words:
    """The tokens of a statement, without comments, except for comments that the server executes."""

    def __init__(self, statement: Statement) -> None:
        found = _TOKEN.finditer(statement.text[:_MOST_CHARACTERS])
        self._tokens = [match[1] for match in found if match[1]]
        self._database, self._at = statement.database, 0

    def next(self) -> str:
        """Return the next token; empty behind the last one."""
        self._at += 1
        return self._tokens[self._at - 1] if self._at <= len(self._tokens) else ""

    def accept(self, *tokens: str) -> bool:
        """Step over these words or symbols if they come next, and return whether they did."""
        if [token.upper() for token in self._tokens[self._at : self._at + len(tokens)]] != list(tokens):
            return False
        self._at += len(tokens)
        return True

    def name(self) -> tuple[str, str]:
        first = self._identifier()
        return (first, self._identifier()) if self.accept(".") else (self._database, first)

    def _identifier(self) -> str:
        token = self.next()
        is_quoted = token[:1] in ("`", '"') and len(token) > 1
        return token[1:-1].replace(token[0] * 2, token[0]) if is_quoted else token

    def rest(self) -> str:
        """Return the remaining tokens in capitals, without quoted ones."""
        return " ".join(token.upper() for token in self._tokens[self._at :] if token[0] not in "`\"'")

    def skip_to(self, word: str) -> bool:
        """Step behind the next token that is this word, and return whether there is one."""
        while self._at < len(self._tokens):
            if self.accept(word):
                return True
            self._at += 1
        return False

    def every_name(self) -> Iterator[tuple[str, str]]:
        """Yield everything that may be a table's name."""
        while self._at < len(self._tokens):
            if _NAME.match(self._tokens[self._at]):
                yield self.name()
            else:
                self._at += 1


def _emptied(words: _Words) -> Iterator[Effect]:
    words.accept("TABLE")
    yield Effect(Action.EMPTIED, *words.name())


def _written(words: _Words) -> Iterator[Effect]:
    return (Effect(Action.WRITTEN, *name) for name in words.every_name())


def _dropped(words: _Words) -> Iterator[Effect]:
    if words.accept("DATABASE") or words.accept("SCHEMA"):
        words.accept("IF", "EXISTS")
        yield Effect(Action.DROPPED, words.name()[1], "")
        return
    if not words.accept("TABLE"):
        return
    words.accept("IF", "EXISTS")
    yield Effect(Action.DROPPED, *words.name())
    while words.accept(","):
        yield Effect(Action.DROPPED, *words.name())


def _created(words: _Words) -> Iterator[Effect]:
    replaces = words.accept("OR", "REPLACE")
    if not words.accept("TABLE"):
        return
    words.accept("IF", "NOT", "EXISTS")
    yield Effect(Action.DROPPED if replaces else Action.CREATED, *words.name())


_LOSING = re.compile(r"\b(?:(?:DROP|TRUNCATE|EXCHANGE|IMPORT) PARTITION|CONVERT (?:PARTITION|TABLE)|IMPORT TABLESPACE)\b")


def _altered(words: _Words) -> Iterator[Effect]:
    words.accept("ONLINE")
    words.accept("IGNORE")
    if not words.accept("TABLE"):
        return
    words.accept("IF", "EXISTS")
    database, table = words.name()
    is_losing = _LOSING.search(words.rest()) is not None
    yield Effect(Action.LOST_ROWS if is_losing else Action.ALTERED, database, table)
    while words.skip_to("RENAME"):
        if any(words.accept(part) for part in ("COLUMN", "INDEX", "KEY")):
            continue
        _ = words.accept("TO") or words.accept("AS") or words.accept("=")
        yield Effect(Action.RENAMED, database, table)
        yield Effect(Action.RENAMED, *words.name())


def _renamed(words: _Words) -> Iterator[Effect]:
    if not (words.accept("TABLE") or words.accept("TABLES")):
        return
    words.accept("IF", "EXISTS")
    while True:
        yield Effect(Action.RENAMED, *words.name())
        words.skip_to("TO")
        yield Effect(Action.RENAMED, *words.name())
        if not words.accept(","):
            return


_READ_BY: dict[str, Callable[[_Words], Iterator[Effect]]] = {
    "TRUNCATE": _emptied,
    "DROP": _dropped,
    "CREATE": _created,
    "ALTER": _altered,
    "RENAME": _renamed,
    **dict.fromkeys(("INSERT", "REPLACE", "UPDATE", "DELETE", "LOAD", "WITH"), _written),
}
