"""One version of a Delta table as its log tells it: metadata, transaction ids, data files and commits.

Every request to a store takes time, and deltalake asks for the same entries again at each question. So the log is listed once,
and an entry or a checkpoint is read at most once, when a question needs it. deltalake still writes all that has no other writer
here, and reads what others have landed.
Source: Delta's protocol, "Delta log entries", "Checkpoints", "Action reconciliation".
"""

from __future__ import annotations

import json
import re
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import Schema

from cdc_views.errors import EngineError
from cdc_views.storage.data_files import DataFile, after_commits, counted, located
from cdc_views.storage.delta_checkpoints import Action, Checkpoint, checkpoints_in
from cdc_views.storage.delta_log import LOG, contents
from cdc_views.storage.places import Place, at_once, listed_after, place_of, stamp_of
from cdc_views.storage.range_reader import remember_size

_ENTRY = re.compile(r"(\d{20})\.json")
_KNOWN_FEATURES = frozenset({"deletionVectors", "timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"})
_MAPPING = "columnMapping"
_OF_A_TYPE = ("variant", "typeWidening", "geospatial")
"""The names of features that matter only to columns of some types begin so; tables may have them without such a column."""
_KEPT_BYTES = 64 << 20


class _Entries:
    """The entries of stores that this process read last; one stays valid while a listing tells the same of it."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, object], bytes] = OrderedDict()
        self._bytes = 0

    def get(self, place: Place) -> bytes | None:
        return self._kept.get(self._key(place))

    def keep(self, place: Place, content: bytes) -> None:
        self._bytes += len(content) - len(self._kept.pop(self._key(place), b""))
        self._kept[self._key(place)] = content
        while self._bytes > _KEPT_BYTES:
            self._bytes -= len(self._kept.popitem(last=False)[1])

    def clear(self) -> None:
        self._kept.clear()
        self._bytes = 0

    @staticmethod
    def _key(place: Place) -> tuple[str, object]:
        return str(place), stamp_of(place)


_ENTRIES = _Entries()


@dataclass(frozen=True, slots=True)
class Metadata:
    """What the newest `metaData` action of a table says; `schema` is Delta's JSON."""

    id: str
    name: str
    description: str
    configuration: Mapping[str, str]
    schema: str

    @classmethod
    def of(cls, action: Mapping[str, Any]) -> Metadata:
        """Return the metadata of an action."""
        configuration = dict(action.get("configuration") or {})
        return cls(
            str(action["id"]), action.get("name") or "", action.get("description") or "", configuration, action["schemaString"]
        )


@dataclass
class _Replayed:
    """The newest actions of each kind, up to one version."""

    metadata: Action | None = None
    protocol: Action | None = None
    transactions: dict[str, int] = field(default_factory=dict)

    def take(self, action: Action) -> None:
        """Take in an action that is older than all before."""
        self.metadata = self.metadata or action.get("metaData")
        self.protocol = self.protocol or action.get("protocol")
        if transaction := action.get("txn"):
            self.transactions.setdefault(transaction["appId"], int(transaction["version"]))


class TableLog:
    """The log of the table at `location`, open at `version`. Raises `EngineError` if what a question needs is gone or damaged."""

    def __init__(self, location: str, listed: Mapping[str, Place], version: int | None = None) -> None:
        """`listed`: the files of the log by name, at least from the newest checkpoint up to `version` on."""
        place = place_of(location)
        self.location = str(place.absolute() if isinstance(place, Path) else place)
        self._listed = dict(listed)
        self._read, self._parsed = dict[int, bytes | None](), dict[int, list[Action]]()
        self._checkpoints = checkpoints_in(self._listed.values())
        numbers = [int(found[1]) for name in self._listed if (found := _ENTRY.fullmatch(name))]
        self.version = max([*numbers, *(checkpoint.version for checkpoint in self._checkpoints)]) if version is None else version

    @classmethod
    def find(cls, location: str | Place, *, version: int | None = None) -> TableLog | None:
        """Open the log at a version, by default the newest; None if no Delta table is there."""
        folder = place_of(location) / LOG
        start = "" if isinstance(folder, Path) else _newest_checkpoint(folder, version)
        try:
            listed = {place.name: place for place in listed_after(folder, start)}
        except (FileNotFoundError, NotADirectoryError):
            return None
        if not any(_ENTRY.fullmatch(name) for name in listed) and not checkpoints_in(listed.values()):
            return None
        log = cls(str(location), listed, version)
        if version is not None and log.checkpoint_version < version and log.entry(version) is None:
            raise log._gone(version)
        return log

    @classmethod
    def open(cls, location: str | Place, *, version: int | None = None) -> TableLog:
        """Open the log as `find`; raises `EngineError` if no Delta table is there."""
        found = cls.find(location, version=version)
        if found is None:
            raise EngineError(f"{location}: no Delta table is there; check the path")
        return found

    @classmethod
    def find_each(cls, locations: Iterable[str]) -> list[TableLog | None]:
        """Open several logs as `find`, and read them, at once: a store answers each request late."""
        return at_once(cls._find_read, locations)

    @classmethod
    def _find_read(cls, location: str) -> TableLog | None:
        found = cls.find(location)
        if found is not None:
            _ = found._since
        return found

    def refresh(self) -> None:
        """Go on to the newest version."""
        self.__dict__ = self.refreshed().__dict__

    def refreshed(self) -> TableLog:
        """Return the log at the newest version; opens it anew if it does not go on from here."""
        return self.followed() or TableLog.open(self.location)

    def followed(self) -> TableLog | None:
        """Return the log at the newest version, asking for what is newer alone; None if another table may be in its place."""
        listed = self._listed_since()
        mine, known = listed.get(f"{self.version:020d}.json"), self._read.get(self.version)
        if mine is None or known is None or (_ENTRIES.get(mine) or mine.read_bytes()) != known:
            return None
        if not self._has_checkpoint(listed):
            return None
        if not isinstance(mine, Path):
            _ENTRIES.keep(mine, known)
        return self._at(max(int(found[1]) for name in listed if (found := _ENTRY.fullmatch(name))), listed)

    def _has_checkpoint(self, listed: Mapping[str, Place]) -> bool:
        """Whether what this log begins with is still there; nobody removes it before there is a newer one."""
        if self._checkpoint is None or not (isinstance(self.folder, Path) or checkpoints_in(listed.values())):
            return True
        return all(place_of(str(place)).is_file() for place in self._checkpoint.places)

    def _listed_since(self) -> dict[str, Place]:
        """Return the files of the log from the open version on."""
        folder = self.folder / LOG
        if not isinstance(folder, Path):
            return {place.name: place for place in listed_after(folder, f"{self.version:020d}")}
        found = dict[str, Place]()
        for version in count(self.version):  # a local log may have many entries, and a look at one is cheap
            if not (place := folder / f"{version:020d}.json").exists():
                return found
            found[place.name] = place
        return found

    def with_commit(self, content: bytes) -> TableLog:
        """Return the log after a commit that this process wrote as the next version."""
        after = self._at(self.version + 1, {})
        after._read[after.version] = content
        return after

    def _at(self, version: int, listed: Mapping[str, Place]) -> TableLog:
        """Return the log at a later version; what was read of it serves both."""
        later = TableLog.__new__(TableLog)
        later.location, later.version, later._listed = self.location, version, {**self._listed, **listed}
        later._read, later._parsed = self._read, self._parsed
        later._checkpoints = self._checkpoints
        return later

    @property
    def folder(self) -> Place:
        """The place of the table."""
        return place_of(self.location)

    @property
    def checkpoint_version(self) -> int:
        """The version of the checkpoint that a reader of this version begins with; -1 without one."""
        return -1 if self._checkpoint is None else self._checkpoint.version

    def entry(self, version: int) -> bytes | None:
        """Return the content of a version's log entry; None if it is gone."""
        return next(content for _, content in self.entries([version]))

    def entries(self, versions: Iterable[int]) -> Iterator[tuple[int, bytes | None]]:
        """Yield the log entries of some versions, several read at once from a store; None for an entry that is gone."""
        wanted = list(versions)
        unread = [version for version in wanted if version not in self._read]
        for version in unread:
            if (place := self._place(version)) is not None and (known := _ENTRIES.get(place)) is not None:
                self._read[version] = known
        unread = [version for version in unread if version not in self._read]
        for version, content in contents(self.folder, unread):
            self._read[version] = content
            if content is not None and (place := self._place(version)) is not None:
                _ENTRIES.keep(place, content)
        yield from ((version, self._read[version]) for version in wanted)

    def _place(self, version: int) -> Place | None:
        """Return the place of an entry of a store that the listing told of; local files are read again."""
        place = self._listed.get(f"{version:020d}.json")
        return None if isinstance(place, Path) else place

    def actions(self, versions: Iterable[int]) -> Iterator[tuple[int, list[Action] | None]]:
        """Yield the actions of some versions; None for an entry that is gone."""
        for version, content in self.entries(versions):
            if content is not None and version not in self._parsed:
                self._parsed[version] = self._actions_in(version, content)
            yield version, None if content is None else self._parsed[version]

    def _actions_in(self, version: int, content: bytes) -> list[Action]:
        # all of it, for damage that is not looked at is not noticed
        try:
            found = [json.loads(line) for line in content.splitlines() if line.strip()]
            if found and all(isinstance(action, dict) for action in found):
                return found
            why = "a JSON object was expected in each line"
        except ValueError as error:
            why = str(error)
        raise EngineError(f"{self.location}: version {version} of Delta's log cannot be read: {why}")

    @cached_property
    def _checkpoint(self) -> Checkpoint | None:
        return next((found for found in reversed(self._checkpoints) if found.version <= self.version), None)

    @cached_property
    def _since(self) -> list[list[Action]]:
        """The actions after the checkpoint, by version."""
        found = []
        for version, actions in self.actions(range(self.checkpoint_version + 1, self.version + 1)):
            if actions is None:
                raise self._gone(version)
            found.append(actions)
        return found

    def _gone(self, version: int) -> EngineError:
        return EngineError(f"{self.location}: version {version} is gone from Delta's log; the table cannot be read")

    @cached_property
    def _replayed(self) -> _Replayed:
        found = _Replayed()
        for actions in reversed(self._since):
            for action in reversed(actions):
                found.take(action)
        for action in () if self._checkpoint is None else self._checkpoint.about_table:
            found.take(action)
        return found

    @cached_property
    def metadata(self) -> Metadata:
        """The table's metadata; raises `EngineError` for a table that needs what this version cannot read."""
        protocol, action = self._replayed.protocol or {}, self._replayed.metadata
        if action is None:
            raise EngineError(f"{self.location}: Delta's log has no metadata; the table cannot be read")
        found = Metadata.of(action)
        needed = {*(protocol.get("readerFeatures") or ())} - {_MAPPING}
        # a table may be able to map columns, and not do it; an older protocol does it without the feature
        if found.configuration.get("delta.columnMapping.mode", "none") != "none":
            needed.add(_MAPPING)
        unknown = {feature for feature in needed - _KNOWN_FEATURES if not feature.startswith(_OF_A_TYPE)}
        if unknown:
            raise EngineError(f"{self.location}: needs Delta's {', '.join(sorted(unknown))}, which cdc-views cannot read")
        return found

    @property
    def has_vectors(self) -> bool:
        """Whether deletion vectors may hide rows."""
        return "deletionVectors" in ((self._replayed.protocol or {}).get("readerFeatures") or ())

    @property
    def writer_features(self) -> frozenset[str]:
        """The features of Delta that its writers must know."""
        return frozenset((self._replayed.protocol or {}).get("writerFeatures") or ())

    def transaction(self, name: str) -> int | None:
        """Return the version last recorded under the transaction id `name`, or None."""
        return self._replayed.transactions.get(name)

    @property
    def transactions(self) -> Mapping[str, int]:
        """The version last recorded under each transaction id."""
        return self._replayed.transactions

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of the table."""
        return pa.schema(Schema.from_json(self.metadata.schema).to_arrow())

    @cached_property
    def added(self) -> Mapping[str, DataFile]:
        """Path within the table → data file."""
        found = after_commits({} if self._checkpoint is None else self._checkpoint.added, self._since)
        if not isinstance(self.folder, Path):
            for file in found.values():
                remember_size(file.at(self.location), file.size)
        return found

    @cached_property
    def files(self) -> tuple[DataFile, ...]:
        """The data files, by path, each with the number of its rows."""
        return counted(self.folder, self.added.values())

    def path(self, within: str) -> str:
        """Return the absolute path or URL of a data file, given its path within the table."""
        return located(self.location, within)

    @property
    def paths(self) -> tuple[str, ...]:
        """The absolute paths or URLs of the data files."""
        return tuple(map(self.path, self.added))


def _newest_checkpoint(folder: Place, version: int | None) -> str:
    """Return the beginning of the names of the files to list: of the last checkpoint up to `version`, or empty."""
    try:
        newest = int(json.loads((folder / "_last_checkpoint").read_text("utf-8"))["version"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""
    return f"{newest:020d}" if version is None or newest <= version else ""
