"""What only the configuration of a Debezium connector says; events with Connect schemas need none of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Annotated

from pydantic import Field

from cdc_views.formats.base import FormatOptions
from cdc_views.formats.connect.hints import Binary, Decimals
from cdc_views.model.config_part import Name


class TimeUnit(str, Enum):
    """What the numbers of a time or date-time count."""

    MILLIS = "millis"
    MICROS = "micros"
    NANOS = "nanos"


class DebeziumOptions(FormatOptions):
    """What only the configuration of a Debezium connector says; not needed for events with schemas."""

    scales: dict[Name, Annotated[int, Field(strict=True)]] = Field(
        default_factory=dict, description="Column and its digits after the point, where the schema file has them not."
    )
    units: dict[Name, TimeUnit] = Field(default_factory=dict, description="Column and what its numbers of time count.")
    binary: Binary | None = Field(default=None, description="How bytes are written: binary.handling.mode.")
    decimals: Decimals | None = Field(default=None, description="How decimals are written: decimal.handling.mode.")

    def columns(self) -> Mapping[str, Iterable[str]]:
        return {"scales": self.scales, "units": self.units}
