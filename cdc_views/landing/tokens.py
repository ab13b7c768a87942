"""Tokens of one column, many at once, into what a raw table stores of them.

Each look has a conversion of its own where one is known that is as exact as reading values one by one; what it does not
take for certain is read one by one, as the format's decoder does.
"""

from __future__ import annotations

import base64
import json
import struct
import sys
from array import array
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from cdc_views.formats.connect.hints import MARKS, Unit, is_unavailable
from cdc_views.formats.connect.times import stated_unit
from cdc_views.formats.connect.values import native
from cdc_views.formats.forms import Look
from cdc_views.formats.row_form import ColumnSlot
from cdc_views.model.types import Kind, carries_order_bytes
from cdc_views.rules.cells import RANK_FLOOR
from cdc_views.rules.codec.jsonread import parse_json
from cdc_views.rules.codec.physical import arrow_type, to_physical

Tokens = Sequence[str | None]
_EMPTY, _FILLED = RANK_FLOOR, RANK_FLOOR + 1
"""Ranks of live cells, of 0 bytes and of more."""
_FAILURES = (pa.ArrowException, ValueError, OverflowError, ArithmeticError)


class UnfitError(Exception):
    """Some events are to be read one by one; `indexes` are theirs among the tokens."""

    def __init__(self, indexes: Sequence[int]) -> None:
        """Keep the indexes."""
        super().__init__(f"{len(indexes)} events")
        self.indexes = frozenset(indexes)


@dataclass(frozen=True, slots=True)
class Stored:
    """What is stored of a column's tokens, null for those that are.

    `bytes` are serialized values where cells keep them, empty for null. `ranks` are those of live cells, or one of all.
    `absent` says of which events the source did not send the value (rule S4), None: of none. `natives` only where they
    were made.
    """

    values: pa.Array
    bytes: pa.Array | None = None
    ranks: pa.Array | int = _FILLED
    absent: pa.Array | None = None
    natives: Sequence[Any] | None = None


def stored(column: ColumnSlot, tokens: Tokens) -> Stored:
    """Return what is stored of a column's tokens; raises `UnfitError`."""
    convert = _CONVERSIONS.get((column.kind, column.slot.look)) if column.kind else None
    if convert is None:
        return one_by_one(column, tokens)
    try:
        found = convert(column, tokens)
    except _FAILURES:
        return one_by_one(column, tokens)
    if column.column.is_key or column.slot.look not in (Look.STRING, Look.UUID):
        return found
    absent = pc.is_in(found.values, value_set=_MARKS)
    return replace(found, absent=absent) if pc.any(absent).as_py() else found


_MARKS = pa.array(sorted(MARKS), pa.string())


def one_by_one(column: ColumnSlot, tokens: Tokens) -> Stored:
    """As `stored`, by the decoder's own conversion of one value; `natives` are there."""
    kind = column.column.type
    known: dict[str | None, tuple[Any, bytes] | None] = {None: (None, b"")}
    for token in set(tokens) - {None}:
        # whatever is wrong with one: the decoder of single events says so
        with suppress(Exception):
            known[token] = _read(column, str(token))
    if len(known) <= len(set(tokens) - {None}):
        raise UnfitError([index for index, token in enumerate(tokens) if token not in known])
    read = [known[token] for token in tokens]
    natives = [None if found is None else found[0] for found in read]
    serialized = [b"" if found is None else found[1] for found in read]
    try:
        values = pa.array([to_physical(kind, found) for found in natives], arrow_type(kind))
    except _FAILURES as error:
        raise UnfitError(range(len(tokens))) from error
    keeps_bytes = carries_order_bytes(kind) and not column.column.is_key
    ranks = pa.array([_FILLED if data else _EMPTY for data in serialized], pa.int64())
    absent = pa.array([found is None for found in read]) if None in read else None
    return Stored(values, pa.array(serialized, pa.binary()) if keeps_bytes else None, ranks, absent, natives)


def _read(column: ColumnSlot, token: str) -> tuple[Any, bytes] | None:
    """The native value and its serialized bytes; None where it was not sent."""
    is_bare = column.slot.look in (Look.STRING, Look.UUID, Look.DAY, Look.INSTANT, Look.BASE64)
    value = parse_json(f'"{token}"' if is_bare else token)
    if not column.column.is_key and is_unavailable(value):
        return None
    return native(column.column.type, value, column.hints)


def _text(column: ColumnSlot, tokens: Tokens) -> Stored:
    values = pa.array(tokens, pa.string())
    if pc.any(pc.match_substring(values, "\\")).as_py():
        values = pa.array([json.loads(f'"{t}"') if t is not None and "\\" in t else t for t in tokens], pa.string())
    lengths = pc.binary_length(values)
    if (pc.min(lengths).as_py() or 0) > 0:
        return Stored(values)
    return Stored(values, ranks=pc.if_else(pc.equal(lengths, 0), _EMPTY, _FILLED))


def _cast(column: ColumnSlot, tokens: Tokens) -> Stored:
    return Stored(pa.array(tokens, pa.string()).cast(arrow_type(column.column.type)))


def _uuid(column: ColumnSlot, tokens: Tokens) -> Stored:
    return Stored(pa.array(tokens, pa.string()))


def _day(column: ColumnSlot, tokens: Tokens) -> Stored:
    return Stored(pa.array(tokens, pa.string()).cast(pa.date32()).cast(pa.int32()))


def _instant(column: ColumnSlot, tokens: Tokens) -> Stored:
    return Stored(pa.array(tokens, pa.string()).cast(pa.timestamp("us")).cast(pa.int64()))


_MICROS_FROM = 253_402_300_800_000
"""From here on a number of an instant that nobody says the unit of counts µs (see `connect_times`)."""
_MOST = {Unit.MILLIS: 10**14, Unit.MICROS: 9 * 10**15}
"""Numbers of instants below these have no meaning of their own, as infinity has."""


def _counted(column: ColumnSlot, tokens: Tokens) -> Stored:
    numbers = pa.array(tokens, pa.string()).cast(pa.int64())
    least, most = pc.min_max(numbers).as_py().values()
    if least is None:
        return Stored(numbers)
    unit = stated_unit(column.kind or Kind.INSTANT, column.hints) or (Unit.MICROS if least >= _MICROS_FROM else None)
    if unit is None or max(-least, most) >= _MOST.get(unit, 0):
        raise ValueError
    return Stored(pc.multiply(numbers, 1000) if unit is Unit.MILLIS else numbers)


def _floating(code: str, kind: pa.DataType) -> Callable[[ColumnSlot, Tokens], Stored]:
    def convert(column: ColumnSlot, tokens: Tokens) -> Stored:
        values = pa.array(tokens, pa.string()).cast(pa.float64()).cast(kind, safe=False)
        if not pc.all(pc.is_finite(values)).as_py():
            raise OverflowError
        if column.column.is_key:
            return one_by_one(column, tokens)
        return Stored(values, _big_endian(values, code))

    return convert


def _big_endian(values: pa.Array, code: str) -> pa.Array:
    found = _big_endian_words(_words(values, code))
    return pc.if_else(values.is_valid(), found, b"") if values.null_count else found


def _words(values: pa.Array, code: str) -> array[Any]:
    """The values of an array as they are in memory, what stands for null included."""
    words = array(code)
    width = values.type.bit_width // 8
    words.frombytes(memoryview(values.buffers()[1])[values.offset * width : (values.offset + len(values)) * width])
    return words


def _big_endian_words(words: array[Any]) -> pa.Array:
    swapped = words[:]
    if sys.byteorder == "little":
        swapped.byteswap()
    kind = pa.binary(words.itemsize)
    return pa.Array.from_buffers(kind, len(words), [None, pa.py_buffer(swapped.tobytes())]).cast(pa.binary())


def _decimals(scaled: Callable[[str, int], tuple[str, bytes]]) -> Callable[[ColumnSlot, Tokens], Stored]:
    def convert(column: ColumnSlot, tokens: Tokens) -> Stored:
        if column.column.is_key:
            return one_by_one(column, tokens)
        scale = column.hints.scale_of(column.column.type) or 0
        known = {token: scaled(token, scale) if token is not None else (None, b"") for token in set(tokens)}
        texts = pa.array([known[token][0] for token in tokens], pa.string())
        return Stored(texts, pa.array([known[token][1] for token in tokens], pa.binary()))

    return convert


_MOST_DIGITS = 18
"""Of a decimal without its point that is below 2^63."""


def _plain_decimals(column: ColumnSlot, tokens: Tokens) -> Stored:
    if not column.column.is_key:
        with suppress(*_FAILURES):
            return _many_scaled(tokens, column.hints.scale_of(column.column.type) or 0)
    return _one_by_one_scaled(column, tokens)


def _many_scaled(tokens: Tokens, scale: int) -> Stored:
    """As `_scaled`, of all at once; raises one of `_FAILURES` where a number is not kept by that: -0, or more digits."""
    given = pa.array(tokens, pa.string())
    values = given.cast(pa.decimal128(_MOST_DIGITS, scale))
    low = _words(values, "Q")[0::2]  # Arrow keeps the lower half first, here as in `_Rows._write_times`
    numbers = pa.Array.from_buffers(pa.int64(), len(values), [values.buffers()[0], pa.py_buffer(low.tobytes())])
    if pc.any(pc.and_(pc.equal(numbers, 0), pc.starts_with(given, "-"))).as_py():
        raise ValueError
    magnitudes = pc.if_else(pc.less(numbers, 0), pc.bit_wise_not(numbers), numbers)
    least, most = (_size(found.as_py() or 0) for found in pc.min_max(magnitudes).values())
    found = pc.binary_slice(_big_endian_words(low), 8 - most, 8)
    for size in range(most - 1, least - 1, -1):
        found = pc.if_else(pc.less(magnitudes, 1 << (8 * size - 1)), pc.binary_slice(found, 1, size + 1), found)
    serialized = pc.binary_join_element_wise(pa.scalar(_scale_bytes(scale)), found, pa.scalar(b""))
    return Stored(values.cast(pa.string()), pc.if_else(numbers.is_valid(), serialized, b""))


def _scaled(token: str, scale: int) -> tuple[str, bytes]:
    """A number's text and serialized bytes with so many digits after the point, or its own where that would change it."""
    whole, _, places = token.partition(".")
    is_exact = not places[scale:].strip("0")
    places = places[:scale].ljust(scale, "0") if is_exact else places
    return f"{whole}.{places}" if places else whole, _serialized(int(whole + places), len(places))


def _unscaled(token: str, scale: int) -> tuple[str, bytes]:
    """As `_scaled`, of the base64 of a number without its point."""
    number = int.from_bytes(base64.b64decode(token, validate=True), "big", signed=True)
    digits = str(abs(number)).rjust(scale + 1, "0")
    text = f"{digits[:-scale]}.{digits[-scale:]}" if scale else digits
    return f"-{text}" if number < 0 else text, _serialized(number, scale)


_one_by_one_scaled = _decimals(_scaled)


def _scale_bytes(scale: int) -> bytes:
    return struct.pack(">i", scale)


def _serialized(unscaled: int, scale: int) -> bytes:
    size = _size(unscaled if unscaled >= 0 else ~unscaled)
    return _scale_bytes(scale) + unscaled.to_bytes(size, "big", signed=True)


def _size(magnitude: int) -> int:
    """The bytes of a number in two's complement."""
    return magnitude.bit_length() // 8 + 1


Convert = Callable[[ColumnSlot, Tokens], Stored]
_CONVERSIONS: dict[tuple[Kind, Look], Convert] = {
    **dict.fromkeys(((kind, Look.STRING) for kind in (Kind.TEXT, Kind.ASCII, Kind.JSON)), _text),
    **dict.fromkeys(((kind, Look.INTEGER) for kind in (Kind.TINYINT, Kind.SMALLINT, Kind.INT, Kind.BIGINT, Kind.DATE)), _cast),
    (Kind.BOOLEAN, Look.BOOLEAN): _cast,
    (Kind.FLOAT, Look.NUMBER): _floating("f", pa.float32()),
    (Kind.DOUBLE, Look.NUMBER): _floating("d", pa.float64()),
    (Kind.DATE, Look.DAY): _day,
    **dict.fromkeys(((kind, Look.INSTANT) for kind in (Kind.DATETIME, Kind.INSTANT)), _instant),
    **dict.fromkeys(((kind, Look.INTEGER) for kind in (Kind.DATETIME, Kind.INSTANT)), _counted),
    (Kind.UUID, Look.UUID): _uuid,
    (Kind.DECIMAL, Look.DECIMAL): _plain_decimals,
    (Kind.DECIMAL, Look.BASE64): _decimals(_unscaled),
}
