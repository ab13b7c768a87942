"""Integers, decimals and bytes in the encodings of Kafka Connect and Debezium."""

from __future__ import annotations

import base64
import decimal
import re
import struct
from decimal import Decimal
from typing import Any

from cdc_views.formats.connect.hints import Binary, Decimals, Hints
from cdc_views.formats.connect.times import whole_number
from cdc_views.model.types import INTEGER_BITS, Kind, LogicalType
from cdc_views.rules.codec.wholes import digits_of, whole_of

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
    """Return an integer that fits its kind; a boolean counts as 0 or 1, a text of digits as its number."""
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
    """Return a decimal from any of Debezium's `decimal.handling.mode`s.

    A text is base64 (mode `precise`) when the envelope says bytes, or when a scale is known and it can be base64 and
    no number of that scale; else a number (mode `string`). A whole number whose text can be both is refused, unless
    the mode is known. A JSON number (mode `double`) is taken digit by digit and given the known scale.
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
        return number  # a double that is no such decimal: keep what was sent


def _unscaled(text: Any, *, scale: int) -> Decimal:
    data = _base64(text)
    if not data:
        raise ValueError("the unscaled value has no bytes")
    number = int.from_bytes(data, "big", signed=True)
    return Decimal((int(number < 0), tuple(map(int, digits_of(abs(number)))), -scale))


def float_value(kind: Kind, value: Any) -> float:
    """Return a float, rounded to 32 bits for `float`; `NaN` and the infinities come as text."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
        raise ValueError("a number was expected")
    if isinstance(value, str) and value not in ("NaN", "Infinity", "-Infinity") and not _DECIMAL.fullmatch(value):
        raise ValueError("a number was expected")
    number = float(value)
    return float(struct.unpack(">f", struct.pack(">f", number))[0]) if kind is Kind.FLOAT else number


def blob_value(value: Any, hints: Hints) -> bytes:
    """Return bytes from base64, base64-url or hex, or the well-known binary of a geometry.

    What an envelope declares as `bytes` is base64. Otherwise, unless the caller named the mode, a text of pairs of
    lower-case hex digits is hex. Base64 can look like that: 1 of 256 values of 3 bytes does, 1 of 65,536 of 6.
    """
    if isinstance(value, dict) and "wkb" in value:
        return _base64(value["wkb"])
    if not isinstance(value, str):
        raise ValueError("a string was expected")
    if value.startswith("0x"):
        return bytes.fromhex(value[2:])
    if hints.declared is not None and hints.declared.type == "bytes":
        return _base64(value)
    is_hex = hints.binary is Binary.HEX or (hints.binary is None and _HEX.fullmatch(value))
    return bytes.fromhex(value) if is_hex else _base64(value)


def _base64(text: Any) -> bytes:
    if not isinstance(text, str):
        raise ValueError("base64 text was expected")
    return base64.b64decode(text, altchars=b"-_", validate=True)
