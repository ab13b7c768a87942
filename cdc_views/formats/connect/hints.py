"""What is known of a column's values beside its logical type, and Debezium's mark for a value it did not send."""

from __future__ import annotations

import base64
import hashlib
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from cdc_views.formats.connect.record import ConnectType
from cdc_views.model.types import Kind, LogicalType


class Unit(str, Enum):
    """What the numbers of a time or date-time count."""

    MILLIS = "millis"
    MICROS = "micros"
    NANOS = "nanos"

    @property
    def nanos(self) -> int:
        """How many nanoseconds one is."""
        return {Unit.MILLIS: 1_000_000, Unit.MICROS: 1000, Unit.NANOS: 1}[self]


class Decimals(str, Enum):
    """Debezium's `decimal.handling.mode`."""

    PRECISE = "precise"
    """Base64 of the unscaled value. Without a fixed scale: an object that also has the scale."""
    STRING = "string"
    DOUBLE = "double"


class Binary(str, Enum):
    """Debezium's `binary.handling.mode`."""

    BASE64 = "base64"
    """Modes `bytes` and `base64`."""
    BASE64_URL = "base64-url-safe"
    HEX = "hex"


@dataclass(frozen=True, slots=True)
class Hints:
    """How the values of one column are encoded, as far as anybody said so.

    `declared` is the Connect schema beside the event, which decides where it is there; `scale`, `unit`, `decimals` and
    `binary` come from the caller, a scale else from the table's schema. `default_units` are what numbers of times count
    when nothing says so; without one, magnitude decides. `wraps_unsigned`: a negative varint is an unsigned 64-bit integer
    that wrapped. `numbers_show_scale`: the text of a decimal with digits after the point always has the point.
    """

    declared: ConnectType | None = None
    scale: int | None = None
    unit: Unit | None = None
    binary: Binary | None = None
    decimals: Decimals | None = None
    default_units: Mapping[Kind, Unit] = field(default_factory=dict)
    wraps_unsigned: bool = False
    numbers_show_scale: bool = False

    @property
    def semantic(self) -> str:
        """The declared semantic type's last name (`MicroTimestamp`), or `""`."""
        return self.declared.semantic.rpartition(".")[2] if self.declared else ""

    @property
    def are_unscaled(self) -> bool:
        """Whether texts of decimals are known to be base64 of the number without its point."""
        return self.decimals is Decimals.PRECISE if self.declared is None else self.declared.type == "bytes"

    def inside(self, part: str) -> Hints:
        """The hints of a list's `items`, or of a map's `keys` or `values`."""
        return replace(self, declared=self.declared.part(part) if self.declared else None)

    def of_field(self, name: str) -> Hints:
        """The hints of a struct's member."""
        return replace(self, declared=self.declared.field(name) if self.declared else None)

    def undeclared(self) -> Hints:
        """The same without an envelope's schema."""
        return replace(self, declared=None)

    def scale_of(self, kind: LogicalType) -> int | None:
        """The scale of a decimal: the envelope's, else the caller's, else the type's own where types carry one."""
        declared = self.declared.scale if self.declared else None
        if declared is not None:
            return declared
        return self.scale if self.scale is not None else getattr(kind, "scale", None)


_MARK = b"__debezium_unavailable_value"


MARKS = frozenset(
    {
        _MARK.decode(),
        base64.b64encode(_MARK).decode(),
        base64.urlsafe_b64encode(_MARK).decode(),
        _MARK.hex(),
        f"0x{_MARK.hex()}",
        # Java's `UUID.nameUUIDFromBytes`: MD5 without a namespace
        str(uuid.UUID(bytes=hashlib.md5(_MARK, usedforsecurity=False).digest(), version=3)),
        f'{{"{_MARK.decode()}":"{_MARK.decode()}"}}',
    }
)
"""The texts that say that a value was not sent."""


def is_unavailable(value: Any) -> bool:
    """Whether a value is Debezium's `__debezium_unavailable_value`: not sent, so absent and not null (rule S4).

    It takes the column's shape: text, base64 or hex, an array of one such, an array of its bytes as integers, an
    array of one UUID made of it, a map of itself to itself.

    Source: Debezium 3.6, `connector.postgresql.UnchangedToastedPlaceholder`, read as a description.
    """
    if isinstance(value, str):
        return value in MARKS
    if isinstance(value, list):
        return value == list(_MARK) or (len(value) == 1 and isinstance(value[0], str) and value[0] in MARKS)
    return isinstance(value, dict) and value == {_MARK.decode(): _MARK.decode()}
