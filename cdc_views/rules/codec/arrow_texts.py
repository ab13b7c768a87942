"""Values of an engine's own types, as Arrow has them → JSON texts. Where a type is one of a view, texts are those of `query`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from cdc_views.errors import UnsupportedError
from cdc_views.model.types import Kind, Scalar
from cdc_views.rules.codec.jsontext import quote, to_json, to_shown
from cdc_views.rules.codec.times import date_text, datetime_text, duration_text, time_text, timestamp_text

_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_LAST = (1 << 63) - 1
"""DuckDB's number of an infinite time."""
_Text = Callable[[Any], str]


@dataclass(frozen=True, slots=True)
class ArrowTexts:
    """How values become texts. `is_json`: NaN and the infinities are null, for JSON lacks them; else they stand by name.

    `has_millis`: an instant of whole milliseconds has three digits after the point, as a timestamp of Cassandra.
    """

    is_json: bool
    has_millis: bool

    def of(self, array: pa.Array) -> list[str]:
        """Return the text of each value; raises `UnsupportedError` for a type without an exact text."""
        kind = array.type
        if pa.types.is_dictionary(kind):
            return self.of(array.dictionary_decode())
        if pa.types.is_fixed_size_list(kind) or pa.types.is_list_view(kind) or pa.types.is_large_list(kind):
            return self.of(array.cast(pa.list_(kind.value_type)))
        if pa.types.is_list(kind):
            return self._lists(array, self.of(array.values), "[", "]")
        if pa.types.is_map(kind):
            keys = (text if text.startswith('"') else quote(text) for text in self.of(array.keys))
            pairs = [f"{key}: {item}" for key, item in zip(keys, self.of(array.items), strict=True)]
            return self._lists(array, pairs, "{", "}")
        if pa.types.is_struct(kind):
            names = [quote(kind.field(i).name) for i in range(kind.num_fields)]
            rows = zip(*map(self.of, array.flatten()), strict=True)
            rows_or_none = zip(rows, array.is_valid().to_pylist(), strict=True)
            return [_object(names, row) if is_there else "null" for row, is_there in rows_or_none]
        text = self._scalar(kind)
        return ["null" if value is None else text(value) for value in _plain(array).to_pylist()]

    def _lists(self, array: pa.Array, items: list[str], left: str, right: str) -> list[str]:
        places = array.offsets.to_pylist()
        ranges = zip(places, places[1:], array.is_valid().to_pylist(), strict=False)
        return [f"{left}{', '.join(items[a:b])}{right}" if is_there else "null" for a, b, is_there in ranges]

    def _scalar(self, kind: pa.DataType) -> _Text:
        if pa.types.is_temporal(kind):
            return self._time(kind)
        if pa.types.is_floating(kind):
            printed, scalar = to_json if self.is_json else to_shown, Scalar(Kind.FLOAT if kind == pa.float32() else Kind.DOUBLE)
            return lambda value: printed(scalar, value)
        if pa.types.is_integer(kind) or pa.types.is_decimal(kind):
            return str
        if pa.types.is_boolean(kind):
            return lambda value: "true" if value else "false"
        if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
            return quote
        if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
            return lambda value: f'"0x{value.hex()}"'
        if pa.types.is_null(kind):
            return str
        raise UnsupportedError(f"values of {kind} have no text here", remedy="cast the column in the SQL, as CAST(… AS VARCHAR)")

    def _time(self, kind: pa.DataType) -> _Text:
        if pa.types.is_date(kind):
            return lambda days: f'"{date_text(days)}"'
        if kind == pa.month_day_nano_interval():
            return lambda value: f'"{_span(*value)}"'
        size = _PER_SECOND[kind.unit]
        if pa.types.is_time(kind):
            return lambda ticks: f'"{time_text(ticks * (1_000_000_000 // size))}"'
        if pa.types.is_duration(kind):
            return lambda ticks: f'"{_span(0, 0, ticks * (1_000_000_000 // size))}"'
        return lambda ticks: f'"{_instant(ticks, size, zone="Z" if kind.tz else "", has_millis=self.has_millis)}"'


def _object(names: list[str], row: tuple[str, ...]) -> str:
    return "{" + ", ".join(f"{name}: {text}" for name, text in zip(names, row, strict=True)) + "}"


def _span(months: int, days: int, nanos: int) -> str:
    parts = (months, days, nanos)
    if min(parts) >= 0 or max(parts) <= 0:
        return duration_text(parts) or "0s"
    # a duration of Cassandra has one sign
    return " ".join(filter(None, map(duration_text, ((months, 0, 0), (0, days, 0), (0, 0, nanos)))))


def _instant(ticks: int, size: int, *, zone: str, has_millis: bool) -> str:
    if abs(ticks) == _LAST:
        return "infinity" if ticks > 0 else "-infinity"
    nanos = ticks * (1_000_000_000 // size)
    micros, rest = divmod(nanos, 1000)
    if rest:
        fraction = f".{nanos % 1_000_000_000:09d}"
        return datetime_text(micros - micros % 1_000_000) + fraction + zone
    if zone and has_millis and micros % 1000 == 0:
        return timestamp_text(micros // 1000)
    return datetime_text(micros) + zone


def _plain(array: pa.Array) -> pa.Array:
    """Times as whole numbers: Python's own end at the year 9999."""
    kind = array.type
    if not pa.types.is_temporal(kind) or kind == pa.month_day_nano_interval():
        return array
    number = pa.int32() if kind.bit_width == 32 else pa.int64()
    if pa.types.is_date64(kind):
        return array.cast(pa.date32()).cast(pa.int32())
    return array.view(number)
