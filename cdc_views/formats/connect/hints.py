"""What is known about a column's values besides their logical type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from cdc_views.formats.connect.record import ConnectType
from cdc_views.model.types import Kind, LogicalType


class Unit(str, Enum):
    """The unit of the numbers of a time or date-time."""

    MILLIS = "millis"
    MICROS = "micros"
    NANOS = "nanos"

    @property
    def nanos(self) -> int:
        """Nanoseconds per unit."""
        return {Unit.MILLIS: 1_000_000, Unit.MICROS: 1000, Unit.NANOS: 1}[self]


class Decimals(str, Enum):
    """Debezium's `decimal.handling.mode`."""

    PRECISE = "precise"  # base64 of the unscaled value; without a fixed scale, an object that also holds the scale
    STRING = "string"
    DOUBLE = "double"


class Binary(str, Enum):
    """Debezium's `binary.handling.mode`."""

    BASE64 = "base64"  # modes `bytes` and `base64`
    BASE64_URL = "base64-url-safe"
    HEX = "hex"


@dataclass(frozen=True, slots=True)
class Hints:
    """What is known about the encoding of one column's values.

    `declared` is the Connect schema beside the event and takes precedence. `scale` (else that of the table's schema), `unit`,
    `decimals` and `binary` come from the caller. `default_units` apply to times without a stated unit; else magnitude decides.
    `wraps_unsigned`: a negative varint is an unsigned 64-bit integer that wrapped. `numbers_show_scale`: the text of a decimal
    that has digits after the point always shows the point.
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
        """The last name of the declared semantic type (`MicroTimestamp`), or `""`."""
        return self.declared.semantic.rpartition(".")[2] if self.declared else ""

    @property
    def are_unscaled(self) -> bool:
        """Whether texts of decimals are known to be base64 of the unscaled number."""
        return self.decimals is Decimals.PRECISE if self.declared is None else self.declared.type == "bytes"

    def inside(self, part: str) -> Hints:
        """Return the hints of a list's `items`, or of a map's `keys` or `values`."""
        return replace(self, declared=self.declared.part(part) if self.declared else None)

    def of_field(self, name: str) -> Hints:
        """Return the hints of a struct's member."""
        return replace(self, declared=self.declared.field(name) if self.declared else None)

    def undeclared(self) -> Hints:
        """Return the same hints without an envelope's schema."""
        return replace(self, declared=None)

    def scale_of(self, kind: LogicalType) -> int | None:
        """Return the scale of a decimal: the envelope's, else the caller's, else that of the type if it has one."""
        declared = self.declared.scale if self.declared else None
        if declared is not None:
            return declared
        return self.scale if self.scale is not None else getattr(kind, "scale", None)
