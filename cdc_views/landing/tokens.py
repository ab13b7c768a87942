"""Converts a column's values to their stored form, all at once if that is provably exact, else by the decoder, one by one."""

from __future__ import annotations

import base64
import struct
import sys
from array import array
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from cdc_views.formats.connect.hints import Unit
from cdc_views.formats.connect.scalars import stated_unit
from cdc_views.formats.connect.values import native
from cdc_views.formats.forms import ColumnSlot, Look, Slot, Values
from cdc_views.formats.unavailable import MARKS, is_unavailable
from cdc_views.model.types import Kind, carries_order_bytes
from cdc_views.rules.cells import RANK_FLOOR
from cdc_views.rules.codec.jsonread import parse_json
from cdc_views.rules.codec.physical import arrow_type, to_physical

_EMPTY, _FILLED = RANK_FLOOR, RANK_FLOOR + 1  # ranks of live cells: of 0 bytes, of more
Convert = Callable[[ColumnSlot, Values], "Stored"]
_FAILURES = (pa.ArrowException, ValueError, OverflowError, ArithmeticError)


class UnfitError(Exception):
    """The events at `indexes` must be read one by one."""

    def __init__(self, indexes: Sequence[int]) -> None:
        super().__init__(f"{len(indexes)} events")
        self.indexes = frozenset(indexes)


@dataclass(frozen=True, slots=True)
class Stored:
    """The stored form of a column's values; null stays null.

    `bytes` are serialized values if cells keep them, empty for null. `ranks` are the ranks of live cells, or one for all.
    `absent` marks values that the source did not send (rule S4); None: it sent all. `natives` exist only after reading values
    one by one.
    """

    values: pa.Array
    bytes: pa.Array | None = None
    ranks: pa.Array | int = _FILLED
    absent: pa.Array | None = None
    natives: Sequence[Any] | None = None


def numbers_of(slot: Slot, values: Values) -> pa.Array:
    """Return the whole numbers of a slot; raises `UnfitError` for other values."""
    allowed = slot.value.allowed or range(1 << 64)
    with suppress(*_FAILURES):
        is_token = slot.value.look is Look.TOKEN
        numbers = pa.array(values, pa.string()).cast(pa.uint64()) if is_token else pa.array(values, pa.uint64())
        least, most = pc.min_max(numbers).as_py().values()
        if least is not None and least in allowed and most in allowed and not numbers.null_count:
            return numbers
    raise UnfitError([i for i, value in enumerate(values) if not (_is_number(value) and int(value) in allowed)])


def _is_number(value: Any) -> bool:
    return value.isdigit() if isinstance(value, bytes) else isinstance(value, int)


def stored(column: ColumnSlot, values: Values) -> Stored:
    """Return the stored form of a column's values; raises `UnfitError`."""
    convert = _CONVERSIONS.get((column.kind, column.slot.value.look)) if column.kind else None
    if convert is None:
        return one_by_one(column, values)
    try:
        return convert(column, values)
    except _FAILURES:
        return one_by_one(column, values)


def one_by_one(column: ColumnSlot, values: Values) -> Stored:
    """Convert like `stored`, but values one by one, with the decoder; set `natives`."""
    kind, is_key = column.column.type, column.column.is_key
    known: dict[Any, tuple[Any, bytes] | None] = {} if is_key else {None: (None, b"")}
    for value in set(values) - {None}:
        # the decoder of single events reports what is wrong
        with suppress(Exception):
            known[value] = _read(column, value)
    if not known.keys() >= set(values):
        raise UnfitError([index for index, value in enumerate(values) if value not in known])
    read = [known[value] for value in values]
    natives = [None if found is None else found[0] for found in read]
    serialized = [b"" if found is None else found[1] for found in read]
    try:
        physical = pa.array([to_physical(kind, found) for found in natives], arrow_type(kind))
    except _FAILURES as error:
        raise UnfitError(range(len(values))) from error
    keeps_bytes = carries_order_bytes(kind) and not is_key
    ranks = pa.array([_FILLED if data else _EMPTY for data in serialized], pa.int64())
    absent = pa.array([found is None for found in read]) if None in read else None
    return Stored(physical, pa.array(serialized, pa.binary()) if keeps_bytes else None, ranks, absent, natives)


_DEEPEST = 100  # the most arrays and objects in a value: the reader's stack can hold these at any depth


def _read(column: ColumnSlot, value: Any) -> tuple[Any, bytes] | None:
    """Return the native value and its serialized bytes; None for a value that was not sent."""
    if column.slot.value.look is Look.TOKEN:
        if value.count(b"[") + value.count(b"{") > _DEEPEST:
            raise ValueError
        value = parse_json(value.decode())
    if not column.column.is_key and is_unavailable(value):
        return None
    return native(column.column.type, value, column.hints)


_MARKS = pa.array(sorted(MARKS), pa.string())


def _sent(column: ColumnSlot, texts: pa.Array, found: Stored) -> Stored:
    """Mark the texts that mean that a value was not sent."""
    if column.column.is_key:
        return found
    absent = pc.is_in(texts, value_set=_MARKS)
    return replace(found, absent=absent) if pc.any(absent).as_py() else found


def _text(column: ColumnSlot, values: Values) -> Stored:
    if column.hints.semantic in ("Decimal", "VariableScaleDecimal"):
        raise ValueError
    texts = pa.array(values, pa.string())
    lengths = pc.binary_length(texts)
    ranks = pc.if_else(pc.equal(lengths, 0), _EMPTY, _FILLED) if pc.min(lengths).as_py() == 0 else _FILLED
    return _sent(column, texts, Stored(texts, ranks=ranks))


def _given(column: ColumnSlot, values: Values) -> Stored:
    return Stored(pa.array(values, arrow_type(column.column.type)))


def _like(values: Values, pattern: str) -> pa.Array:
    """Return values as texts; raises ValueError if one does not match the pattern."""
    texts = pa.array(values, pa.string())
    if not pc.all(pc.match_substring_regex(texts, f"^(?:{pattern})$")).as_py():
        raise ValueError
    return texts


_DAY = "[1-9][0-9]{3}-[0-9]{2}-[0-9]{2}"
_CLOCK = r"[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?"
_UTC = "Z|[+]00|[+]00:00"


def _uuid(column: ColumnSlot, values: Values) -> Stored:
    texts = _like(values, "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
    return _sent(column, texts, Stored(texts))


def _day(column: ColumnSlot, values: Values) -> Stored:
    days = pc.utf8_rtrim(_like(values, f"{_DAY}Z?"), "Z")
    return Stored(days.cast(pa.date32()).cast(pa.int32()))


def _instant(column: ColumnSlot, values: Values) -> Stored:
    texts = _like(values, f"{_DAY}[ T]{_CLOCK}(?:{_UTC})?")
    return Stored(pc.replace_substring_regex(texts, f"(?:{_UTC})$", "").cast(pa.timestamp("us")).cast(pa.int64()))


_MICROS_FROM = 253_402_300_800_000  # a larger number of an instant without a unit is in µs (see `connect.scalars`)
_MOST = {Unit.MILLIS: 10**14, Unit.MICROS: 9 * 10**15}  # larger numbers may have a special meaning, e.g. infinity


def _counted(column: ColumnSlot, values: Values) -> Stored:
    numbers = pa.array(values, pa.int64())
    least, most = pc.min_max(numbers).as_py().values()
    if least is None:
        return Stored(numbers)
    unit = stated_unit(column.kind or Kind.INSTANT, column.hints) or (Unit.MICROS if least >= _MICROS_FROM else None)
    if unit is None or max(-least, most) >= _MOST.get(unit, 0):
        raise ValueError
    return Stored(pc.multiply(numbers, 1000) if unit is Unit.MILLIS else numbers)


def _floating(column: ColumnSlot, tokens: Values) -> Stored:
    values = pa.array(tokens, pa.string()).cast(pa.float64()).cast(arrow_type(column.column.type), safe=False)
    if not pc.all(pc.is_finite(values)).as_py():
        raise OverflowError
    if column.column.is_key:
        return one_by_one(column, tokens)
    serialized = _big_endian(words(values, "f" if column.kind is Kind.FLOAT else "d"))
    return Stored(values, pc.if_else(values.is_valid(), serialized, b"") if values.null_count else serialized)


def words(values: pa.Array, code: str) -> array[Any]:
    """Return the words of an array in memory, with arbitrary words for null; `code` is their type in `array`."""
    found = array(code)
    width = values.type.bit_width // 8
    found.frombytes(memoryview(values.buffers()[1])[values.offset * width : (values.offset + len(values)) * width])
    return found


def _big_endian(numbers: array[Any]) -> pa.Array:
    swapped = numbers[:]
    if sys.byteorder == "little":
        swapped.byteswap()
    kind = pa.binary(numbers.itemsize)
    return pa.Array.from_buffers(kind, len(numbers), [None, pa.py_buffer(swapped.tobytes())]).cast(pa.binary())


_MOST_PLACES = 6  # up to so many digits after the point, a decimal's text has no exponent
_DECIMAL = r"-?(?:0|[1-9][0-9]{0,99})(?:\.[0-9]{1,6})?"
_BASE64 = "[A-Za-z0-9+/]+={0,2}"


def _decimals(column: ColumnSlot, values: Values) -> Stored:
    scale = column.hints.scale_of(column.column.type)
    if column.column.is_key or scale is None or not 0 <= scale <= _MOST_PLACES:
        raise ValueError
    is_number = column.slot.value.look is Look.TOKEN
    if not (is_number or column.hints.are_unscaled):
        raise ValueError
    texts = _like(values, _DECIMAL if is_number else _BASE64)
    if is_number:
        with suppress(*_FAILURES):
            return _scaled(texts, scale)
    one, given = _one_scaled if is_number else _unscaled, texts.to_pylist()
    known = {None: (None, b"")} | {text: one(text, scale) for text in set(given) - {None}}
    found = pa.array([known[text][0] for text in given], pa.string())
    return _sent(column, texts, Stored(found, pa.array([known[text][1] for text in given], pa.binary())))


_MOST_DIGITS = 18  # of an unscaled decimal below 2^63


def _scaled(given: pa.Array, scale: int) -> Stored:
    """Convert numbers of at most `scale` digits after the point; raises one of `_FAILURES` if one would change: -0, or longer."""
    values = given.cast(pa.decimal128(_MOST_DIGITS, scale))
    low = words(values, "Q")[0::2]  # Arrow keeps the lower half first
    numbers = pa.Array.from_buffers(pa.int64(), len(values), [values.buffers()[0], pa.py_buffer(low.tobytes())])
    if pc.any(pc.and_(pc.equal(numbers, 0), pc.starts_with(given, "-"))).as_py():
        raise ValueError
    magnitudes = pc.if_else(pc.less(numbers, 0), pc.bit_wise_not(numbers), numbers)
    least, most = (_size(found.as_py() or 0) for found in pc.min_max(magnitudes).values())
    found = pc.binary_slice(_big_endian(low), 8 - most, 8)
    for size in range(most - 1, least - 1, -1):
        found = pc.if_else(pc.less(magnitudes, 1 << (8 * size - 1)), pc.binary_slice(found, 1, size + 1), found)
    serialized = pc.binary_join_element_wise(pa.scalar(_scale_bytes(scale)), found, pa.scalar(b""))
    return Stored(values.cast(pa.string()), pc.if_else(numbers.is_valid(), serialized, b""))


def _one_scaled(token: str, scale: int) -> tuple[str, bytes]:
    """Return a number's text and serialized bytes, with `scale` digits after the point if that is exact."""
    whole, _, places = token.partition(".")
    is_exact = not places[scale:].strip("0")
    places = places[:scale].ljust(scale, "0") if is_exact else places
    return f"{whole}.{places}" if places else whole, _serialized(int(whole + places), len(places))


def _unscaled(token: str, scale: int) -> tuple[str, bytes]:
    """Do the same as `_one_scaled`, for the base64 of an unscaled number."""
    number = int.from_bytes(base64.b64decode(token, validate=True), "big", signed=True)
    digits = str(abs(number)).rjust(scale + 1, "0")
    text = f"{digits[:-scale]}.{digits[-scale:]}" if scale else digits
    return f"-{text}" if number < 0 else text, _serialized(number, scale)


def _serialized(unscaled: int, scale: int) -> bytes:
    size = _size(unscaled if unscaled >= 0 else ~unscaled)
    return _scale_bytes(scale) + unscaled.to_bytes(size, "big", signed=True)


def _scale_bytes(scale: int) -> bytes:
    return struct.pack(">i", scale)


def _size(magnitude: int) -> int:
    """Return the size of a number in two's complement, in bytes."""
    return magnitude.bit_length() // 8 + 1


_CONVERSIONS: dict[tuple[Kind, Look], Convert] = {
    **dict.fromkeys(((kind, Look.TEXT) for kind in (Kind.TEXT, Kind.ASCII, Kind.JSON)), _text),
    **dict.fromkeys(((kind, Look.INTEGER) for kind in (Kind.TINYINT, Kind.SMALLINT, Kind.INT, Kind.BIGINT, Kind.DATE)), _given),
    (Kind.BOOLEAN, Look.BOOLEAN): _given,
    **dict.fromkeys(((kind, Look.TOKEN) for kind in (Kind.FLOAT, Kind.DOUBLE)), _floating),
    (Kind.DATE, Look.TEXT): _day,
    **dict.fromkeys(((kind, Look.TEXT) for kind in (Kind.DATETIME, Kind.INSTANT)), _instant),
    **dict.fromkeys(((kind, Look.INTEGER) for kind in (Kind.DATETIME, Kind.INSTANT)), _counted),
    (Kind.UUID, Look.TEXT): _uuid,
    **dict.fromkeys(((Kind.DECIMAL, look) for look in (Look.TOKEN, Look.TEXT)), _decimals),
}
