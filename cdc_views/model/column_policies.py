"""What becomes of single columns before anything of them is written, and of columns that a table's schema lacks."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property

from cdc_views.errors import SchemaError
from cdc_views.model.schema import Column, Role, TableSchema
from cdc_views.model.types import INTEGER_BITS, Kind, Scalar

EXTRA = "_extra"
"""The column that `extra_columns: json` adds: a JSON object of the columns that the schema lacks, null if there were none."""
MASK = "***"
SHORTEST_KEY = 16
_HASHED_KEYS = frozenset({Kind.TEXT, Kind.ASCII, Kind.BLOB, Kind.UUID, Kind.TIMEUUID, *INTEGER_BITS})
"""Kinds of which each value has one text, so that keys that differ have hashes that differ."""


class Policy(str, Enum):
    """What is stored of a column's values; null stays null."""

    HASH = "hash"
    """The HMAC-SHA-256 of the value's text, 64 hex digits."""
    MASK = "mask"
    """One text for every value."""
    LEAVE_OUT = "leave_out"
    """Nothing: views do not have the column."""


class ExtraColumns(str, Enum):
    """What becomes of an event with a column that the schema lacks."""

    QUARANTINE = "quarantine"
    """The event waits in quarantine until the schema has the column."""
    LEAVE_OUT = "leave_out"
    """The event lands without the column."""
    JSON = "json"
    """The event lands with the column in `EXTRA`."""


@dataclass(frozen=True, slots=True)
class ColumnPolicy:
    """The policy of one column; `key` is the secret of a hash, `text` the text of a mask."""

    policy: Policy
    key: bytes = field(default=b"", repr=False)
    text: str = MASK

    def applied(self, text: str) -> str:
        """Return what is stored in place of a value, by the value's text.

        >>> ColumnPolicy(Policy.HASH, b"k").applied("a")[:8], ColumnPolicy(Policy.MASK).applied("a")
        ('78da9151', '***')
        """
        if self.policy is Policy.MASK:
            return self.text
        return hmac.new(self.key, text.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()

    @property
    def shown(self) -> str:
        """What a view shows, for people."""
        shown = {Policy.HASH: "the HMAC-SHA-256 of the value", Policy.MASK: f"{self.text!r} for every value that is not null"}
        return shown.get(self.policy, "nothing: it is left out")


@dataclass(frozen=True)
class ColumnPolicies:
    """The policies of a table's columns, by name, and of columns that its schema lacks."""

    columns: Mapping[str, ColumnPolicy] = field(default_factory=dict)
    extra: ExtraColumns = ExtraColumns.QUARANTINE

    def __bool__(self) -> bool:
        return bool(self.columns) or self.extra is not ExtraColumns.QUARANTINE

    @property
    def has_secret(self) -> bool:
        """Whether a column is hashed; the secret stays in this process."""
        return any(one.policy is Policy.HASH for one in self.columns.values())

    @cached_property
    def fingerprint(self) -> str:
        """A text that changes with the policies and their secrets, which it does not tell."""
        marks = [(name, one.policy.value, one.text, one.applied("fingerprint")) for name, one in sorted(self.columns.items())]
        return hashlib.sha256(repr((self.extra.value, marks)).encode()).hexdigest() if self else ""

    def stored(self, schema: TableSchema) -> TableSchema:
        """Return the schema of what is stored: without columns that are left out, hashes and masks as text, with `EXTRA`.

        Raises `SchemaError` for a policy that a column cannot have.
        """
        for name, one in self.columns.items():
            if why := misfit(schema.column(name), one.policy):
                raise SchemaError(f"{schema.full_name}: column {name!r} {why}")
        columns = [self._stored(column) for column in schema.columns if not self.leaves_out(column.name)]
        if self.extra is ExtraColumns.JSON:
            if schema.has(EXTRA):
                raise SchemaError(f"{schema.full_name} has a column {EXTRA!r} of its own; `extra_columns: json` needs that name")
            columns.append(Column(EXTRA, Scalar(Kind.JSON), description="Columns that the schema lacks."))
        return replace(schema, columns=tuple(columns))

    def _stored(self, column: Column) -> Column:
        policy = self.columns.get(column.name)
        if policy is None:
            return column
        said = ". ".join(filter(None, (column.description.rstrip("."), f"Shows {policy.shown}.")))
        return replace(column, type=Scalar(Kind.TEXT), description=said)

    def leaves_out(self, name: str) -> bool:
        """Whether a column is left out."""
        return name in self.columns and self.columns[name].policy is Policy.LEAVE_OUT


def misfit(column: Column, policy: Policy) -> str:
    """Return why a column cannot have a policy; empty if it can.

    >>> misfit(Column("id", Scalar(Kind.INT), Role.PARTITION), Policy.MASK)
    'is part of the key: masked, different rows would become one; hash it'
    """
    if policy is Policy.LEAVE_OUT:
        return "is part of the key: without it, different rows would become one; hash it" if column.is_key else ""
    if column.is_key and policy is Policy.MASK:
        return "is part of the key: masked, different rows would become one; hash it"
    if column.role is Role.CLUSTERING:
        return "is a clustering column: a hash loses the order that range deletions need; leave the table out of the project"
    if column.is_key and not (isinstance(column.type, Scalar) and column.type.kind in _HASHED_KEYS):
        return (
            f"is a key of type {column.type}, of which one value has several texts; texts, blobs, UUIDs and integers are hashed"
        )
    if column.type.is_multicell:
        return f"is a collection of cells ({column.type}), which merge one by one; leave it out"
    return ""
