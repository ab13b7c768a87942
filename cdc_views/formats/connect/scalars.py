"""Scalars in the encodings of Kafka Connect and Debezium: integers, decimals, bytes, dates, times and durations.

A time's number does not show its unit. If neither the envelope nor the caller states it, magnitude decides (`_instant_unit`,
`_time_unit`); the fidelity report names the errors that this can cause.
"""

from __future__ import annotations

import base64
import decimal
import re
import struct
from decimal import Decimal
from typing import Any

from cdc_views.formats.connect.hints import Binary, Decimals, Hints, Unit
from cdc_views.model.types import INTEGER_BITS, Kind, LogicalType
from cdc_views.rules.codec.times import NANOS_A_SECOND, PG_INFINITY, parse_date, parse_duration, parse_micros, parse_time
from cdc_views.rules.codec.wholes import digits_of, whole_of, whole_of_decimal

_EXACT = decimal.Context(prec=2000, traps=[decimal.InvalidOperation, decimal.Inexact])
_INTEGER = re.compile(r"-?\d+", re.ASCII)
_DECIMAL = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,9})?", re.ASCII)
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}", re.ASCII)
_HEX = re.compile(r"(?:[0-9a-f]{2})+")
_NO_SCALE = (
    "is the base64 of an unscaled decimal and nothing says its scale: enable schemas, set "
    "decimal.handling.mode=string, or declare the column's scale"
)
_BOTH = (
    "is a number, and also the base64 of another one; say which: enable schemas, or in the project file "
    "`raw: {options: {decimals: precise}}` (or string), as the connector's decimal.handling.mode is"
)


def integer_value(kind: Kind, value: Any, hints: Hints) -> int:
    """Return an integer that fits its kind; a boolean counts as 0 or 1, a text of digits as a number."""
    number = _integer(value, hints)
    if kind is Kind.VARINT:
        wraps = hints.wraps_unsigned and -(1 << 63) <= number < 0
        return number + (1 << 64) if wraps else number
    bits = INTEGER_BITS[kind]
    if not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
        raise ValueError(f"it does not fit {bits} bits")
    return number


def _integer(value: Any, hints: Hints) -> int:
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int | float | Decimal):
        return whole_number(value)
    if isinstance(value, str) and hints.semantic == "Bits":
        return int.from_bytes(_base64(value), "little")
    if isinstance(value, str) and hints.semantic == "Decimal" and hints.declared and hints.declared.type == "bytes":
        return whole_number(_unscaled(value, scale=hints.declared.scale or 0))
    if isinstance(value, str) and _INTEGER.fullmatch(value):
        return whole_of(value)
    raise ValueError("an integer was expected")


def decimal_value(kind: LogicalType, value: Any, hints: Hints) -> Decimal:
    """Return a decimal, written in any of Debezium's `decimal.handling.mode`s.

    A text is base64 (mode `precise`) if the envelope declares bytes, or if a scale is known and the text can be base64 but is no
    number of that scale; else it is a number (mode `string`). A whole number whose text can be both is refused, unless the mode
    is known. A JSON number (mode `double`) keeps its digits and gets the known scale.
    """
    scale = hints.scale_of(kind)
    if isinstance(value, dict):
        return _unscaled(value["value"], scale=whole_number(value["scale"]))
    if isinstance(value, str):
        return _decimal_text(value, hints, scale)
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise ValueError("a number was expected")
    return _with_scale(Decimal(value), scale)


def _decimal_text(text: str, hints: Hints, scale: int | None) -> Decimal:
    if scale is not None and _is_base64(text, hints, scale):
        return _unscaled(text, scale=scale)
    if _DECIMAL.fullmatch(text):
        return Decimal(text)
    if text in ("NaN", "Infinity", "-Infinity"):
        raise ValueError("a decimal has no NaN or infinity")
    raise ValueError(_NO_SCALE if scale is None else "a number, or the base64 of one, was expected")


def _is_base64(text: str, hints: Hints, scale: int) -> bool:
    if hints.declared is not None:
        return hints.declared.type == "bytes"
    if hints.decimals is not None:
        return hints.decimals is Decimals.PRECISE
    if len(text) % 4 or not _BASE64.fullmatch(text):
        return False
    is_number = _DECIMAL.fullmatch(text) is not None
    if is_number and hints.scale is None and not (scale > 0 and hints.numbers_show_scale):
        raise ValueError(_BOTH)
    return True


def _with_scale(number: Decimal, scale: int | None) -> Decimal:
    if scale is None:
        return number
    try:
        return number.quantize(Decimal((0, (1,), -scale)), context=_EXACT)
    except decimal.DecimalException:
        return number  # a double that does not fit the scale: keep it as it was sent


def _unscaled(text: Any, *, scale: int) -> Decimal:
    data = _base64(text)
    if not data:
        raise ValueError("the unscaled value has no bytes")
    number = int.from_bytes(data, "big", signed=True)
    return Decimal((int(number < 0), tuple(map(int, digits_of(abs(number)))), -scale))


def float_value(kind: Kind, value: Any) -> float:
    """Return a float, rounded to 32 bits for `float`; `NaN` and the infinities are texts."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
        raise ValueError("a number was expected")
    if isinstance(value, str) and value not in ("NaN", "Infinity", "-Infinity") and not _DECIMAL.fullmatch(value):
        raise ValueError("a number was expected")
    number = float(value)
    return float(struct.unpack(">f", struct.pack(">f", number))[0]) if kind is Kind.FLOAT else number


def blob_value(value: Any, hints: Hints) -> bytes:
    """Return bytes from base64, base64-url or hex, or the well-known binary of a geometry.

    Bytes that an envelope declares are base64. Otherwise, unless the caller states the mode, a text of pairs of lower-case hex
    digits is hex, and so is one that begins with `0x`. Base64 can look like hex: 1 of 256 values of 3 bytes does, 1 of 65,536 of
    6 bytes; and it begins with `0x` for 1 of 4,096.
    """
    if isinstance(value, dict) and "wkb" in value:
        return _base64(value["wkb"])
    if not isinstance(value, str):
        raise ValueError("a string was expected")
    is_declared = hints.declared is not None and hints.declared.type == "bytes"
    if is_declared or hints.binary in (Binary.BASE64, Binary.BASE64_URL):
        return _base64(value)
    if value.startswith("0x"):
        return bytes.fromhex(value[2:])
    return bytes.fromhex(value) if hints.binary is Binary.HEX or _HEX.fullmatch(value) else _base64(value)


def _base64(text: Any) -> bytes:
    if not isinstance(text, str):
        raise ValueError("base64 text was expected")
    return base64.b64decode(text, altchars=b"-_", validate=True)


_UNITS = {  # by the last name of the semantic type; `io.debezium.time.*` and `org.apache.kafka.connect.data.*` agree
    "Time": Unit.MILLIS,
    "Timestamp": Unit.MILLIS,
    "MicroTime": Unit.MICROS,
    "MicroTimestamp": Unit.MICROS,
    "MicroDuration": Unit.MICROS,
    "NanoTime": Unit.NANOS,
    "NanoTimestamp": Unit.NANOS,
    "NanoDuration": Unit.NANOS,
}
_MAX_LONG = (1 << 63) - 1
_INFINITIES = {  # µs that mean PostgreSQL's `infinity` and `-infinity`. Source: Debezium 3.6 events; pgjdbc, `PGStatement`
    **dict.fromkeys((PG_INFINITY, _MAX_LONG), PG_INFINITY),
    **dict.fromkeys((-PG_INFINITY, -9_223_372_036_832_400_000, -_MAX_LONG, -_MAX_LONG - 1), -PG_INFINITY),
}
INFINITIES_IN_MILLIS = {(abs(micros) // 1000) * (1 if micros > 0 else -1): named for micros, named in _INFINITIES.items()}

LEAST_MICROS = 10**14
LAST_DAY_IN_MILLIS = range(253_402_214_400_000, 253_402_300_800_000)
A_DAY_IN_MILLIS = 86_400_000
LONGEST_TIME_IN_MICROS = 3_020_399_999_999  # MySQL's TIME ends at 838:59:59.999999


def instant_micros(kind: Kind, value: Any, hints: Hints) -> int:
    """Return µs since the epoch, from a number or an ISO text; ±`PG_INFINITY` for PostgreSQL's infinities."""
    if isinstance(value, str) and not _is_number(value):
        micros = parse_micros(value.replace(" UTC", "Z"))
        return _INFINITIES.get(micros, micros)
    if isinstance(value, str) and not value.lstrip("-").isdecimal():
        return int(Decimal(value) * 1_000_000)  # BigQuery's API writes a TIMESTAMP as seconds with a fraction
    number = _whole(value)
    unit = stated_unit(kind, hints) or _instant_unit(number)
    if unit is Unit.MILLIS:
        return INFINITIES_IN_MILLIS.get(number, number * 1000)
    return _INFINITIES.get(number, number * unit.nanos // 1000)


def stated_unit(kind: Kind, hints: Hints) -> Unit | None:
    """Return the unit of a kind's numbers; None if nobody states it."""
    # the envelope first: it describes this very value
    return _UNITS.get(hints.semantic) or hints.unit or hints.default_units.get(kind)


def _instant_unit(number: int) -> Unit:
    """Return milliseconds below 10^14, else microseconds.

    10^14 is March 1973 in µs and the year 5138 in ms. So µs of 1966-11-01 to 1973-03-03 except 0 are misread, and ms after 5138.
    The last day of 9999, the usual "never", is still read as ms (at the cost of 86 s in µs on 1978-01-11).
    """
    is_millis = abs(number) < LEAST_MICROS or number in LAST_DAY_IN_MILLIS or number in INFINITIES_IN_MILLIS
    return Unit.MILLIS if is_millis else Unit.MICROS


def time_nanos(value: Any, hints: Hints) -> int:
    """Return nanoseconds of the day, from a number or a text (`Z` is dropped: zoned times are in UTC)."""
    if isinstance(value, str) and not _is_number(value):
        return parse_time(value.removesuffix("Z"))
    number = _whole(value)
    unit = stated_unit(Kind.TIME, hints) or _time_unit(number)
    return number * unit.nanos


def _time_unit(number: int) -> Unit:
    """Return milliseconds up to a day of them, nanoseconds above MySQL's longest time in µs, else microseconds.

    Misreads µs of the first 86.4 s of a day except 0, and ns of its first 51 minutes.
    """
    if abs(number) <= A_DAY_IN_MILLIS:
        return Unit.MILLIS
    return Unit.MICROS if abs(number) <= LONGEST_TIME_IN_MICROS else Unit.NANOS


def date_days(value: Any) -> int:
    """Return days since the epoch, from a number of days or an ISO text."""
    if isinstance(value, str) and not _is_number(value):
        return parse_date(value.removesuffix("Z"))
    return _whole(value)


_ISO_DURATION = re.compile(
    r"P(?:(-?\d+)Y)?(?:(-?\d+)M)?(?:(-?\d+)W)?(?:(-?\d+)D)?(?:T(?:(-?\d+)H)?(?:(-?\d+)M)?(?:(-?\d+(?:\.\d{1,9})?)S)?)?", re.ASCII
)


def duration_parts(value: Any, hints: Hints) -> tuple[int, int, int]:
    """Return (months, days, nanoseconds) of an ISO 8601 or CQL text, or of a number, which has no months or days."""
    if not isinstance(value, str):
        unit = stated_unit(Kind.DURATION, hints) or Unit.MICROS
        return 0, 0, _whole(value) * unit.nanos
    found = _ISO_DURATION.fullmatch(value)
    if found is None or value.endswith(("P", "T")):
        return parse_duration(value)
    years, months, weeks, days, hours, minutes = (int(part or 0) for part in found.groups()[:6])
    nanos = int(Decimal(found[7] or 0) * NANOS_A_SECOND)
    return years * 12 + months, weeks * 7 + days, (hours * 60 + minutes) * 60 * NANOS_A_SECOND + nanos


_NUMBER = re.compile(r"-?\d{1,40}(\.\d{1,20})?([eE][+-]?\d{1,2})?", re.ASCII)


def _is_number(text: str) -> bool:
    return _NUMBER.fullmatch(text) is not None


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | str | Decimal | float):
        raise ValueError("a whole number was expected")
    return whole_number(Decimal(value) if isinstance(value, str) else value)


def whole_number(value: float | Decimal) -> int:
    """Return a number without a fraction as int; raises ValueError, also if an exponent makes it huge."""
    if isinstance(value, Decimal):
        return whole_of_decimal(value)
    number = int(value)
    if number != value:
        raise ValueError("a whole number was expected")
    return number
