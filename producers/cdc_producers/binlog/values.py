"""Values of row events, from their bytes to JSON in the form of Debezium's connector.

Numbers are exact, never doubles. Of Debezium's modes, this uses those whose values explain themselves, because no schema goes
with an event:

============================  ==========================================================================
column                        JSON
============================  ==========================================================================
integers, decimal, year       number, digit by digit; unsigned as unsigned
float, double                 number
bit(1)                        true, false
bit(n), binary, blob          hex after `0x` (bit: little-endian bytes)
geometries                    well-known binary in hex, without the SRID
date, time, datetime          text, as printed; a time may be negative and pass 24 hours
timestamp                     text in UTC with `Z`
uuid, inet4, inet6            text, as printed
enum, set                     text: the label; the labels, joined by commas
char, varchar, text, json     text, whatever the column's character set
============================  ==========================================================================

Source: MariaDB knowledge base, "Rows_event_v1"; checked against the SELECT of MariaDB 11.4.5, MySQL 9.7.4 and 5.6.14.
"""

from __future__ import annotations

import ipaddress
import struct
import uuid
from collections.abc import Callable, Sequence
from functools import lru_cache
from json.encoder import encode_basestring as quoted
from json.encoder import encode_basestring_ascii as quoted_ascii

from cdc_views.errors import UnsupportedError
from cdc_views.rules.codec.times import date_text

Row = list[str | None]
"""A JSON text for each column; None if the row lacks the column."""
Read = Callable[[bytes, int], tuple[str, int]]
"""Reads the value at a position; returns its JSON and where it ends."""
Encode = Callable[[bytes], str]
NULL = "null"


def number(code: str) -> Read:
    """Return the reader of a number of fixed width, by its code in `struct`."""
    form = struct.Struct("<" + code)
    unpack, size = form.unpack_from, form.size

    def read(content: bytes, position: int) -> tuple[str, int]:
        return repr(unpack(content, position)[0]), position + size

    return read


def fixed(size: int, encode: Encode) -> Read:
    """Return the reader of a value of `size` bytes."""

    def read(content: bytes, position: int) -> tuple[str, int]:
        end = position + size
        return encode(content[position:end]), end

    return read


def _little(content: bytes) -> int:
    return int.from_bytes(content, "little")


def medium(*, is_unsigned: bool) -> Read:
    """Return the reader of MEDIUMINT."""
    return fixed(3, lambda content: str(int.from_bytes(content, "little", signed=not is_unsigned)))


_GROUP = 9
_BYTES_OF = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
"""The bytes that a number of decimal digits takes."""


def decimal(precision: int, scale: int) -> Read:
    """Return the reader of DECIMAL: nine digits in four bytes, a shorter group at either end; negative values are inverted."""
    wholes, first = divmod(precision - scale, _GROUP)
    fractions, last = divmod(scale, _GROUP)
    groups = [first] * (first > 0) + [_GROUP] * (wholes + fractions) + [last] * (last > 0)
    size = sum(_BYTES_OF[digits] for digits in groups)

    def encode(content: bytes) -> str:
        found = int.from_bytes(content, "big") ^ 1 << (8 * size - 1)
        is_negative = content[0] & 0x80 == 0
        if is_negative:
            found ^= (1 << 8 * size) - 1
        parts, at, text = found.to_bytes(size, "big"), 0, ""
        for digits in groups:
            end = at + _BYTES_OF[digits]
            text += f"{int.from_bytes(parts[at:end], 'big'):0{digits}d}"
            at = end
        point = len(text) - scale
        whole = text[:point].lstrip("0") or "0"
        number = f"{whole}.{text[point:]}" if scale else whole
        return f"-{number}" if is_negative and found else number

    return fixed(size, encode)


YEAR = fixed(1, lambda content: str(content[0] and content[0] + 1900))
"""0 is the year 0000."""


def bits(count: int) -> Read:
    """Return the reader of BIT(count)."""
    if count == 1:
        return fixed(1, lambda content: "true" if content[0] else "false")
    return fixed((count + 7) // 8, lambda content: f'"0x{content[::-1].hex()}"')


def date(*, nulls_zero: bool) -> Read:
    """Return the reader of DATE."""

    def encode(content: bytes) -> str:
        found = _little(content)
        return _dated(found >> 9, found >> 5 & 15, found & 31, nulls_zero=nulls_zero)

    return fixed(3, encode)


def _dated(of_year: int, month: int, day: int, clock: str = "", *, nulls_zero: bool) -> str:
    if nulls_zero and not (month and day):
        return NULL
    return f'"{of_year:04d}-{month:02d}-{day:02d}{clock}"'


def _fraction(digits: int) -> tuple[int, int]:
    """Return the bytes that a second's fraction takes, and its unit in µs."""
    size = (digits + 1) // 2
    return size, 10 ** (6 - 2 * size)


def time(digits: int) -> Read:
    """Return the reader of TIME(digits)."""
    size, unit = _fraction(digits)
    shift = 8 * size

    def encode(content: bytes) -> str:
        found = int.from_bytes(content, "big") - (0x800000 << shift)
        sign, found = ("-", -found) if found < 0 else ("", found)
        clock, micros = found >> shift, (found & (1 << shift) - 1) * unit
        tail = f".{micros:06d}" if digits else ""
        return f'"{sign}{clock >> 12 & 1023:02d}:{clock >> 6 & 63:02d}:{clock & 63:02d}{tail}"'

    return fixed(3 + size, encode)


def datetime(digits: int, *, nulls_zero: bool) -> Read:
    """Return the reader of DATETIME(digits)."""
    size, unit = _fraction(digits)

    def encode(content: bytes) -> str:
        found = int.from_bytes(content[:5], "big") - 0x8000000000
        of_year, month = divmod(found >> 22, 13)
        tail = f".{int.from_bytes(content[5:], 'big') * unit:06d}" if size else ""
        clock = f" {found >> 12 & 31:02d}:{found >> 6 & 63:02d}:{found & 63:02d}{tail}"
        return _dated(of_year, month, found >> 17 & 31, clock, nulls_zero=nulls_zero)

    return fixed(5 + size, encode)


_dates = lru_cache(maxsize=4096)(date_text)


def timestamp(digits: int, *, nulls_zero: bool) -> Read:
    """Return the reader of TIMESTAMP(digits)."""
    size, unit = _fraction(digits)

    def encode(content: bytes) -> str:
        found, micros = int.from_bytes(content[:4], "big"), int.from_bytes(content[4:], "big") * unit
        if not found and not micros:
            return _dated(0, 0, 0, " 00:00:00", nulls_zero=nulls_zero)
        days, seconds = divmod(found, 86_400)
        tail = f".{micros:06d}" if size else ""
        return f'"{_dates(days)} {seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{tail}Z"'

    return fixed(4 + size, encode)


def sized(width: int, encode: Encode) -> Read:
    """Return the reader of bytes after their length, which takes `width` bytes itself."""

    def read(content: bytes, position: int) -> tuple[str, int]:
        start = position + width
        end = start + (content[position] if width == 1 else int.from_bytes(content[position:start], "little"))
        return encode(content[start:end]), end

    return read


BINARY = "binary"
_CODECS = {
    "ascii": "ascii", "big5": "big5", "cp1250": "cp1250", "cp1251": "cp1251", "cp1256": "cp1256", "cp1257": "cp1257",
    "cp850": "cp850", "cp852": "cp852", "cp866": "cp866", "cp932": "cp932", "eucjpms": "euc_jp", "euckr": "euc_kr",
    "gb2312": "gb2312", "gbk": "gbk", "greek": "iso8859_7", "hebrew": "iso8859_8", "koi8r": "koi8_r", "koi8u": "koi8_u",
    "latin1": "cp1252", "latin2": "iso8859_2", "latin5": "iso8859_9", "latin7": "iso8859_13", "macce": "mac_latin2",
    "macroman": "mac_roman", "sjis": "shift_jis", "tis620": "tis_620", "ucs2": "utf_16_be", "ujis": "euc_jp",
    "utf16": "utf_16_be", "utf16le": "utf_16_le", "utf32": "utf_32_be", "utf8": "utf_8", "utf8mb3": "utf_8", "utf8mb4": "utf_8",
}  # fmt: skip
"""The character sets that Python has; `latin1` is Windows's 1252, as MariaDB's manual states."""
_LATIN1 = {number: bytes([number]).decode("cp1252", "ignore") or chr(number) for number in range(0x80, 0xA0)}
"""In MariaDB and MySQL, the five bytes that 1252 leaves open are the characters of the same number."""


def text_of(content: bytes, charset: str) -> str:
    """Return the text of a column's bytes; invalid bytes become lone surrogates, which send the event to quarantine."""
    if charset == "latin1":
        return content.decode("latin_1").translate(_LATIN1)
    try:
        return content.decode(_CODECS[charset])
    except UnicodeDecodeError:
        return content.decode("utf_8" if charset.startswith("utf8") else "ascii", "surrogateescape")


def text(charset: str, *, where: str) -> Encode:
    """Return the encoder of a character set's texts; raises `UnsupportedError` for one that Python does not have."""
    if charset not in _CODECS:
        raise UnsupportedError(
            f"{where}: character set {charset} is not supported", remedy="ALTER TABLE … MODIFY … CHARACTER SET utf8mb4"
        )
    codec = "utf_8" if charset == "ascii" else _CODECS[charset]

    def encode(content: bytes) -> str:
        try:
            return quoted(content.decode(codec))
        except UnicodeDecodeError:
            found = text_of(content, charset)
            return quoted_ascii(found) if any("\ud800" <= one <= "\udfff" for one in found) else quoted(found)

    return encode


def blob(content: bytes) -> str:
    """Return bytes as hex."""
    return f'"0x{content.hex()}"'


def padded(size: int) -> Encode:
    """Return the encoder of BINARY(size), whose zeros at the end the log leaves out."""
    return lambda content: f'"0x{content.ljust(size, bytes(1)).hex()}"'


def geometry(content: bytes) -> str:
    """Return a geometry's well-known binary, which follows its SRID."""
    return f'"0x{content[4:].hex()}"'


def enum(width: int, names: Sequence[str]) -> Read:
    """Return the reader of ENUM: labels count from 1; 0 is the empty text that a wrong value became."""
    labels = ['""', *map(quoted, names)]
    return fixed(width, lambda content: labels[_little(content)])


def members(width: int, names: Sequence[str]) -> Read:
    """Return the reader of SET, which has one bit for each of the labels `names`."""

    def encode(content: bytes) -> str:
        found = _little(content)
        return quoted(",".join(name for bit, name in enumerate(names) if found >> bit & 1))

    return fixed(width, encode)


def uuid_text(content: bytes) -> str:
    """Return a UUID; MariaDB keeps the parts of versions 1 to 5 in reverse order, so that they sort by time.

    Source: MariaDB 11.4, `sql_type_uuid.h`, read as a description; checked for every version against SELECT.
    """
    kept = content.ljust(16, bytes(1))
    if 0 < kept[8] >> 4 < 6 and kept[6] & 0x80:
        kept = kept[12:16] + kept[10:12] + kept[8:10] + kept[6:8] + kept[0:6]
    return f'"{uuid.UUID(bytes=kept)}"'


def inet_text(size: int) -> Encode:
    """Return the encoder of INET4 or INET6, by their size; an IPv4 address inside an IPv6 one is printed as such."""

    def encode(content: bytes) -> str:
        kept = content.ljust(size, bytes(1))
        if size == 4:
            return f'"{ipaddress.IPv4Address(kept)}"'
        is_mapped = kept[:12] == bytes(10) + b"\xff\xff"
        is_compatible = kept[:12] == bytes(12) and kept[12:14] != bytes(2)
        if is_mapped or is_compatible:
            return f'"::{"ffff:" if is_mapped else ""}{ipaddress.IPv4Address(kept[12:])}"'
        return f'"{ipaddress.IPv6Address(kept)}"'

    return encode
