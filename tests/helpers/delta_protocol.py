"""What Delta's protocol asks of whoever writes a table, checked entry by entry of its log; `violations` is empty if all holds.

Source: Delta's PROTOCOL.md at 00a891a: "Add File and Remove File", "Action Reconciliation", "Table Features",
"Deletion Vectors", "Per-file Statistics", "Data Files". It decodes deletion vectors itself, and so trusts nothing that it checks.
"""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from uuid import UUID

import pyarrow.parquet as pq
from pyroaring import BitMap

Action = Mapping[str, Any]
_KNOWN = {"commitInfo", "protocol", "metaData", "add", "remove", "txn", "domainMetadata"}
_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_B85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_ADDED = {"path": str, "partitionValues": dict, "size": int, "modificationTime": int, "dataChange": bool}
_REMOVED = {"path": str, "dataChange": bool, "deletionTimestamp": int}
_REMOVED_IN_FULL = {"partitionValues": dict, "size": int, "tags": dict}


@dataclass
class _Table:
    """The table at one version."""

    protocol: Action = field(default_factory=dict)
    metadata: Action = field(default_factory=dict)
    files: dict[str, Action] = field(default_factory=dict)


def violations(folder: Path, *, since: int = 0) -> list[str]:
    """Return what breaks the protocol in the entries from version `since` on, of a log that has every entry."""
    table, found = _Table(), list[str]()
    entries = sorted((folder / "_delta_log").glob("0*.json"))
    for version, entry in enumerate(entries):
        if int(entry.stem) != version:
            return [f"{version}: the log lacks this entry"]
        actions = [json.loads(line) for line in entry.read_text("utf-8").splitlines()]
        told = [f"{version}: {text}" for text in _of_entry(folder, table, actions)]
        found += told if version >= since else []
        _apply(table, actions)
    return found


def _of_entry(folder: Path, table: _Table, actions: list[Action]) -> Iterator[str]:
    if odd := [list(action) for action in actions if len(action) != 1 or not _KNOWN.issuperset(action)]:
        yield f"actions that do not exist: {odd}"
        return
    kinds = Counter(next(iter(action)) for action in actions)
    yield from (f"{kinds[kind]} of {kind}" for kind in ("commitInfo", "protocol", "metaData") if kinds[kind] > 1)
    if not actions or "commitInfo" not in actions[0] or not {"timestamp", "operation"} <= actions[0]["commitInfo"].keys():
        yield "commitInfo is not first, or tells no time and operation"
    names = Counter(action["txn"]["appId"] for action in actions if "txn" in action)
    yield from (f"{count} transactions of {name}" for name, count in names.items() if count > 1)
    after = _Table(table.protocol, table.metadata)
    _apply(after, [action for action in actions if {"protocol", "metaData"} & action.keys()])
    yield from _of_features(after)
    adds = [action["add"] for action in actions if "add" in action]
    removes = [action["remove"] for action in actions if "remove" in action]
    yield from _of_files(table, adds, removes)
    yield from _of_rearranged(folder, adds, removes)
    for add in adds:
        yield from (f"{add['path']}: {text}" for text in _of_added(folder, after, add))
    for remove in removes:
        yield from (f"{remove['path']}: {text}" for text in _of_removed(table, remove))


def _of_features(table: _Table) -> Iterator[str]:
    protocol = table.protocol
    for kind, version in (("reader", 3), ("writer", 7)):
        is_listed, is_of_lists = f"{kind}Features" in protocol, protocol.get(f"min{kind.title()}Version", 0) >= version
        if is_listed != is_of_lists:
            yield f"the protocol's {kind} features and its versions disagree"
    if alone := set(protocol.get("readerFeatures", ())) - set(protocol.get("writerFeatures", ())):
        yield f"features of readers alone: {sorted(alone)}"


def _of_files(table: _Table, adds: list[Action], removes: list[Action]) -> Iterator[str]:
    for kind, actions in (("add", adds), ("remove", removes)):
        yield from (f"{path} in {count} of {kind}" for path, count in Counter(map(_path, actions)).items() if count > 1)
    if both := {*map(_logical, adds)} & {*map(_logical, removes)}:
        yield f"added and removed at once: {sorted(map(str, both))}"
    gone = {*map(_logical, removes)}
    for add in adds:
        known = table.files.get(_path(add))
        if known is not None and _vector(known) != _vector(add) and _logical(known) not in gone:
            yield f"{add['path']}: added with another deletion vector, and not removed with its own"


def _of_rearranged(folder: Path, adds: list[Action], removes: list[Action]) -> Iterator[str]:
    """Without a data change, the rows of a version's added files are those of its removed files."""
    if {action.get("dataChange") for action in (*adds, *removes)} != {False}:
        return
    if not all((folder / _path(action)).exists() for action in (*adds, *removes)):
        return
    added, removed = (sum((_rows(folder, action) for action in actions), Counter[str]()) for actions in (adds, removes))
    if added != removed:
        yield f"{(added - removed).total()} rows came and {(removed - added).total()} went without a data change"


def _rows(folder: Path, action: Action) -> Counter[str]:
    stored, vector = pq.ParquetFile(folder / _path(action)).read(), action.get("deletionVector")
    hidden = set() if vector is None else set(_positions((folder / _file_of(vector)).read_bytes(), vector))
    names = sorted(stored.column_names)
    values = action["partitionValues"]
    rows = stored.select(names).to_pylist()
    return Counter(repr((values, row)) for position, row in enumerate(rows) if position not in hidden)


def _of_added(folder: Path, table: _Table, add: Action) -> Iterator[str]:
    yield from _typed(add, _ADDED)
    if set(add["partitionValues"]) != set(table.metadata["partitionColumns"]):
        yield f"partition values of {sorted(add['partitionValues'])}"
    stats, vector, file = json.loads(add.get("stats") or "{}"), add.get("deletionVector"), folder / _path(add)
    if file.exists():  # else it was removed since
        if file.stat().st_size != add["size"]:
            yield f"has {file.stat().st_size} bytes, not {add['size']}"
        if pq.read_metadata(file).num_rows != stats.get("numRecords"):
            yield f"has {pq.read_metadata(file).num_rows} rows, not {stats.get('numRecords')}"
    if vector is not None:
        if stats.get("tightBounds", True) and {"minValues", "maxValues"} & stats.keys():
            yield "bounds of values are called tight"
        yield from _of_vector(folder, table, vector, rows=int(stats.get("numRecords") or 0))


def _of_vector(folder: Path, table: _Table, vector: Action, *, rows: int) -> Iterator[str]:
    if not all("deletionVectors" in table.protocol.get(f"{kind}Features", ()) for kind in ("reader", "writer")):
        yield "a deletion vector, and the protocol has no such feature"
    if table.metadata["configuration"].get("delta.enableDeletionVectors") != "true":
        yield "a new deletion vector, and the table's setting forbids them"
    yield from _typed(vector, {"storageType": str, "pathOrInlineDv": str, "sizeInBytes": int, "cardinality": int})
    if vector["storageType"] != "u":
        yield "a deletion vector that is in no file of the table"
        return
    place = folder / _file_of(vector)
    if not place.exists():  # its data file got another one, or went, and a vacuum removed it
        return
    try:
        positions = _positions(place.read_bytes(), vector)
    except ValueError as error:
        yield f"{place.name}: {error}"
        return
    if len(positions) != vector["cardinality"] or not positions:
        yield f"{place.name} hides {len(positions)} rows, not {vector['cardinality']}"
    if positions and max(positions) >= rows:
        yield f"{place.name} hides row {max(positions)} of {rows}"


def _of_removed(table: _Table, remove: Action) -> Iterator[str]:
    yield from _typed(remove, _REMOVED | (_REMOVED_IN_FULL if remove.get("extendedFileMetadata") else {}))
    known = table.files.get(_path(remove))
    if known is None or _logical(known) != _logical(remove):
        yield "removed, and not there with this deletion vector"
    elif any(remove.get(name, known[name]) != known[name] for name in ("size", "partitionValues")):
        yield "removed with another size or partition than it has"


def _typed(action: Action, kinds: Mapping[str, type]) -> Iterator[str]:
    # bool is an int in Python, not in Delta
    yield from (f"{name} is {action.get(name)!r}" for name, kind in kinds.items() if type(action.get(name)) is not kind)


def _apply(table: _Table, actions: list[Action]) -> None:
    for action in actions:
        table.protocol = action.get("protocol", table.protocol)
        table.metadata = action.get("metaData", table.metadata)
        if "remove" in action:
            table.files.pop(_path(action["remove"]), None)
    table.files |= {_path(action["add"]): action["add"] for action in actions if "add" in action}


def _path(action: Action) -> str:
    return unquote(action["path"])


def _vector(action: Action) -> str | None:
    """The unique id of a deletion vector."""
    vector = action.get("deletionVector")
    if vector is None:
        return None
    return f"{vector['storageType']}{vector['pathOrInlineDv']}" + (f"@{vector['offset']}" if "offset" in vector else "")


def _logical(action: Action) -> tuple[str, str | None]:
    return _path(action), _vector(action)


def _file_of(vector: Action) -> str:
    name = str(vector["pathOrInlineDv"])
    bits = base64.b85decode(name[-20:].translate(str.maketrans(_Z85, _B85)))
    return f"{name[:-20]}{'/' if name[:-20] else ''}deletion_vector_{UUID(bytes=bits)}.bin"


def _positions(content: bytes, vector: Action) -> list[int]:
    """Return the positions of a vector, given its file; raises `ValueError`. Source: "Deletion Vector Format"."""
    start, size = int(vector.get("offset") or 0), int(vector["sizeInBytes"])
    data = content[start + 4 : start + 4 + size]
    if content[:1] != b"\x01" or start < 1 or content[start : start + 4] != struct.pack(">i", size):
        raise ValueError("another version, or another size, than the log says")
    if content[start + 4 + size : start + 8 + size] != struct.pack(">I", zlib.crc32(data)):
        raise ValueError("another checksum")
    magic, count = struct.unpack("<iq", data[:12])
    if magic != 1681511377:
        raise ValueError("another magic number")
    found, at = list[int](), 12
    for _ in range(count):
        (key,) = struct.unpack("<I", data[at : at + 4])
        bits = BitMap.deserialize(data[at + 4 :])
        found += [(key << 32) + low for low in bits]
        at += 4 + len(bits.serialize())
    if at != len(data):
        raise ValueError("more bytes than bitmaps")
    return found
