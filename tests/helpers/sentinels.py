"""Events whose columns with a policy hold words that occur nowhere else, whole and broken, and a search for these words."""

from __future__ import annotations

import base64
import copy
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

KEY = "a key of sixteen letters and more"
HASHED, LEFT_OUT, MASKED = "zqhashkw", "zqgonekw", "7310955"
"""Parts of every value of the columns email, ssn (and tags), phone."""
SQL = "CREATE TABLE shop.customers (id bigint PRIMARY KEY, email text, ssn text, phone bigint, note text);"
CQL = (
    "CREATE TABLE shop.customers (id int, seq int, email text, ssn text, phone bigint, tags set<text>, note text, "
    "PRIMARY KEY (id, seq));"
)
FORMATS = ("debezium", "key-value", "debezium-cassandra", "cassandra-mutation")
POLICIES: dict[str, Any] = {
    "email": {"policy": "hash", "key": "${EMAIL_KEY}"},
    "ssn": {"policy": "leave_out"},
    "phone": {"policy": "mask"},
}
Document = dict[str, Any]


def schema_of(format: str) -> str:
    """The schema of the format's source."""
    return CQL if "cassandra" in format else SQL


def policies_of(format: str) -> dict[str, Any]:
    """The policies of the table's columns, for a project file."""
    return POLICIES | ({"tags": {"policy": "leave_out"}} if "cassandra" in format else {})


def row(number: int) -> Document:
    """A row of a relational source."""
    return {
        "id": number,
        "email": f"{HASHED}{number}@x",
        "ssn": f"{LEFT_OUT}{number}",
        "phone": int(f"{MASKED}{number:06}"),
        "note": f"note {number}",
    }


def event(format: str, number: int) -> Document:
    """A whole event about row `number`."""
    found = row(number)
    if format == "key-value":
        wrapped = found | {"email": {"string": found["email"]}}
        return {"key": {"id": number}, "value": wrapped, "topic": "t.customers", "offset": number}
    if format == "debezium":
        source = {"connector": "postgresql", "db": "shop", "schema": "shop", "table": "customers", "lsn": 100 + number}
        source["query"] = f"INSERT INTO customers VALUES ('{found['ssn']}')"
        return {"before": found, "after": found, "source": source, "op": "u", "ts_ms": 1}
    found["seq"] = 1
    if format == "debezium-cassandra":
        cells = {name: {"value": value, "deletion_ts": None, "set": True} for name, value in found.items()}
        cells["tags"] = {"value": [f"{LEFT_OUT}{number}"], "deletion_ts": None, "set": True}
        source = {"keyspace": "shop", "table": "customers", "ts_us": 10**15 + number, "cluster": "c", "file": "f", "pos": number}
        return {"op": "i", "ts_ms": 1_700_000_000_000, "source": source, "after": cells}
    written = 10**15 + number
    listed = [{"column": name, "written": written, "value": found[name]} for name in ("email", "ssn", "phone", "note")]
    listed[0] |= {"bytes": found["email"].encode().hex()}
    listed.append({"column": "tags", "path": f"{LEFT_OUT}{number}", "written": written})
    body = {"kind": "row", "clustering": {"seq": 1}, "liveness": {"written": written}, "cells": listed}
    return {
        "format": "cassandra-mutation/1", "node": "n1", "segment": 1, "position": number, "keyspace": "shop",
        "table": "customers", "partition": {"id": number}, "rows": [body],
    }  # fmt: skip


def enveloped(document: Document) -> Document:
    """A Debezium event with a schema beside it, whose defaults are values."""
    fields = [{"field": name, "type": "string", "optional": True, "default": f"{LEFT_OUT}0"} for name in ("email", "ssn", "note")]
    images = [{"field": name, "type": "struct", "fields": fields} for name in ("before", "after")]
    return {"schema": {"type": "struct", "fields": images}, "payload": document}


def _rows_in(document: Any) -> Iterator[Document]:
    if isinstance(document, dict):
        if "ssn" in document or "column" in document:
            yield document
        for part in document.values():
            yield from _rows_in(part)
    for part in document if isinstance(document, list) else ():
        yield from _rows_in(part)


def _in_rows(change: Callable[[Document], object]) -> Callable[[Document, random.Random], bytes]:
    def broken(document: Document, rng: random.Random) -> bytes:
        for found in list(_rows_in(document)):
            change(found)
        return json.dumps(document).encode()

    return broken


def _cut(document: Document, rng: random.Random) -> bytes:
    text = json.dumps(document).encode()
    return text[: rng.randrange(len(text) // 2, len(text))]


def _without_a_member(document: Document, rng: random.Random) -> bytes:
    document.pop(rng.choice(list(document)))
    return json.dumps(document).encode()


def _as_text(document: Document, rng: random.Random) -> bytes:
    name = rng.choice(list(document))
    document[name] = json.dumps(document[name])
    return json.dumps(document).encode()


def _as_array(document: Document, rng: random.Random) -> bytes:
    name = next(one for one in ("after", "value", "rows") if one in document)
    rest = document[name]
    document[name] = list(rest.values()) if isinstance(rest, dict) else [[rest]]
    return json.dumps(document).encode()


BREAKAGES: dict[str, Callable[[Document, random.Random], bytes]] = {
    "whole": lambda document, _: json.dumps(document).encode(),
    "cut": _cut,
    "no UTF-8": lambda document, _: json.dumps(document).encode() + b"\xff",
    "a member twice": lambda document, _: b'{"ssn":"zqgonekw1","ssn":"zqgonekw2",' + json.dumps(document).encode()[1:],
    "no number": lambda document, _: json.dumps(document).encode()[:-1] + b',"ssn":NaN}',
    "an array": lambda document, _: json.dumps([document]).encode(),
    "a text": lambda document, _: json.dumps(json.dumps(document)).encode(),
    "wrapped": lambda document, _: json.dumps({"data": document}).encode(),
    "without a member": _without_a_member,
    "a member as text": _as_text,
    "a row as array": _as_array,
    "another table": lambda document, _: json.dumps(document).replace("customers", "others").encode(),
    "wrong key": _in_rows(lambda found: found.update(id="no number", value="zqgonekw7") if "id" in found else None),
    "other case": _in_rows(lambda found: found.update({"SSN": found.pop("ssn")}) if "ssn" in found else None),
    "other case of a cell": _in_rows(lambda found: found.update(column=found["column"].upper()) if "column" in found else None),
    "values of other types": _in_rows(
        lambda found: found.update(ssn={"a": ["zqgonekw8"]}, phone="x") if "ssn" in found else None
    ),
    "a new column": _in_rows(lambda found: found.update(fresh=1) if "ssn" in found else None),
    "a new column with a row": _in_rows(lambda found: found.update(old={"ssn": "zqgonekw9"}) if "ssn" in found else None),
    "a new column with a row as text": _in_rows(
        lambda found: found.update(old=json.dumps({"ssn": "zqgonekw9"})) if "ssn" in found else None
    ),
    "a problem": lambda document, _: json.dumps({"_problem": "zqgonekw1 is bad", "key": None, "value": document}).encode(),
    "a schema beside it": lambda document, _: json.dumps(enveloped(document)).encode(),
    "an unreadable mutation": lambda document, _: json.dumps(
        document | {"unreadable": {"reason": "short", "bytes": b"zqgonekw1".hex()}}
    ).encode(),
    "a tombstone with a value": _in_rows(lambda found: found.update(deleted_at=1) if "column" in found else None),
    "a cell of no bytes": _in_rows(lambda found: found.update(bytes="zqgonekw") if found.get("column") == "ssn" else None),
}


def broken(format: str, name: str, number: int) -> bytes:
    """An event, broken in a way of `BREAKAGES`."""
    return BREAKAGES[name](copy.deepcopy(event(format, number)), random.Random(number)).replace(b"\n", b" ")


def spellings(word: str) -> list[bytes]:
    """How a word may be written inside other text or bytes."""
    plain = word.encode()
    coded = [base64.b64encode(b"x" * shift + plain + b"x" * 3).rstrip(b"=") for shift in range(3)]
    inner = [part[(4 if shift else 0) : 4 * ((shift + len(plain)) // 3)] for shift, part in enumerate(coded)]
    escaped = "".join(f"\\u{ord(letter):04x}" for letter in word).encode()
    return [plain, plain.hex().encode(), plain.hex().upper().encode(), word.encode("utf-16-le"), escaped, *filter(None, inner)]


def has_word(content: bytes, *words: str) -> bool:
    """Whether bytes hold a word in any spelling."""
    return any(spelling in content for word in words or (HASHED, LEFT_OUT, MASKED) for spelling in spellings(word))


def traces(folder: Path, *words: str, beside: str = "given") -> list[str]:
    """The files below a folder that hold one of the words; Parquet is read column by column. Files of `beside` are the input."""
    found = []
    for file in sorted(one for one in folder.rglob("*") if one.is_file() and beside not in one.relative_to(folder).parts):
        content = file.read_bytes()
        if file.suffix == ".parquet":
            content += b"".join(_bytes_of(pq.ParquetFile(file).read().to_pylist()))
        if has_word(content, *words):
            found.append(str(file.relative_to(folder)))
    return found


def _bytes_of(value: Any) -> Iterator[bytes]:
    if isinstance(value, dict):
        for name, part in value.items():
            yield from (str(name).encode(), *_bytes_of(part))
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _bytes_of(part)
    elif isinstance(value, bytes):
        yield value + b"\n"
    elif value is not None:
        yield f"{value}\n".encode()
