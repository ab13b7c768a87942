"""SQL over the events of a table that somebody else lands (`plan.documents`), for the engines that run it."""

from __future__ import annotations

import re
from abc import abstractmethod
from typing import ClassVar

from sqlglot import exp

from cdc_views.plan import documents as d
from cdc_views.plan.documents import InstantForm, Physical
from cdc_views.sql.dialects.base import Dialect
from cdc_views.sql.dialects.writing import Sql, function, identifier, is_present, number, only_if, text

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_LAST_DIGITS = "[0-9]+$"
_DIGITS_OF_7_BYTES = 16
"""Decimal digits that 7 bytes hold with a sign: one part of 60 bits has all of them."""
_NO_NUMBER = "a decimal in base64 has no byte, or more than {}: update the schema file"


class DocumentDialect(Dialect):
    """What a dialect needs to read events: the members of JSON objects, and casts that fail for what is no such value."""

    reads_events: ClassVar[bool] = True
    types: ClassVar[dict[Physical, str]]
    """The engine's names of the stored types."""

    @abstractmethod
    def json_object(self, value: Sql, *, is_lenient: bool = False) -> Sql:
        """Return a text as a JSON object; `is_lenient`: null for another text."""

    @abstractmethod
    def json_text(self, of: Sql, name: str) -> Sql:
        """Return a member of a JSON object as text."""

    def any_json_text(self, of: Sql, name: str) -> Sql:
        """Return a member that may be an object or an array as text."""
        return self.json_text(of, name)

    @abstractmethod
    def json_member(self, of: Sql, name: str) -> Sql:
        """Return a member of a JSON object that is an object too."""

    @abstractmethod
    def json_has(self, of: Sql, name: str) -> Sql:
        """Return whether a JSON object has a member."""

    @abstractmethod
    def micros(self, value: Sql, clock: InstantForm) -> Sql:
        """Return the µs since the epoch of an instant."""

    @abstractmethod
    def days(self, value: Sql) -> Sql:
        """Return the days since the epoch of a date."""

    @abstractmethod
    def failure(self, message: str, type: Physical) -> Sql:
        """Return a value that fails the query."""

    def utf8(self, value: Sql) -> Sql:
        """Return the text that bytes hold."""
        return function("decode", value, *self.encoding)

    @abstractmethod
    def item_at(self, array: Sql, index: int) -> Sql:
        """Return an element of an array, from 0; null if there is none."""

    def as_bytes(self, value: Sql) -> Sql:
        """Return the bytes of a text, in UTF-8."""
        return self.cast(value, Physical.BYTES)

    def cast(self, value: Sql, type: Physical) -> Sql:
        """Return `CAST(value AS type)`."""
        return exp.Cast(this=value, to=exp.DataType(this=exp.DataType.Type.USERDEFINED, kind=self.types[type]))

    def visit_utf8(self, node: d.Utf8, item: Sql | None) -> Sql:
        """Return the text that bytes hold."""
        return self.utf8(self.render(node.value, item))

    def visit_jsonobject(self, node: d.JsonObject, item: Sql | None) -> Sql:
        """Return a text as a JSON object."""
        return self.json_object(self.render(node.text, item), is_lenient=node.is_lenient)

    def visit_member(self, node: d.Member, item: Sql | None) -> Sql:
        """Return a member as text."""
        return (self.json_text if node.is_scalar else self.any_json_text)(self.render(node.of, item), node.name)

    def visit_objectmember(self, node: d.ObjectMember, item: Sql | None) -> Sql:
        """Return a member that is an object."""
        return self.json_member(self.render(node.of, item), node.name)

    def visit_hasmember(self, node: d.HasMember, item: Sql | None) -> Sql:
        """Return whether a member is there."""
        return self.json_has(self.render(node.of, item), node.name)

    def visit_as(self, node: d.As, item: Sql | None) -> Sql:
        """Return a cast."""
        value = self.render(node.value, item)
        return self.as_bytes(value) if node.type is Physical.BYTES else self.cast(value, node.type)

    def visit_asdecimal(self, node: d.AsDecimal, item: Sql | None) -> Sql:
        """Return a cast to a decimal."""
        return exp.Cast(this=self.render(node.value, item), to=self.decimal_type(node.precision, node.scale))

    def visit_base64(self, node: d.Base64, item: Sql | None) -> Sql:
        """Return the bytes of base64."""
        return self.base64(self.render(node.text, item))

    def visit_hexofbase64(self, node: d.HexOfBase64, item: Sql | None) -> Sql:
        """Return hex digits of base64."""
        return function(self.hex_digits, self.base64(self.render(node.text, item)))

    def visit_unscaled(self, node: d.Unscaled, item: Sql | None) -> Sql:
        """Return a whole number of hex digits: the sum of 60-bit parts, less a power of two if it is negative."""
        digits, size = self.render(node.digits, item), 14 if node.precision <= _DIGITS_OF_7_BYTES else 2 * d.MOST_BYTES
        is_negative = exp.GTE(this=digits, expression=text("8"))
        padded = function("LPAD", digits.copy(), number(size), only_if(is_negative, text("f"), text("0")))
        if size < 2 * d.MOST_BYTES:
            above, whole = number(1 << 4 * size), self.whole_of_hex(padded)
        else:
            parts = (self.whole_of_hex(function("SUBSTR", padded.copy(), number(at), number(15))) for at in (1, 16))
            first, second = (self.cast(part, Physical.POSITION) for part in parts)
            above = self.cast(text(str(1 << 4 * size)), Physical.POSITION)
            whole = exp.Add(this=exp.Mul(this=first, expression=number(1 << 60)), expression=second)
        number_of = exp.Sub(this=whole, expression=only_if(is_negative.copy(), above, number(0)))
        fits = exp.Between(this=function("LENGTH", digits.copy()), low=number(2), high=number(size))
        fails = exp.If(this=is_present(digits.copy()), true=self.failure(_NO_NUMBER.format(size // 2), Physical.POSITION))
        return exp.Case(ifs=[exp.If(this=fits, true=number_of), fails])

    @abstractmethod
    def base64(self, value: Sql) -> Sql:
        """Return the bytes of base64; fails for another text."""

    @abstractmethod
    def whole_of_hex(self, digits: Sql) -> Sql:
        """Return the whole number of at most 15 hex digits."""

    hex_digits: ClassVar[str] = "HEX"
    """The function that writes bytes as hex digits."""

    def visit_differs(self, node: d.Differs, item: Sql | None) -> Sql:
        """Return IS DISTINCT FROM."""
        return exp.NullSafeNEQ(this=self.render(node.left, item), expression=self.render(node.right, item))

    def visit_micros(self, node: d.Micros, item: Sql | None) -> Sql:
        """Return µs of an instant."""
        return self.micros(self.render(node.value, item), node.clock)

    def visit_days(self, node: d.Days, item: Sql | None) -> Sql:
        """Return days of a date."""
        return self.days(self.render(node.value, item))

    def visit_arraysize(self, node: d.ArraySize, item: Sql | None) -> Sql:
        """Return the number of elements."""
        return function("COALESCE", self._own("array_size", self.render(node.array, item)), number(0))

    def visit_itemat(self, node: d.ItemAt, item: Sql | None) -> Sql:
        """Return an element."""
        return self.item_at(self.render(node.array, item), node.index)

    def visit_lowercase(self, node: d.LowerCase, item: Sql | None) -> Sql:
        """Return a text in lower case."""
        return function("LOWER", self.render(node.value, item))

    def visit_lastnumber(self, node: d.LastNumber, item: Sql | None) -> Sql:
        """Return the digits at the end of a text as a number."""
        digits = function(self.extract, self.render(node.value, item), text(_LAST_DIGITS), *self.whole_match)
        return self.cast(digits, Physical.POSITION)

    def visit_failure(self, node: d.Failure, item: Sql | None) -> Sql:
        """Return the failure of the query."""
        return self.failure(node.message, node.type)

    encoding: ClassVar[tuple[Sql, ...]] = ()
    """The arguments of `decode` after the bytes."""
    extract: ClassVar[str] = "REGEXP_EXTRACT"
    whole_match: ClassVar[tuple[Sql, ...]] = ()
    """The arguments that let `extract` return the whole match."""


class DuckDbDocuments(DocumentDialect):
    """JSON in DuckDB keeps the text of a value; `->>` of null, and of a member that is not there, is null."""

    types: ClassVar = {
        Physical.TEXT: "TEXT",
        Physical.BYTES: "BLOB",
        Physical.BOOLEAN: "BOOLEAN",
        Physical.INT8: "TINYINT",
        Physical.INT16: "SMALLINT",
        Physical.INT32: "INT",
        Physical.INT64: "BIGINT",
        Physical.FLOAT: "FLOAT",
        Physical.DOUBLE: "DOUBLE",
        Physical.DECIMAL: "DECIMAL(38, 9)",
        Physical.POSITION: "HUGEINT",
    }

    def json_object(self, value: Sql, *, is_lenient: bool = False) -> Sql:
        return (exp.TryCast if is_lenient else exp.Cast)(
            this=value, to=exp.DataType(this=exp.DataType.Type.USERDEFINED, kind="JSON")
        )

    def json_text(self, of: Sql, name: str) -> Sql:
        # the operator binds less tightly than `=`
        return exp.paren(exp.JSONExtractScalar(this=of, expression=_path(name)), copy=False)

    def json_member(self, of: Sql, name: str) -> Sql:
        return exp.paren(exp.JSONExtract(this=of, expression=_path(name)), copy=False)

    def json_has(self, of: Sql, name: str) -> Sql:
        return function("json_exists", of, _path(name))

    def micros(self, value: Sql, clock: InstantForm) -> Sql:
        return function("epoch_us", exp.cast(value, "TIMESTAMPTZ") if clock is InstantForm.TEXT else value)

    def days(self, value: Sql) -> Sql:
        epoch = exp.cast(text("1970-01-01"), "DATE")
        return self.cast(exp.paren(exp.Sub(this=value, expression=epoch), copy=False), Physical.INT32)

    def as_bytes(self, value: Sql) -> Sql:
        return function("encode", value)

    def base64(self, value: Sql) -> Sql:
        return function("from_base64", value)

    def whole_of_hex(self, digits: Sql) -> Sql:
        return self.cast(function("concat", text("0x"), digits), Physical.INT64)

    def item_at(self, array: Sql, index: int) -> Sql:
        return function("list_extract", array, number(index + 1))

    def failure(self, message: str, type: Physical) -> Sql:
        return function("error", text(message))


def _path(name: str) -> Sql:
    """A member's name; what is no plain name is quoted, or DuckDB reads a `$` or `/` at its start as a path."""
    return text(name if _PLAIN.match(name) else '$."{}"'.format(name.replace('"', '\\"')))


class SparkDocuments(DocumentDialect):
    """An object is a map of texts: only a map tells a member that is null from one that is not there."""

    types: ClassVar = {
        Physical.TEXT: "STRING",
        Physical.BYTES: "BINARY",
        Physical.BOOLEAN: "BOOLEAN",
        Physical.INT8: "TINYINT",
        Physical.INT16: "SMALLINT",
        Physical.INT32: "INT",
        Physical.INT64: "BIGINT",
        Physical.FLOAT: "FLOAT",
        Physical.DOUBLE: "DOUBLE",
        Physical.DECIMAL: "DECIMAL(38, 9)",
        Physical.POSITION: "DECIMAL(38, 0)",
    }

    def json_object(self, value: Sql, *, is_lenient: bool = False) -> Sql:
        fails = () if is_lenient else (function("map", text("mode"), text("FAILFAST")),)
        return function("from_json", value, text("MAP<STRING, STRING>"), *fails)

    def json_text(self, of: Sql, name: str) -> Sql:
        return exp.Bracket(this=of, expressions=[text(name)])

    def json_member(self, of: Sql, name: str) -> Sql:
        return self.json_object(self.json_text(of, name))

    def json_has(self, of: Sql, name: str) -> Sql:
        return function("map_contains_key", of, text(name))

    def micros(self, value: Sql, clock: InstantForm) -> Sql:
        if clock is InstantForm.LOCAL:  # a cast would take it to be in the session's zone
            value = function("concat", self.cast(value, Physical.TEXT), text("Z"))
        return function("unix_micros", value if clock is InstantForm.ZONED else exp.cast(value, "TIMESTAMPTZ"))

    def days(self, value: Sql) -> Sql:
        return function("unix_date", value)

    def base64(self, value: Sql) -> Sql:
        # `unbase64` reads what is no base64
        return function("to_binary", value, text("base64"))

    def whole_of_hex(self, digits: Sql) -> Sql:
        return self.cast(function("conv", digits, number(16), number(10)), Physical.INT64)

    def item_at(self, array: Sql, index: int) -> Sql:
        return function("get", array, number(index))

    def failure(self, message: str, type: Physical) -> Sql:
        return function("raise_error", text(message))

    whole_match: ClassVar = (exp.Literal.number(0),)
    encoding: ClassVar = (exp.Literal.string("UTF-8"),)


class BigQueryDocuments(DocumentDialect):
    """JSON_VALUE of null, and of a member that is not there, is null."""

    types: ClassVar = {
        Physical.TEXT: "STRING",
        Physical.BYTES: "BYTES",
        Physical.BOOLEAN: "BOOL",
        Physical.INT8: "INT64",
        Physical.INT16: "INT64",
        Physical.INT32: "INT64",
        Physical.INT64: "INT64",
        Physical.DOUBLE: "FLOAT64",
        Physical.DECIMAL: "NUMERIC",
        Physical.POSITION: "BIGNUMERIC",
    }

    def json_object(self, value: Sql, *, is_lenient: bool = False) -> Sql:
        rounds = exp.Kwarg(this=exp.Var(this="wide_number_mode"), expression=text("round"))
        return function("SAFE.PARSE_JSON" if is_lenient else "PARSE_JSON", value, rounds)

    def json_text(self, of: Sql, name: str) -> Sql:
        return function("JSON_VALUE", of, text(f"$.{name}" if _PLAIN.match(name) else '$."{}"'.format(name.replace('"', '\\"'))))

    def any_json_text(self, of: Sql, name: str) -> Sql:
        member = self.json_member(of.copy(), name)
        is_nested = exp.In(this=function("JSON_TYPE", member), expressions=[text("object"), text("array")])
        return only_if(is_nested, function("TO_JSON_STRING", member.copy()), self.json_text(of, name))

    def json_member(self, of: Sql, name: str) -> Sql:
        return exp.Dot(this=of, expression=identifier(name))

    def json_has(self, of: Sql, name: str) -> Sql:
        member = exp.Is(this=self.json_member(of, name), expression=exp.Null())
        return exp.not_(member, copy=False)

    def utf8(self, value: Sql) -> Sql:
        return self.cast(value, Physical.TEXT)

    def micros(self, value: Sql, clock: InstantForm) -> Sql:
        if clock is InstantForm.LOCAL:
            value = function("TIMESTAMP", value)
        return function("UNIX_MICROS", exp.cast(value, "TIMESTAMPTZ") if clock is InstantForm.TEXT else value)

    def days(self, value: Sql) -> Sql:
        return function("UNIX_DATE", value)

    hex_digits: ClassVar[str] = "TO_HEX"

    def base64(self, value: Sql) -> Sql:
        return function("FROM_BASE64", value)

    def whole_of_hex(self, digits: Sql) -> Sql:
        return self.cast(function("CONCAT", text("0x"), digits), Physical.INT64)

    def item_at(self, array: Sql, index: int) -> Sql:
        return exp.Bracket(this=array, expressions=[number(index)], offset=0, safe=True)

    def failure(self, message: str, type: Physical) -> Sql:
        return self.cast(function("ERROR", text(message)), type)
