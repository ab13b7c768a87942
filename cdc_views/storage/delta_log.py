"""Delta's log of a table: its entries, and commits of our own, which can name deletion vectors.

A commit is one file that is created only if it does not exist yet. So of two writers of one version one wins, and the other
raises `ConflictError`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

from cdc_views.storage.conflicts import ConflictError
from cdc_views.storage.data_files import DataFile
from cdc_views.storage.deletion_vectors import FILES, read
from cdc_views.storage.places import Place, at_once, place_of, size_of, write_new

LOG = "_delta_log"
DRAFT = "_draft-"
"""What the name of a folder begins with in which an engine writes files before they get their places."""
_ENGINE = "cdc-views"
_ENTRIES_AT_ONCE = 64


DIGEST_BITS = 22
_DIGEST = "cdcViewsEntry"
"""The member of `commitInfo` with the digest of the entry that this one replaced."""


def digest_of(content: bytes) -> int:
    """Return the digest, above 0, of a log entry; of one that `in_place_of` wrote, that of the entry before."""
    if _DIGEST.encode() in content:
        for action in map(json.loads, filter(None, content.splitlines())):
            if noted := (action.get("commitInfo") or {}).get(_DIGEST):
                return int(noted)
    return int.from_bytes(sha256(content).digest()[:8], "big") % ((1 << DIGEST_BITS) - 1) + 1


def in_place_of(before: bytes, actions: Iterable[dict[str, Any]]) -> bytes:
    """Return an entry of `actions` that takes the place of another one and keeps its digest: it is the same commit."""
    written = list(actions)
    if not any("commitInfo" in action for action in written):
        written.append({"commitInfo": {}})
    info = next(action["commitInfo"] for action in written if "commitInfo" in action)
    info[_DIGEST] = digest_of(before)
    return b"".join(json.dumps(action, separators=(",", ":")).encode() + b"\n" for action in written)


def entry_of(folder: Place | str, version: int) -> Place:
    """Return the place of a version's log entry, which may be gone."""
    return place_of(folder) / LOG / f"{version:020d}.json"


def contents(folder: Place | str, versions: Iterable[int]) -> Iterator[tuple[int, bytes | None]]:
    """Yield the log entries of some versions, several read at once from a store; None for an entry that is gone."""

    def content(version: int) -> bytes | None:
        try:
            return entry_of(folder, version).read_bytes()
        except OSError:
            return None

    if isinstance(place_of(folder), Path):
        yield from ((version, content(version)) for version in versions)
        return
    asked = iter(versions)
    number = 1  # of entries asked for at once: who reads to the end of a log asks for few that are not there
    while some := list(islice(asked, number)):
        yield from zip(some, at_once(content, some), strict=True)
        number = min(2 * number, _ENTRIES_AT_ONCE)


@dataclass(frozen=True, slots=True)
class Commit:
    """The changes of one version. A file in both `removed` and `added` gets another deletion vector.

    Not `changes_data`: the files added have the rows of those removed, so that readers of changes pass them over.
    """

    operation: str
    added: tuple[DataFile, ...] = ()
    removed: tuple[DataFile, ...] = ()
    transactions: Mapping[str, int] = field(default_factory=dict)
    comment: str = ""
    changes_data: bool = True

    def write(self, folder: Place, *, after: int) -> bytes:
        """Commit to the table in `folder` as the version after `after`; return the entry. Raises `ConflictError` if it exists."""
        actions = self._actions(int(time.time() * 1000))
        content = "".join(f"{_text(action)}\n" for action in actions).encode()
        place = entry_of(folder, after + 1)
        try:
            write_new(place, content)
        except FileExistsError as error:
            # a store whose answer is lost is asked again, and finds the first request's object
            if place.read_bytes() != content:
                raise ConflictError(f"{folder}: another run committed first") from error
        return content

    def _actions(self, now: int) -> Iterator[dict[str, Any]]:
        comment = {"comment": self.comment} if self.comment else {}
        # the id tells this entry from any other writer's
        named = {"operation": self.operation, "operationParameters": {}, "engineInfo": _ENGINE, "txnId": str(uuid4())}
        yield {"commitInfo": {"timestamp": now, **named, **comment}}
        for name, number in self.transactions.items():
            yield {"txn": {"appId": name, "version": number, "lastUpdated": now}}
        for file in self.removed:
            # the protocol wants the tags, even if there are none, wherever the metadata is called extended
            yield {
                "remove": {**self._named(file), "deletionTimestamp": now, "extendedFileMetadata": True, "tags": dict(file.tags)}
            }
        for file in self.added:
            # bounds of other columns would copy values into the log, which `forget` does not look into
            stats = file.stats or _text({"numRecords": file.rows, "tightBounds": file.deleted is None})
            tags = {"tags": dict(file.tags)} if file.tags else {}
            yield {"add": {**self._named(file), "modificationTime": file.modified, "stats": stats, **tags}}

    def _named(self, file: DataFile) -> dict[str, Any]:
        vector = {} if file.deleted is None else {"deletionVector": file.deleted.action()}
        named = {"path": quote(file.path, safe="/="), "partitionValues": dict(file.partition), "size": file.size}
        return {**named, "dataChange": self.changes_data, **vector}


def _text(action: Mapping[str, Any]) -> str:
    return json.dumps(action, separators=(",", ":"))


def new_file(file: Place, path: str, *, partition: Mapping[str, str | None], rows: int, tags: Mapping[str, str]) -> DataFile:
    """Return a data file that was just written; `path` is within its table."""
    return DataFile(path, partition, size_of(str(file)), rows, int(time.time() * 1000), tags)


def bits(folder: Place, file: DataFile) -> bytes:
    """Return a bit for each row of a data file of the table in `folder`, the first row in the highest bit of the first byte; set
    for deleted rows. Raises `EngineError` if the deletion vector is gone or damaged.
    """
    found = bytearray((file.rows + 7) // 8)
    for position in () if file.deleted is None else read(folder, file.deleted):
        found[position >> 3] |= 0x80 >> (position & 7)
    return bytes(found)


def unused_vectors(folder: Place, used: Iterable[DataFile]) -> list[Place]:
    """Return the files of deletion vectors in `folder` that none of the data files `used` names."""
    kept = {file.deleted.place(folder) for file in used if file.deleted is not None}
    return [path for path in sorted(folder.glob(FILES)) if path not in kept]
