"""A cdc_raw folder captured from a Cassandra 5.0.9, and copies of its segments under ids of their own."""

from __future__ import annotations

import json
import struct
import tarfile
import zlib
from pathlib import Path

from cdc_producers.cassandra.segments import index_of

from helpers.cassandra_tables import PROJECT, SCHEMA, TABLES, canonical
from helpers.command_line import CommandLine
from helpers.comparing import only_one_has

ARCHIVE = Path(__file__).parents[1] / "data" / "cassandra_cdc.tar.xz"
CAPTURED = 1795318085228
"""The segment: the random workload of `cassandra_tables`, then 5,000 inserts into shop.sales."""
_MARKER = 8
_HEAD = struct.Struct(">iqh")


def unpacked(folder: Path) -> Path:
    """Unpack the capture into a folder: segments and indexes, schema.cql, expected.json."""
    with tarfile.open(ARCHIVE) as packed:
        packed.extractall(folder, filter="data")
    return folder / "cassandra_cdc"


def log_of(folder: Path, number: int) -> Path:
    """Where a segment is."""
    return folder / f"CommitLog-7-{number}.log"


def copy(log: Path, to: Path, number: int, *, is_complete: bool = True) -> Path:
    """Copy a segment under another id: header and sync markers hold the id in their checksums, mutations do not.

    Source: Cassandra 5.0, `CommitLogDescriptor.writeHeader`, `CommitLogSegment.writeSyncMarker`.
    """
    content = bytearray(log.read_bytes())
    version, _, size = _HEAD.unpack_from(content)
    low, high = number & 0xFFFFFFFF, number >> 32
    struct.pack_into(">q", content, 4, number)
    crc = zlib.crc32(struct.pack(">iIIi", version, low, high, size) + content[_HEAD.size : _HEAD.size + size])
    struct.pack_into(">I", content, _HEAD.size + size, crc)
    at = _HEAD.size + size + 4
    while at <= len(content) - _MARKER:
        end, found = struct.unpack_from(">iI", content, at)
        if end == found == 0:
            break
        struct.pack_into(">I", content, at + 4, zlib.crc32(struct.pack(">IIi", low, high, at)))
        at = end
    path = log_of(to, number)
    path.write_bytes(content)
    index_of(path).write_text(f"{len(content)}\nCOMPLETED" if is_complete else str(len(content)))
    return path


def project(folder: Path, capture: Path) -> None:
    """Write a project of the workload's tables, as they were when the capture ended."""
    alters = [line for line in (capture / "schema.cql").read_text().splitlines() if line.startswith("ALTER")]
    (folder / "shop.cql").write_text("\n".join([SCHEMA, "ALTER TABLE shop.orders ADD extra int;", *alters, ""]))
    (folder / "cdc_views.yml").write_text(PROJECT)


def differences(run: CommandLine, capture: Path) -> list[str]:
    """The rows that only one of the views and the node's answer has, at the instant of the answer."""
    expected, found = json.loads((capture / "expected.json").read_text("utf-8")), []
    for table in TABLES:
        answer = run("query", table, "--as-of", str(expected["as_of"]), "--format", "jsonl")
        assert answer.code == 0, answer.err
        found += only_one_has(table, map(canonical, expected["rows"][table]), map(canonical, answer.out.splitlines()))
    return found
