"""The proof of an erasure: reads every file of every table again and searches for the key.

It searches for rows of the key in all Parquet files; for removed values in files and log entries outside the newest version
(inside it they are values of other keys); and for removed texts in all other files. A finding gives the file and a count, never
a value. A value is searched for in its leaf column, named by its path: `name.value` is the value of the cells of column `name`,
`tags.cells[].path` the elements of a set. Every leaf counts, also write times and origins.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from cdc_views.landing.delta import open_delta
from cdc_views.landing.denylist import ErasedKey
from cdc_views.landing.vacuum import active_files
from cdc_views.operations.erasing.places import ErasableTable, Holds
from cdc_views.operations.erasing.rewriting import batches, matching
from cdc_views.plan.compact import PART
from cdc_views.plan.names import KIND
from cdc_views.storage.delta_log import LOG
from cdc_views.storage.places import Place, place_of

_PARQUET = ".parquet"
_PREDICATES = ("predicate", "matchedPredicates", "mergePredicate")
_OURS = frozenset({KIND, PART})
"""Columns with only a few values, which are all ours."""
_LISTS = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list, pa.types.is_list_view)
_CUT = 32
_LEAST_TEXT = 4


@dataclass(slots=True)
class ValuesToErase:
    """Distinct values by the path of their leaf."""

    values: dict[str, set[Any]] = field(default_factory=dict)

    def take(self, rows: pa.Table) -> None:
        """Add every value in `rows`, except booleans, which identify nothing."""
        for path, leaf in leaves_of(rows):
            if not pa.types.is_boolean(leaf.type) and not pa.types.is_null(leaf.type):
                self.values.setdefault(path, set()).update(leaf.unique().drop_null().to_pylist())

    def drop_shared_with(self, rows: pa.Table) -> None:
        """Drop the values that occur in `rows`, because other keys have them too."""
        for path, found in self._found(rows):
            self.values[path] -= found

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

    def found(self, place: ErasableTable, file: Place, counts: Mapping[str, int]) -> None:
        """Add the findings in a file: counts by description."""
        self.leftovers += [Leftover(place.what, str(file), f"{count:,} {what}") for what, count in counts.items() if count]

    @property
    def is_clean(self) -> bool:
        """Whether nothing was found."""
        return not self.leftovers


def gathered(places: list[ErasableTable], key: ErasedKey) -> ValuesToErase:
    """Return the values of the key's rows in every Parquet file of the places, also replaced files."""
    values = ValuesToErase()
    for place in places:
        if place.holds not in (Holds.EVENTS, Holds.SERVED):
            for file in _parquet_files(place):
                for rows in matching(file, key.condition(), by=key.columns):
                    values.take(rows)
    return values


def prove(places: list[ErasableTable], key: ErasedKey, values: ValuesToErase) -> Proof:
    """Read every file of the places; drops from `values` the values that other keys have too."""
    proof = Proof()
    searches = [_Search(place, active_files(open_delta(place.location)), key, values, proof) for place in places]
    for search in searches:
        if search.place.holds is not Holds.EVENTS:
            search.search_newest()
    for search in searches:
        search.search_others()
    return proof


@dataclass(frozen=True, slots=True)
class _Search:
    """The search of one place; `active` are the files of its newest version."""

    place: ErasableTable
    active: set[str]
    key: ErasedKey
    values: ValuesToErase
    proof: Proof

    def search_newest(self) -> None:
        """Count rows of the key in the newest version; all its values are other keys' values."""
        for file in _parquet_files(self.place):
            if str(file) in self.active:
                count = 0
                for rows in self._rows(file):
                    count += _about(rows, self.key).num_rows
                    self.values.drop_shared_with(rows)
                self.proof.found(self.place, file, {"rows of the key": count})

    def search_others(self) -> None:
        for file in sorted(path for path in place_of(self.place.location).rglob("*") if path.is_file()):
            if str(file) not in self.active:
                with suppress(FileNotFoundError):  # a writer's temporary file, deleted since the listing
                    self.proof.found(self.place, file, self._found_in(file))

    def _found_in(self, file: Place) -> Mapping[str, int]:
        is_log, is_parquet = LOG in file.relative_to(place_of(self.place.location)).parts, file.suffix == _PARQUET
        try:
            if is_parquet and is_log:
                return self._in_log(action for rows in self._rows(file) for action in rows.to_pylist())
            if is_parquet:
                return self._in_rows(self._rows(file))
            if is_log:
                lines = self._content(file).decode().splitlines()
                actions = (json.loads(line) for line in lines if line.strip())
                return self._in_log(action for action in actions if isinstance(action, dict))
        except (pa.ArrowException, ValueError):
            pass  # the content does not fit the name
        content = self._content(file)
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

    def _in_log(self, actions: Iterable[Mapping[str, Any]]) -> Mapping[str, int]:
        found: dict[str, int] = {}
        for action in actions:
            add = action.get("add") or {}
            is_active = str(place_of(self.place.location) / str(add.get("path"))) in self.active
            stats = add.get("stats_parsed") or (json.loads(add["stats"], parse_float=Decimal) if add.get("stats") else {})
            for bound in ("minValues", "maxValues"):
                for path, value in _json_leaves("", stats.get(bound) or {}):
                    if self.values.has(path, value, is_prefix=not is_active):
                        found[f"removed values in the statistics of {path}"] = 1
            parameters = (action.get("commitInfo") or {}).get("operationParameters") or {}
            conditions = " ".join(str(parameters.get(name) or "") for name in _PREDICATES)
            if any(text.decode(errors="replace") in conditions for text in self.values.texts()):
                found["removed values in a condition"] = 1
        return found

    def _rows(self, file: Place) -> Iterator[pa.Table]:
        self.proof.files += 1
        self.proof.bytes += file.stat().st_size
        for rows in batches(file):
            self.proof.rows += rows.num_rows
            yield rows

    def _content(self, file: Place) -> bytes:
        content = file.read_bytes()
        self.proof.files += 1
        self.proof.bytes += len(content)
        return content


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


def _parquet_files(place: ErasableTable) -> list[Place]:
    return sorted(
        path
        for path in place_of(place.location).rglob(f"*{_PARQUET}")
        if LOG not in path.relative_to(place_of(place.location)).parts
    )
