"""The proof of an erasure: reads every file of every table again and searches for the key.

It searches for rows of the key in all Parquet files; for removed values in files and log entries outside the newest version
(inside it they are values of other keys); and for removed texts in all other files, except in what holds no values by its
format: digests, deletion vectors and checksums. There a short text such as `0000` stands by chance. A finding gives the file
and a count, never a value. A value is searched for in its leaf column, named by its path: `name.value` is the value of the
cells of column `name`, `tags.cells[].path` the elements of a set. Every leaf counts, also write times and origins.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from cdc_views.landing import digests
from cdc_views.landing.delta import open_delta
from cdc_views.landing.denylist import ErasedKey
from cdc_views.landing.spreading import HERE, Tasks
from cdc_views.landing.vacuum import active_files
from cdc_views.operations.erasing.places import ErasableTable, Holds
from cdc_views.operations.erasing.rewriting import batches
from cdc_views.plan.compact import PART
from cdc_views.plan.names import KIND
from cdc_views.storage.deletion_vectors import is_vector_file
from cdc_views.storage.delta_log import LOG
from cdc_views.storage.places import Place, place_of

_PARQUET = ".parquet"
_PREDICATES = ("predicate", "matchedPredicates", "mergePredicate")
_OURS = frozenset({KIND, PART})
"""Columns with only a few values, which are all ours."""
_LISTS = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list, pa.types.is_list_view)
_CUT = 32
_LEAST_TEXT = 4
_Asked = TypeVar("_Asked")
_Answer = TypeVar("_Answer")


@dataclass(slots=True)
class ValuesToErase:
    """Distinct values by the path of their leaf."""

    values: dict[str, set[Any]] = field(default_factory=dict)

    def take(self, rows: pa.Table) -> None:
        """Add every value in `rows`, except booleans, which identify nothing."""
        for path, leaf in leaves_of(rows):
            if not pa.types.is_boolean(leaf.type) and not pa.types.is_null(leaf.type):
                self.values.setdefault(path, set()).update(leaf.unique().drop_null().to_pylist())

    def add(self, others: ValuesToErase) -> None:
        """Add other values."""
        for path, found in others.values.items():
            self.values.setdefault(path, set()).update(found)

    def drop(self, shared: ValuesToErase) -> None:
        """Drop values that other keys have too."""
        for path, found in shared.values.items():
            self.values[path] -= found

    def found_in(self, rows: pa.Table) -> ValuesToErase:
        """Return those of the values that occur in `rows`."""
        shared = ValuesToErase()
        for path, found in self._found(rows):
            shared.values.setdefault(path, set()).update(found)
        return shared

    def count_in(self, rows: pa.Table) -> dict[str, int]:
        """Return, by leaf, how many of the values occur in `rows`."""
        counts: Counter[str] = Counter()
        for path, found in self._found(rows):
            counts[path] += len(found)
        return counts

    def has(self, path: str, value: Any, *, is_prefix: bool = False) -> bool:
        """Whether a value from JSON is one of them or, with `is_prefix`, is a long text that one of them begins with."""
        known = self.values.get(path, ())
        if value in known or str(value) in {str(one) for one in known}:
            return True
        is_cut = is_prefix and isinstance(value, str) and len(value) >= _CUT
        # Delta cuts the greatest value of a column and then raises the last letter
        return is_cut and any(isinstance(one, str) and one.startswith(value[:-1]) for one in known)

    def texts(self) -> set[bytes]:
        """Return the texts and bytes that are long enough to search for in any file."""
        found = {one for values in self.values.values() for one in values if isinstance(one, str | bytes)}
        texts = {one.encode(errors="surrogatepass") if isinstance(one, str) else one for one in found}
        return {text for text in texts if len(text) >= _LEAST_TEXT}

    def _found(self, rows: pa.Table) -> Iterator[tuple[str, set[Any]]]:
        for path, leaf in leaves_of(rows):
            wanted = self.values.get(path)
            if wanted:
                plain = pa.array(list(wanted))
                known = plain if plain.type == leaf.type else plain.cast(leaf.type, safe=False)
                found = leaf.filter(pc.is_in(leaf, value_set=known))
                yield path, set(found.unique().to_pylist()) & wanted


def leaves_of(rows: pa.Table) -> Iterator[tuple[str, pa.Array]]:
    """Yield every leaf of every chunk: lists are flattened, null structs omitted."""
    for name in rows.column_names:
        if name not in _OURS:
            for chunk in rows.column(name).chunks:
                yield from _leaves(name, chunk)


def _leaves(path: str, array: pa.Array) -> Iterator[tuple[str, pa.Array]]:
    if pa.types.is_struct(array.type):
        for part, flat in zip(array.type, array.flatten(), strict=True):
            yield from _leaves(f"{path}.{part.name}", flat)
    elif pa.types.is_map(array.type):
        yield from _leaves(f"{path}[].key", array.keys)
        yield from _leaves(f"{path}[].value", array.items)
    elif any(is_list(array.type) for is_list in _LISTS):
        yield from _leaves(f"{path}[]", array.flatten())
    else:
        yield path, array


@dataclass(frozen=True, slots=True)
class Leftover:
    """A remnant of the key: the file and the finding."""

    what: str
    file: str
    found: str


@dataclass(slots=True)
class Proof:
    """The extent of the search, and the remnants."""

    files: int = 0
    rows: int = 0
    bytes: int = 0
    leftovers: list[Leftover] = field(default_factory=list)

    def take(self, place: ErasableTable, files: Sequence[Place], looked: Sequence[_Looked | None], values: ValuesToErase) -> None:
        """Add what was read of files (None: a file was gone); drops from `values` what rows of the newest version have, too."""
        for file, one in zip(files, looked, strict=True):
            if one is not None:
                self.files, self.rows, self.bytes = self.files + 1, self.rows + one.rows, self.bytes + one.size
                self.found(place, file, one.found)
                values.drop(one.shared)

    def found(self, place: ErasableTable, file: Place, counts: Mapping[str, int]) -> None:
        """Add the findings in a file: counts by description."""
        self.leftovers += [Leftover(place.what, str(file), f"{count:,} {what}") for what, count in counts.items() if count]

    @property
    def is_clean(self) -> bool:
        """Whether nothing was found."""
        return not self.leftovers


def prove(places: Sequence[ErasableTable], key: ErasedKey, values: ValuesToErase, *, tasks: Tasks = HERE) -> Proof:
    """Read every file of the places, data files in tasks; drops from `values` the values that other keys have too."""
    proof = Proof()
    searches = [_Search(place, key, values) for place in places]
    active = {place.location: active_files(open_delta(place.location)) for place in places}
    for search in searches:
        if search.place.holds is not Holds.EVENTS:
            newest = [file for file in parquet_files(search.place) if str(file) in active[search.place.location]]
            proof.take(search.place, newest, each_file(tasks, search.in_newest, newest, search.place, files=newest), values)
    for search in searches:
        others = [file for file in files_of(search.place) if str(file) not in active[search.place.location]]
        logs = [file for file in others if is_log(search.place, file)]
        data = [file for file in others if not is_log(search.place, file)]
        proof.take(search.place, data, each_file(tasks, search.in_other, data, search.place, files=data), values)
        # entries of the log are as many as commits and files; so they are read here, where the files of the version are known
        proof.take(search.place, logs, [search.in_log(file, active[search.place.location]) for file in logs], values)
    return proof


@dataclass(slots=True)
class _Looked:
    """What one file has: findings, and the values that rows of its table have too; and how much was read."""

    found: Mapping[str, int] = field(default_factory=dict)
    shared: ValuesToErase = field(default_factory=ValuesToErase)
    rows: int = 0
    size: int = 0

    def read(self, file: Place) -> Iterator[pa.Table]:
        self.size = file.stat().st_size
        for rows in batches(file):
            self.rows += rows.num_rows
            yield rows

    def content(self, file: Place) -> bytes:
        content = file.read_bytes()
        self.size += len(content)
        return content


@dataclass(frozen=True, slots=True)
class _Search:
    """The search of the files of one place. Its methods read one file, in this process or in a task."""

    place: ErasableTable
    key: ErasedKey
    values: ValuesToErase

    def in_newest(self, file: Place) -> _Looked:
        """Count rows of the key in a file of the newest version; all its values are other keys' values."""
        looked, count = _Looked(), 0
        for rows in looked.read(file):
            count += _about(rows, self.key).num_rows
            looked.shared.add(self.values.found_in(rows))
        looked.found = {"rows of the key": count}
        return looked

    def in_other(self, file: Place) -> _Looked | None:
        """Search a file that is not of the newest version; None if it is gone: a writer's temporary file."""
        looked = _Looked()
        with suppress(FileNotFoundError):
            if file.suffix == _PARQUET:
                try:
                    looked.found = self._in_rows(looked.read(file))
                except (pa.ArrowException, ValueError):  # the content does not fit the name
                    looked.found = self._in_content(looked, file)
            else:
                looked.found = self._in_content(looked, file)
            return looked
        return None

    def in_log(self, file: Place, active: Set[str]) -> _Looked | None:
        """Search an entry or a checkpoint of the log, as `in_other`; `active` are the files of the newest version."""
        looked = _Looked()
        with suppress(FileNotFoundError):
            try:
                looked.found = self._in_log(_actions_in(looked, file), active)
            except (pa.ArrowException, ValueError):
                looked.found = self._in_content(looked, file)
            return looked
        return None

    def _in_content(self, looked: _Looked, file: Place) -> Mapping[str, int]:
        content = _without_ours(file, looked.content(file))
        return {"removed values": sum(text in content for text in self.values.texts())}

    def _in_rows(self, found_rows: Iterable[pa.Table]) -> Mapping[str, int]:
        found: Counter[str] = Counter()
        for rows in found_rows:
            if self.place.holds is Holds.EVENTS:
                events = b"\n".join(event for event in rows.column("event").to_pylist() if event)
                found["removed values"] += sum(text in events for text in self.values.texts())
                continue
            found["rows of the key"] += _about(rows, self.key).num_rows
            found.update({f"removed values in {leaf}": count for leaf, count in self.values.count_in(rows).items()})
        return found

    def _in_log(self, actions: Iterable[Mapping[str, Any]], active: Set[str]) -> Mapping[str, int]:
        found: dict[str, int] = {}
        for action in actions:
            for file in _files_in(action):
                is_active = str(place_of(self.place.location) / str(file.get("path"))) in active
                for path, value in _bounds_of(file):
                    if self.values.has(path, value, is_prefix=not is_active):
                        found[f"removed values in the statistics of {path}"] = 1
            parameters = (action.get("commitInfo") or {}).get("operationParameters") or {}
            conditions = " ".join(str(parameters.get(name) or "") for name in _PREDICATES)
            if any(text.decode(errors="replace") in conditions for text in self.values.texts()):
                found["removed values in a condition"] = 1
        return found


def _actions_in(looked: _Looked, file: Place) -> Iterator[Mapping[str, Any]]:
    if file.suffix == _PARQUET:
        return (action for rows in looked.read(file) for action in rows.to_pylist())
    actions = (json.loads(line) for line in looked.content(file).decode().splitlines() if line.strip())
    return (action for action in actions if isinstance(action, dict))


def _files_in(action: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the files that an entry adds or removes, and those that Spark's checksum of a version lists."""
    yield from (file for kind in ("add", "remove") if isinstance(file := action.get(kind), dict))
    yield from (file for file in action.get("allFiles") or () if isinstance(file, dict))


def _bounds_of(file: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    stats = file.get("stats_parsed") or (json.loads(file["stats"], parse_float=Decimal) if file.get("stats") else {})
    for bound in ("minValues", "maxValues"):
        yield from _json_leaves("", stats.get(bound) or {})


def _without_ours(file: Place, content: bytes) -> bytes:
    """Leave out of a file's content what holds no values by its format."""
    if file.parent.name == digests.FOLDER:
        return digests.without_noted(content)
    is_checksum = file.name.startswith(".") and file.suffix == ".crc"  # Hadoop writes one beside each file
    return b"" if is_checksum or is_vector_file(file.name) else content


def _json_leaves(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for name, part in value.items():
            yield from _json_leaves(f"{path}.{name}" if path else name, part)
    elif value is not None:
        yield path, value


def _about(rows: pa.Table, key: ErasedKey) -> pa.Table:
    if not set(key.stored()) <= set(rows.column_names):
        return rows.slice(0, 0)
    return rows.filter(key.condition())


def files_of(place: ErasableTable) -> list[Place]:
    """Return all files below a place."""
    return sorted(path for path in place_of(place.location).rglob("*") if path.is_file())


def parquet_files(place: ErasableTable) -> list[Place]:
    """Return a place's Parquet files, also replaced ones, without those of the log."""
    return sorted(path for path in place_of(place.location).rglob(f"*{_PARQUET}") if not is_log(place, path))


def is_log(place: ErasableTable, file: Place) -> bool:
    """Whether a file is of Delta's log."""
    return LOG in file.relative_to(place_of(place.location)).parts


def each_file(
    tasks: Tasks, function: Callable[[_Asked], _Answer], asked: Sequence[_Asked], place: ErasableTable, *, files: Sequence[Place]
) -> list[_Answer]:
    """Return what a function gives of each file of a place, in order, in tasks or here."""
    return tasks.each(function, asked, sizes=[_size(file) for file in files], sees=[place.location])


def _size(file: Place) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0
