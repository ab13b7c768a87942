"""Statements that the log has as text, as far as they concern tables: what empties one, what changes one's columns."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum

from cdc_producers.mariadb.binlog import Statement

_TOKEN = re.compile(
    r"""(?:\s+|--(?=\s|$)[^\n]*|\#[^\n]*|/\*(?!M?!).*?\*/|/\*M?!\d*|\*/)
    |(?P<quoted>`(?:[^`]|``)*`|"(?:[^"\\]|\\.|"")*")|(?P<text>'(?:[^'\\]|\\.|'')*')|(?P<word>[\w$]+)|(?P<symbol>.)""",
    re.DOTALL | re.VERBOSE,
)
_MOST_CHARACTERS = 20_000
"""Names stand at a statement's beginning; what follows may be megabytes of values."""


class Action(Enum):
    """What a statement does to a table."""

    EMPTIED = "emptied"
    DROPPED = "dropped"
    CREATED = "created"
    ALTERED = "altered"
    RENAMED = "renamed"
    WRITTEN = "written"
    """Rows were written, and the log has the statement in place of the rows."""
    LOST_ROWS = "lost rows"
    """A partition was dropped, emptied or exchanged, or a tablespace put in place: rows changed that the log does not have."""


@dataclass(frozen=True, slots=True)
class Effect:
    """What one statement does to one table, or with an empty table's name to every one of a database."""

    action: Action
    database: str
    table: str


def effects(statement: Statement) -> list[Effect]:
    """Return what a statement does to tables; nothing for those that do nothing to any."""
    words = _Words(statement)
    read = _READ_BY.get(words.next_word())
    return [] if read is None else list(read(words))


def is_end(text: str) -> bool:
    """Whether a statement ends a transaction."""
    return text.strip().upper() in ("COMMIT", "ROLLBACK") or text.upper().startswith(("XA COMMIT", "XA ROLLBACK"))


class _Words:
    """The tokens of a statement, comments left out but for those that MariaDB executes."""

    def __init__(self, statement: Statement) -> None:
        found = _TOKEN.finditer(statement.text[:_MOST_CHARACTERS])
        self._tokens = [(match.lastgroup, match.group()) for match in found if match.lastgroup]
        self._database, self._at = statement.database, 0

    def _peek(self) -> tuple[str, str]:
        kind, text = self._tokens[self._at] if self._at < len(self._tokens) else ("", "")
        return str(kind), text

    def next_word(self) -> str:
        """The next word, in capitals; empty for anything else."""
        kind, text = self._peek()
        self._at += 1
        return text.upper() if kind == "word" else ""

    def accept(self, *words: str) -> bool:
        """Step over these words where they come next."""
        upcoming = self._tokens[self._at : self._at + len(words)]
        if [text.upper() for kind, text in upcoming if kind == "word"] != list(words):
            return False
        self._at += len(words)
        return True

    def accept_symbol(self, symbol: str) -> bool:
        if self._peek() != ("symbol", symbol):
            return False
        self._at += 1
        return True

    def name(self) -> tuple[str, str]:
        """The database and name of a table."""
        first = self._identifier()
        return (first, self._identifier()) if self.accept_symbol(".") else (self._database, first)

    def _identifier(self) -> str:
        kind, text = self._peek()
        self._at += 1
        return text[1:-1].replace(text[0] * 2, text[0]) if kind == "quoted" else text

    def rest(self) -> str:
        """The words that are left, in capitals."""
        return " ".join(text.upper() for kind, text in self._tokens[self._at :] if kind in ("word", "symbol"))

    def skip_to(self, *words: str) -> bool:
        """Step behind the next of these words that stands alone."""
        while self._at < len(self._tokens):
            if any(self.accept(word) for word in words):
                return True
            self._at += 1
        return False

    def every_name(self) -> Iterator[tuple[str, str]]:
        """Everything that may be a table's name."""
        while self._at < len(self._tokens):
            kind, _ = self._peek()
            if kind in ("word", "quoted"):
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
    while words.accept_symbol(","):
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
        _ = words.accept("TO") or words.accept("AS") or words.accept_symbol("=")
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
        if not words.accept_symbol(","):
            return


_READ_BY: dict[str, Callable[[_Words], Iterator[Effect]]] = {
    "TRUNCATE": _emptied,
    "DROP": _dropped,
    "CREATE": _created,
    "ALTER": _altered,
    "RENAME": _renamed,
    **dict.fromkeys(("INSERT", "REPLACE", "UPDATE", "DELETE", "LOAD", "WITH"), _written),
}
"""What reads a statement, by its first word."""
