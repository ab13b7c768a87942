"""MySQL's binary JSON, as the text that the server prints, and the differences that partial updates have in place of it.

Source: MySQL 9.7, `json_binary.h` and `json_diff.h`, read as descriptions; checked against 9.7.4's own SELECT.
"""

from __future__ import annotations

import re
import struct
from base64 import b64encode
from collections.abc import Iterator
from json.encoder import encode_basestring as quoted
from typing import TypeAlias

from cdc_producers.binlog.log_events import packed_integer
from cdc_producers.binlog.values import decimal
from cdc_views.errors import EngineError

Node: TypeAlias = "dict[str, Node] | list[Node] | str"
"""A document: an object, an array, or a scalar's text."""
_SMALL_OBJECT, _LARGE_OBJECT, _SMALL_ARRAY, _LARGE_ARRAY, _LITERAL = range(5)
_INT16, _UINT16, _INT32, _UINT32 = range(5, 9)
_STRING, _OPAQUE = 12, 15
_LITERALS = {0: "null", 1: "true", 2: "false"}
_NUMBERS = {5: "<h", 6: "<H", 7: "<i", 8: "<I", 9: "<q", 10: "<Q"}
_DOUBLE = 11
_DECIMAL, _DATE, _TIME, _DATES_WITH_TIME = 246, 10, 11, (7, 12)
_SIZE = {_SMALL_OBJECT: 2, _LARGE_OBJECT: 4, _SMALL_ARRAY: 2, _LARGE_ARRAY: 4}
_REPLACE, _INSERT, _REMOVE = range(3)


def document(content: bytes) -> Node:
    """Read a document; one without bytes is null, as the server has it."""
    return _value(content[0], content, 1) if content else "null"


def printed(node: Node) -> str:
    """Return the text that the server prints of a document."""
    if isinstance(node, str):
        return node
    if isinstance(node, list):
        return f"[{', '.join(map(printed, node))}]"
    return "{" + ", ".join(f"{quoted(key)}: {printed(value)}" for key, value in node.items()) + "}"


def _value(kind: int, content: bytes, at: int) -> Node:
    if kind in _SIZE:
        return _container(kind, content, at)
    if kind == _LITERAL:
        return _LITERALS[content[at]]
    if kind in _NUMBERS:
        return str(struct.unpack_from(_NUMBERS[kind], content, at)[0])
    if kind == _DOUBLE:
        return double_text(struct.unpack_from("<d", content, at)[0])
    if kind == _STRING:
        size, at = _length(content, at)
        return quoted(content[at : at + size].decode(errors="surrogateescape"))
    if kind == _OPAQUE:
        size, start = _length(content, at + 1)
        return _opaque(content[at], content[start : start + size])
    raise EngineError(f"a JSON document has a value of kind {kind}, which is not known")


def _container(kind: int, content: bytes, start: int) -> Node:
    size = _SIZE[kind]
    number = "<H" if size == 2 else "<I"
    (count,) = struct.unpack_from(number, content, start)
    at = start + 2 * size
    keys = []
    if kind in (_SMALL_OBJECT, _LARGE_OBJECT):
        for _ in range(count):
            (place,), (length,) = struct.unpack_from(number, content, at), struct.unpack_from("<H", content, at + size)
            keys.append(content[start + place : start + place + length].decode())
            at += size + 2
    values = []
    for _ in range(count):
        inner = content[at]
        is_here = inner in (_LITERAL, _INT16, _UINT16) or (size == 4 and inner in (_INT32, _UINT32))
        place = at + 1 if is_here else start + struct.unpack_from(number, content, at + 1)[0]
        values.append(_value(inner, content, place))
        at += 1 + size
    return dict(zip(keys, values, strict=True)) if kind in (_SMALL_OBJECT, _LARGE_OBJECT) else values


def _length(content: bytes, at: int) -> tuple[int, int]:
    size, shift = 0, 0
    while True:
        byte = content[at]
        at += 1
        size |= (byte & 127) << shift
        shift += 7
        if not byte & 128:
            return size, at


def double_text(value: float) -> str:
    """Return a double as the server prints it in a document: its shortest digits, with an exponent where that is shorter."""
    text = repr(value)
    sign, text = ("-", text[1:]) if text.startswith("-") else ("", text)
    digits, _, exponent = text.partition("e")
    whole, _, fraction = digits.partition(".")
    fraction = "" if fraction == "0" else fraction
    figures = (whole + fraction).lstrip("0")
    if not figures:
        return f"{sign}0.0"
    point = len(whole) + int(exponent or 0) - (len(whole + fraction) - len((whole + fraction).lstrip("0")))
    figures = figures.rstrip("0")
    # `point`: how many digits are in front of the decimal point
    if -_PLAIN_DIGITS < point <= _PLAIN_DIGITS or 0 < point < len(figures):
        if point <= 0:
            return f"{sign}0.{'0' * -point}{figures}"
        if point >= len(figures):
            return f"{sign}{figures}{'0' * (point - len(figures))}.0"
        return f"{sign}{figures[:point]}.{figures[point:]}"
    rest = f".{figures[1:]}" if len(figures) > 1 else ""
    return f"{sign}{figures[0]}{rest}e{point - 1}"


_PLAIN_DIGITS = 15


def _opaque(kind: int, content: bytes) -> str:
    if kind == _DECIMAL:
        return decimal(content[0], content[1])(content, 2)[0]
    if kind in (_DATE, _TIME, *_DATES_WITH_TIME):
        return f'"{_moment(kind, int.from_bytes(content, "little", signed=True))}"'
    return f'"base64:type{kind}:{b64encode(content).decode()}"'


def _moment(kind: int, packed: int) -> str:
    sign, packed = ("-", -packed) if packed < 0 else ("", packed)
    whole, micros = packed >> 24, packed & (1 << 24) - 1
    clock = f"{whole >> 12 & (1023 if kind == _TIME else 31):02d}:{whole >> 6 & 63:02d}:{whole & 63:02d}.{micros:06d}"
    if kind == _TIME:
        return sign + clock
    year, month = divmod(whole >> 22, 13)
    day = f"{year:04d}-{month:02d}-{whole >> 17 & 31:02d}"
    return day if kind == _DATE else f"{day} {clock}"


_LEG = re.compile(r'\.([\w$]+)|\."((?:[^"\\]|\\.)*)"|\[(\d+)\]')
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)")
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}


def changed(before: Node, differences: bytes) -> Node:
    """Return the document that a partial update makes of the one before it, which is changed in place."""
    at = 0
    while at < len(differences):
        operation = differences[at]
        size, at = packed_integer(differences, at + 1)
        path, at = differences[at : at + size].decode(), at + size
        value: Node = ""
        if operation != _REMOVE:
            size, at = packed_integer(differences, at)
            value, at = document(differences[at : at + size]), at + size
        before = _applied(before, operation, list(_legs(path)), value)
    return before


def _legs(path: str) -> Iterator[str | int]:
    for name, quoted_name, number in _LEG.findall(path.removeprefix("$")):
        yield int(number) if number else name or _ESCAPE.sub(_unescaped, quoted_name)


def _unescaped(found: re.Match[str]) -> str:
    one = found[1]
    return chr(int(one[1:], 16)) if one[0] == "u" and len(one) > 1 else _ESCAPED.get(one, one)


def _applied(node: Node, operation: int, legs: list[str | int], value: Node) -> Node:
    if not legs:
        return value
    *way, last = legs
    holder = node
    for leg in way:
        holder = _inside(holder, leg)
    if isinstance(holder, list) and isinstance(last, int):
        if operation == _INSERT:
            holder.insert(last, value)
        elif operation == _REMOVE:
            del holder[last]
        else:
            holder[last] = value
    elif isinstance(holder, dict) and isinstance(last, str):
        if operation == _REMOVE:
            del holder[last]
        else:
            holder[last] = value
            if operation == _INSERT:
                _sort(holder)
    elif last == 0 and not isinstance(holder, list):
        # a scalar or an object is an array of itself
        return _applied(node, operation, way, value)
    else:
        raise EngineError("a partial update of a JSON document does not fit the document before it")
    return node


def _inside(node: Node, leg: str | int) -> Node:
    if isinstance(node, list) and isinstance(leg, int):
        return node[leg]
    if isinstance(node, dict) and isinstance(leg, str):
        return node[leg]
    if leg == 0:
        return node
    raise EngineError("a partial update of a JSON document does not fit the document before it")


def _sort(node: dict[str, Node]) -> None:
    """Bring an object's keys into the server's order: shorter ones first."""
    kept = sorted(node.items(), key=lambda item: (len(item[0].encode()), item[0].encode()))
    node.clear()
    node.update(kept)


def changed_text(content: bytes, differences: bytes) -> str:
    """Return what a partial update makes of a document as a JSON text."""
    return quoted(printed(changed(document(content), differences)))


def text(content: bytes) -> str:
    """Return a document's text as a JSON text."""
    return quoted(printed(document(content)))
