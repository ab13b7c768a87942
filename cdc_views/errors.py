"""Every error raised on purpose, in one tree.

::

    CdcViewsError                      exit code 3 unless a subclass says otherwise
    ├── UsageError                     2  the caller's request is impossible
    │   ├── ConfigError                2  the project file: a key, a value, a missing file
    │   ├── SchemaError                2  a schema that cannot be read or cannot have views
    │   │   └── UnknownColumnError     2  a name that the table does not have
    │   ├── UnsupportedError           2  a dialect, engine or type that cannot do this; carries a remedy
    │   │   └── MissingExtraError      2  an optional package that is not installed; names the extra
    │   └── SourceFileError            2  a file of events that is missing or unreadable
    │       └── WrongFileError         2  a file of which no event decodes; nothing was done
    ├── MalformedEventError            -  one event; landing quarantines it and goes on
    ├── CheckFailedError               1  a check ran and failed
    └── EngineError                    3  DuckDB, Spark or a source failed
        ├── DamagedFileError           3  a file of a table is missing or damaged; names it and a remedy
        └── TransientError             3  the same call may succeed later
            └── TableLockedError       3  another run of the table is going on

A message says where, what is wrong, what was expected and what to do; the facts are attributes too.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class CdcViewsError(Exception):
    """Base of all errors of this project; `exit_code` is the exit code of the command line."""

    exit_code = 3


class UsageError(CdcViewsError):
    """The caller's arguments or configuration are wrong; the same call will fail again."""

    exit_code = 2


class ConfigError(UsageError):
    """The project file is wrong or missing; each of `problems` names the file and, if known, the line."""

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class SchemaError(UsageError):
    """A table schema cannot be read, or views cannot show it."""

    def __init__(self, message: str, *, where: str = "", line: int | None = None, column: int | None = None) -> None:
        place = ":".join(str(part) for part in (where, line, column) if part not in ("", None))
        super().__init__(f"{place}: {message}" if place else message)
        self.where, self.line, self.column = where, line, column

    def about(self, what: str) -> SchemaError:
        """Return the same error, which also names what it is about."""
        found = SchemaError(f"{self} ({what})")
        found.where, found.line, found.column = self.where, self.line, self.column
        return found


class UnknownColumnError(SchemaError):
    """The table has no column of this name; `suggestion` is the nearest name that it has, or None."""

    def __init__(self, *, table: str, column: str, known: Iterable[str]) -> None:
        self.table, self.missing, self.known = table, column, tuple(known)
        self.suggestion = nearest(column, self.known)
        super().__init__(f"{table} has no column {column!r}{did_you_mean(column, self.known)}")


class UnsupportedError(UsageError):
    """A dialect, an engine or a format cannot do this; `remedy` states what to do instead."""

    def __init__(self, what: str, *, remedy: str) -> None:
        self.what, self.remedy = what, remedy
        super().__init__(f"{what}; {remedy}")


class MissingExtraError(UnsupportedError, ImportError):
    """An optional package cannot be imported; `extra` installs it. Also an `ImportError`, for callers that catch that."""

    def __init__(self, what: str, *, module: str, extra: str, why: str = "") -> None:
        """Compose the message; `why` is the reason if the package is installed but fails to import."""
        state = f"which cannot be imported ({why})" if why else "which is not installed"
        super().__init__(f"{what} needs {module}, {state}", remedy=f"pip install 'cdc-views[{extra}]'")
        self.module, self.extra = module, extra


class SourceFileError(UsageError):
    """A file of events does not exist or cannot be read."""


class WrongFileError(SourceFileError):
    """No event of a file decodes, so the file is probably of another format; nothing was landed or quarantined."""


class MalformedEventError(CdcViewsError):
    """An event cannot be decoded; landing puts it into quarantine with this text as the reason."""


class CheckFailedError(CdcViewsError):
    """A check ran and failed."""

    exit_code = 1


class EngineError(CdcViewsError):
    """An engine or a source failed; the cause is chained."""


class DamagedFileError(EngineError):
    """A file of a table is missing or damaged."""

    def __init__(self, table: str, *, what: str, file: object, why: str, remedy: str) -> None:
        """Compose the message; `what` is the part of the table that has the file: the raw table, the state …"""
        super().__init__(f"{table}: a file of the {what} is damaged, {file}: {why}; {remedy}")
        self.table, self.what, self.file, self.why, self.remedy = table, what, file, why, remedy


class TransientError(EngineError):
    """As `EngineError`, but the same call may succeed later."""


class TableLockedError(TransientError):
    """Another run of the table holds its lock; `holder` names the process."""

    def __init__(self, *, table: str, holder: str, waited: float = 0.0) -> None:
        """Compose the message; `waited` is how long the caller waited, in seconds."""
        self.table, self.holder, self.waited = table, holder, waited
        after = f" and still is after {waited:g} s" if waited else ""
        super().__init__(f"{table} is being run by {holder}{after}; try again later, or wait longer with --wait SECONDS")


def nearest(word: str, known: Iterable[str], *, alike: float = 0.6) -> str | None:
    """Return the entry of `known` that is most like `word`; None if none is close. `alike`: how close at least (`difflib`)."""
    folded = {name.casefold(): name for name in known}
    found = difflib.get_close_matches(word.casefold(), folded, n=1, cutoff=alike)
    return folded[found[0]] if found else None


def choose_one(word: str, known: Iterable[str]) -> str:
    """Return the remedy for a value that is not in `known`: `"did you mean 'x'?"`, or `"choose one of a, b"` if none is close."""
    known = tuple(known)
    found = nearest(word, known)
    return f"did you mean {found!r}?" if found is not None else f"choose one of {', '.join(known)}"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return `"; did you mean 'x'?"`, or a list of known names if none is close; empty if `known` is empty."""
    known = tuple(known)
    found = nearest(word, known)
    if found is not None:
        return f"; did you mean {found!r}?"
    return f"; it has {', '.join(map(repr, known[:12]))}{' …' if len(known) > 12 else ''}" if known else ""
