"""Random events of Debezium, as text: of one form mostly, with every type, odd values, and text that is none.

`batch` makes what a source says in a row: one shape of envelope, columns that are always the same, values that vary.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from random import Random
from typing import Any

from cdc_views.model.schema import Column, Role, TableSchema
from cdc_views.model.types import Kind, ListOf, Scalar

MARK = "__debezium_unavailable_value"
_TEXTS = ['"abc"', '""', '"a b"', '"☃ é"', '"\\n\\"x\\"\\\\"', '"\\ud83d\\ude00"', '"\\u0041"', '"n"', '"0x"', '"null"']
_ODD_TEXTS = ['"\\ud800"', "5", "1.50", "true", '{"a":1}', "[1]", "-0", f'"{MARK}"', '"X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="']
_NUMBERS = ["0", "1", "-1", "5", "12", "-128", "99"]
_ODD_NUMBERS = [
    "-0",
    "-0.0",
    "1.0",
    "1.5",
    "1e2",
    '"7"',
    "true",
    '""',
    "99999999999",
    "9223372036854775807",
    "9223372036854775808",
    "[]",
]
_FRACTIONS = ["0.1", "-0.0", "1.5", "1e2", "-2E-3", "3", "0", "-0", "0.3333333333333333", "123456789012345678901"]
_ODD_FRACTIONS = ["1e400", "1e39", "1e-400", '"NaN"', '"Infinity"', '"1.5"', "false", '"x"', "16777217"]
_STAMPS = ['"2024-01-02 03:04:05"', '"2024-01-02T03:04:05.123456Z"', '"1969-12-31 23:59:59.9+00"', '"9999-12-31 23:59:59"']
_ODD_STAMPS = [
    '"2024-02-30 00:00:00"', '"2024-01-02 24:00:00"', '"2024-01-02 03:04:60"', '"infinity"', '"2024-01-02 03:04:05+02"',
    '"0044-03-15 00:00:00 BC"', '"2024-01-02"', '"x"', '"+12024-01-02 03:04:05"', "0", "5", "100000000000000",
    "253402300799999", "253402300800000", "9223372036825200", "9223372036825200000", "-9223372036832400000", "1.5",
]  # fmt: skip
_COUNTED = ["1704164645123456", "1704164645123457", "1604164645000000"]
_DECIMALS = ["0.10", "12345678901234567890.12", "-0.00", "-7", "1.5", "0", "-0", "1.50", "9007199254740993.01"]
_ODD_DECIMALS = [
    "1.005",
    "1.500",
    "1e3",
    '"1.5"',
    '"/w=="',
    '"B1vNFQ=="',
    '{"scale":2,"value":"/w=="}',
    "true",
    '"NaN"',
    "0.0000001",
]
_UNSCALED = ['"/w=="', '"B1vNFQ=="', '"AA=="', '"AAAAAf8="', '"jv////////////8B"', '"Opg="']
_UUID = '"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"'
_ODD_UUIDS = [
    _UUID.upper(),
    _UUID.replace("-", ""),
    '"{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a}"',
    '"8ca0f8a2-8ac5-3b5f-8cf2-b5ee2d2b6d7e"',
    "5",
]
_LISTS = ["[]", "[1]", '["5",null]', "[ 1, 2 ]", "null"]
_ODD_LISTS = ["[1,,2]", "[1.5]", "[[1]]", '["]",{}]', '{"a":1,"a":2}', f'["{MARK}"]', "5", '["a\\"b"]']
_BLOBS = ['"0xdeadbeef"', '"0x"', '"3q2+7w=="', '""']

VALUES: dict[Kind, tuple[list[str], list[str]]] = {
    **dict.fromkeys((Kind.TEXT, Kind.ASCII), (_TEXTS, _ODD_TEXTS)),
    Kind.JSON: (['"{\\"a\\": 1}"', '"[]"', '""'], ['{"a":1.0}', "[1,2]", "1.10", '"\\ud800"']),
    **dict.fromkeys((Kind.TINYINT, Kind.SMALLINT, Kind.INT, Kind.BIGINT, Kind.VARINT), (_NUMBERS, _ODD_NUMBERS)),
    **dict.fromkeys((Kind.FLOAT, Kind.DOUBLE), (_FRACTIONS, _ODD_FRACTIONS)),
    Kind.BOOLEAN: (["true", "false"], ["1", "0", '"true"', '"x"', "2"]),
    Kind.DATE: (['"2024-02-29"', '"1969-12-31Z"', '"9999-12-31"'], ['"2024-02-30"', "19782", "-735160", '"x"', '"infinity"']),
    Kind.TIME: (['"12:34:56"', '"-838:59:59.5"'], ["45296789000", "5", '"25:00:00Z"', '"x"']),
    **dict.fromkeys((Kind.DATETIME, Kind.INSTANT), (_STAMPS, _ODD_STAMPS)),
    Kind.DURATION: (['"P1DT2H"', "93784000000"], ['"1mo"', '"x"']),
    Kind.DECIMAL: (_DECIMALS, _ODD_DECIMALS),
    Kind.UUID: ([_UUID, _UUID.replace("11", "12")], _ODD_UUIDS),
    Kind.INET: (['"10.0.0.1"', '"::1"'], ['"::1/128"', '"10.0.0.0/8"', "5"]),
    Kind.BLOB: (_BLOBS, ['"zz"', '"0xz"', "5"]),
}
"""JSON texts by kind: what is mostly there, and what is not."""
_CONNECT: dict[Kind, dict[str, Any]] = {
    Kind.INT: {"type": "int32"},
    Kind.BIGINT: {"type": "int64"},
    Kind.DATETIME: {"type": "int64", "name": "io.debezium.time.MicroTimestamp"},
    Kind.DECIMAL: {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}},
    Kind.BLOB: {"type": "bytes"},
    Kind.DOUBLE: {"type": "double"},
}


def schema(rng: Random) -> TableSchema:
    """A table of one or two key columns and some others, of any scalar type."""
    kinds = list(VALUES)
    keys = [rng.choice([Kind.INT, Kind.TEXT, rng.choice(kinds)]) for _ in range(rng.choice([1, 1, 2]))]
    columns = [Column(f"k{i}", _scalar(kind, rng), Role.PARTITION) for i, kind in enumerate(keys)]
    others = rng.sample(kinds, rng.randint(1, 6))
    regulars = [Column(f"c {i}", _scalar(kind, rng)) for i, kind in enumerate(others)]
    if rng.random() < 0.3:
        regulars.append(Column("list", ListOf(Scalar(rng.choice([Kind.INT, Kind.TEXT])), frozen=rng.random() < 0.9)))
    return TableSchema("public", "t", (*columns, *regulars))


def _scalar(kind: Kind, rng: Random) -> Scalar:
    return Scalar(kind, rng.choice([None, 2, 0, 4])) if kind is Kind.DECIMAL else Scalar(kind)


@dataclass
class Texts:
    """Events of one shape; `oddness` is how often a value is an odd one, `decay` how often the text is broken."""

    schema: TableSchema
    rng: Random
    oddness: float = 0.05
    decay: float = 0.02
    connector: str = field(init=False)

    def __post_init__(self) -> None:
        rng = self.rng
        self.connector = rng.choice(["postgresql", "postgresql", "mysql", "mariadb", "ours"])
        self.is_line, self.has_schema, self.is_counted = rng.random() < 0.5, rng.random() < 0.3, rng.random() < 0.5
        self.blank, self.transaction = rng.choice(["", "", " "]), rng.choice(["null", "object", "none", "bare"])
        self.snapshot = rng.choice(['"false"', '"false"', '"true"', "null", "none"])
        self.before = rng.choice(["null", "whole", "key", "none"])
        self.is_flat, self.has_tombstones = rng.random() < 0.3, rng.random() < 0.5
        self.key_form = rng.choice(["object", "object", "envelope", "scalar", "other"])
        self.prefix = rng.choice(["__", "__", "__source_"])
        self.timestamp = rng.random() < 0.5
        self.clock = rng.choice(["both", "source", "event", "none"])
        self.left_out = rng.choice([*self.schema.columns, None, None, None])

    def batch(self, size: int) -> list[bytes]:
        """Events in a row."""
        return [self._broken(self.event(number)) for number in range(1, size + 1)]

    def event(self, number: int) -> str:
        row = self._row(is_key=True) | self._row(is_key=False)
        value = self._flat(number, row) if self.is_flat else self._envelope(number, row)
        if self.has_schema:
            value = self._object({"schema": json.dumps(self._declared()), "payload": value})
        if not self.is_line:
            return value
        if self.has_tombstones and self.rng.random() < 0.3:
            value = "null"
        line = {"topic": '"lab.public.t"', "partition": str(number % 2), "offset": self._odd(str(number), ["null", '"5"', "-1"])}
        if self.timestamp:
            line["timestamp"] = self._odd(str(1_795_251_447_000 + number), ["null", "0", "9999999999999"])
        return self._object(line | {"key": self._key(row), "value": value})

    def _key(self, row: dict[str, str]) -> str:
        keys = {name: text for name, text in row.items() if name.startswith("k")}
        if self.key_form == "scalar" and keys:
            return next(iter(keys.values()))
        if self.key_form == "envelope":
            return self._object({"schema": json.dumps(self._declared()["fields"][0]), "payload": self._object(keys)})
        return self._object(keys | ({"x": "[1]"} if self.key_form == "other" else {}))

    def _flat(self, number: int, row: dict[str, str]) -> str:
        metadata = {"op": self.rng.choice(['"c"', '"c"', '"r"', '"u"']), "txId": str(number)}
        if self.connector == "postgresql":
            metadata["lsn"] = self._odd(str(number << 20), ["null", '"9"'])
        elif self.connector == "mysql":
            metadata |= {"file": self._odd('"bin.000012"', ["null", '"x"']), "pos": str(number), "row": self._odd("2", ["null"])}
        if self.transaction == "object":
            metadata["total_order"] = self._odd(str(number), ["null"])
        if self.clock in ("both", "source"):
            metadata["ts_ms"] = self._odd(str(1_795_251_447_000 + number), ["5", "null", '"7"'])
        if self.clock in ("both", "event"):
            metadata["ts_us"] = self._odd(str(1_795_251_447_000_000 + number), ["5", "null", "9999999999999999"])
        if self.before == "key":
            metadata["deleted"] = self.rng.choice(['"false"', '"true"'])
        if self.before == "whole":
            metadata |= {"table": self._odd('"t"', ['"other"']), "connector": f'"{self.connector}"'}
        return self._object(row | {self.prefix + name: text for name, text in metadata.items()})

    def _envelope(self, number: int, row: dict[str, str]) -> str:
        op = self.rng.choices("curdt", [6, 4, 1, 3, 0.2])[0]
        before = self._before(op, row)
        members = {"before": before, "after": "null" if op in "dt" else self._object(row), "source": self._source(number)}
        if self.transaction != "none":
            members["transaction"] = self._transaction(number)
        members["op"] = f'"{op}"'
        if self.clock in ("both", "event"):
            members["ts_ms"] = self._odd(str(1_795_251_447_603 + number), ["0", "null", '"5"', "9999999999999"])
        return self._object({name: text for name, text in members.items() if text != "none"})

    def _before(self, op: str, row: dict[str, str]) -> str:
        if self.before in ("null", "none") and op != "d":
            return self.before
        old = dict(row)
        if self.rng.random() < 0.1:
            old |= self._row(is_key=True)
        return self._object(old if self.before == "whole" else {name: old[name] for name in old if name.startswith("k")})

    def _row(self, *, is_key: bool) -> dict[str, str]:
        columns = [column for column in self.schema.columns if column.is_key is is_key and column is not self.left_out]
        return {column.name: self._value(column) for column in columns}

    def _value(self, column: Column) -> str:
        if not isinstance(column.type, Scalar):
            return self._odd(self.rng.choice(_LISTS), _ODD_LISTS)
        plain, odd = VALUES[column.type.kind]
        if column.type.kind in (Kind.DATETIME, Kind.INSTANT) and self.is_counted:
            plain = _COUNTED
        if column.type.kind is Kind.DECIMAL and self.has_schema:
            plain = _UNSCALED
        if not column.is_key and self.rng.random() < 0.1:
            return "null"
        return self._odd(self.rng.choice(plain), [*odd, "null", '"x"', "[1,2]"])

    def _odd(self, plain: str, odd: list[str]) -> str:
        return self.rng.choice(odd) if self.rng.random() < self.oddness else plain

    def _source(self, number: int) -> str:
        source = {"version": '"3.6.0.Final"', "connector": f'"{self.connector}"', "name": '"lab"', "db": '"lab"'}
        if self.clock in ("both", "source"):
            source["ts_ms"] = self._odd(str(1_795_251_447_000 + number), ["0", "null", '"1795251447000"', "-1", "9999999999999"])
        if self.snapshot != "none":
            source["snapshot"] = self.snapshot
        source |= {"schema": '"public"', "table": self._odd('"t"', ['"other"', "null"]), "sequence": '"[null,\\"2\\"]"'}
        if self.connector == "postgresql":
            lsn = str(self.rng.choice([number, 1 << 40, (1 << 63) + number]))
            return self._object(source | {"txId": str(number), "lsn": self._odd(lsn, ["null", '"9"', "18446744073709551616"])})
        source["db"] = '"public"'
        del source["schema"]
        file = self._odd('"mysql-bin.000012"', ['"bin.x"', '"7"', "null", '"bin.000013"'])
        source |= {
            "file": file,
            "pos": self._odd(str(number * 7), ["1099511627776", "null"]),
            "row": self._odd("3", ["null", "0"]),
        }
        if self.connector == "ours":
            epoch = self._odd("1", ["2", "null"])
            source |= {"connector": '"mariadb"', "order": f"[{epoch},{number},{self._odd('2', ['4294967296', '0'])}]"}
        return self._object(source)

    def _transaction(self, number: int) -> str:
        if self.transaction == "null":
            return "null"
        order = {} if self.transaction == "bare" else {"total_order": self._odd(str(number), ["null", "0", '"3"', "4294967295"])}
        return self._object({"id": f'"{number}:7"', **order})

    def _declared(self) -> dict[str, Any]:
        fields = [
            {**_CONNECT.get(getattr(c.type, "kind", Kind.TEXT), {"type": "string"}), "field": c.name} for c in self.schema.columns
        ]
        if self.is_flat:
            return {"type": "struct", "fields": fields, "name": "lab.public.t.Value"}
        images = [{"type": "struct", "fields": fields, "field": name} for name in ("before", "after")]
        return {"type": "struct", "fields": images, "name": "lab.public.t.Envelope"}

    def _object(self, members: dict[str, str]) -> str:
        return f"{{{(',' + self.blank).join(f'{json.dumps(name)}:{self.blank}{text}' for name, text in members.items())}}}"

    def _broken(self, text: str) -> bytes:
        if self.rng.random() >= self.decay:
            return text.encode()
        at = self.rng.randrange(len(text))
        broken = [
            text[:at], text[:at] + text[at + 1 :], "\ufeff" + text, text + " ", text + "x", text.replace('"op"', '"op":"c","op"'),
            text.replace('"op"', '"op":"d", "Op"'), text.replace("1", "NaN", 1), text.replace('"source"', '"x":[],"source"'),
            text.replace('"after"', '"after\\u0000"'), text.replace("\"k0\"", '"\\u006b0"'), text.replace('"lab"', '"\t"'),
        ]  # fmt: skip
        return self.rng.choice([*(part.encode() for part in broken), text.encode()[:at] + b"\xff" + text.encode()[at:]])


__all__ = ["MARK", "VALUES", "Texts", "schema"]
