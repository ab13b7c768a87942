"""Shows why an event is in quarantine, without its values: more people read, keep and copy logs than rows."""

from __future__ import annotations

import re
from collections.abc import Iterator

from cdc_views.model.schema import TableSchema
from cdc_views.model.types import LogicalType, Udt, children

_LEFT_OUT = "…"
_TEXT = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`"
_UNCLOSED = r"['\"](?:[^\\]|\\.)*?(?= is not an? | where |$)"
_JSON = r"[{\[].*[}\]]|[{\[].*?(?= is not an? |$)"
_PARTS = re.compile(rf"UTF-8|{_TEXT}|(?<![\w'])(?:{_UNCLOSED})|{_JSON}|(?<!\w)[+-]?\d[\w.:+-]*", re.DOTALL)
_COUNTED = re.compile(r"\s*(?:bits?|bytes?|digits|elements|fields|columns?|letters)\b")
_PLACED = re.compile(r"(?:\b(?:byte|line|column|char|position|fit|than|has)|[<(,]) ?\Z")
_NAMED = re.compile(r"\bhas no (?:\w+ )?column \Z")  # an operator must know the unknown column; its name is no value
_SUBJECT = re.compile(r"(?P<before>\A|: )(?P<value>[^:]*?)(?= is not an? )")


def without_values(reason: str, schema: TableSchema) -> str:
    r"""Return a reason with `…` in place of possible values: texts that are no names of the schema, numbers, JSON.

    >>> from cdc_views.model.schema import Column, Role
    >>> from cdc_views.model.types import Kind, Scalar
    >>> orders = TableSchema("shop", "orders", (Column("id", Scalar(Kind.INT), Role.PARTITION),))
    >>> without_values("'id': \"ssn-123\" is not a int: an integer was expected", orders)
    "'id': … is not a int: an integer was expected"
    """
    names = frozenset(_names(schema))

    def part(found: re.Match[str]) -> str:
        text = found[0]
        if text == "UTF-8" or (text[0] in "'\"`" and text[1:-1] in names) or _NAMED.search(reason, 0, found.start()):
            return text
        is_count = _COUNTED.match(reason, found.end()) or _PLACED.search(reason, 0, found.start())
        return text if text[0].isdigit() and text.isdigit() and is_count else _LEFT_OUT

    def subject(found: re.Match[str]) -> str:
        return found["before"] + (found["value"] if found["value"][1:-1] in names else _LEFT_OUT)

    return _SUBJECT.sub(subject, _PARTS.sub(part, reason))


_WORDS = """
cassandra-mutation/1 format written position node keyspace table partition rows kind clustering liveness cells column value epoch
segment deleted_at expires_at ttl inclusive start end op key source order before after ts_ms payload schema topic offset
"""
_MEMBERS = frozenset(_WORDS.split())  # members of events, which are no values


def _names(schema: TableSchema) -> Iterator[str]:
    yield from (*_MEMBERS, schema.name, schema.full_name)
    for column in schema.columns:
        yield column.name
        yield from _fields(column.type)


def _fields(kind: LogicalType) -> Iterator[str]:
    if isinstance(kind, Udt):
        yield from (name for name, _ in kind.fields)
    for part in children(kind):
        yield from _fields(part)
