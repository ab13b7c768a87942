"""The proof of an erasure: reads every file in every place again and searches for the key.

It searches for rows of the key, in all Parquet files; for removed values, in files and log entries outside the newest version
(inside, they are values of other keys); and for removed texts, in all other files. A finding names the file and a count,
never a value.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from cdc_views.landing.checkpoints import LOG
from cdc_views.landing.delta import delta_errors
from cdc_views.landing.denylist import ErasedKey
from cdc_views.landing.vacuum import active_files
from cdc_views.operations.erasing.places import ErasableTable, Holds
from cdc_views.operations.erasing.rewriting import batches
from cdc_views.operations.erasing.values_to_erase import ValuesToErase

_PARQUET = ".parquet"
_PREDICATES = ("predicate", "matchedPredicates", "mergePredicate")


@dataclass(frozen=True, slots=True)
class Leftover:
    """A remnant of the key: the file, and what was found in it."""

    what: str
    file: str
    found: str


@dataclass(slots=True)
class Proof:
    """What was read, and the remnants."""

    files: int = 0
    rows: int = 0
    bytes: int = 0
    leftovers: list[Leftover] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        """Whether nothing was found."""
        return not self.leftovers


def gathered(places: list[ErasableTable], key: ErasedKey) -> ValuesToErase:
    """Return the values of the key's rows in every Parquet file of the places, replaced ones too."""
    values = ValuesToErase()
    for place in places:
        if place.holds not in (Holds.EVENTS, Holds.SERVED):
            for file in _parquet_files(place):
                for rows in batches(file):
                    values.take(_about(rows, key))
    return values


def prove(places: list[ErasableTable], key: ErasedKey, values: ValuesToErase) -> Proof:
    """Read every file of the places; drops from `values` what other keys have too."""
    facts = [place for place in places if place.holds is not Holds.EVENTS]
    active = {place.location: _active(place) for place in places}
    proof = Proof()
    for place in facts:
        for file in _parquet_files(place):
            if str(file) in active[place.location]:
                _look_for_rows(proof, place, file, key, values)
    for place in places:
        for file in sorted(path for path in place.path.rglob("*") if path.is_file()):
            if str(file) not in active[place.location]:
                with suppress(FileNotFoundError):  # a temporary file of a writer, gone since the listing
                    _look(proof, place, file, key, values, active[place.location])
    return proof


def _look_for_rows(proof: Proof, place: ErasableTable, file: Path, key: ErasedKey, values: ValuesToErase) -> None:
    """A file of the newest version: no row of the key; all its values are other keys' values."""
    count = 0
    for rows in _read(proof, file):
        count += _about(rows, key).num_rows
        values.drop_shared_with(rows)
    _report(proof, place, file, {"rows of the key": count})


def _look(proof: Proof, place: ErasableTable, file: Path, key: ErasedKey, values: ValuesToErase, active: set[str]) -> None:
    """A file that is no part of the newest version, or of the log."""
    found: dict[str, int] = {}
    is_log = LOG in file.relative_to(place.path).parts
    try:
        if file.suffix == _PARQUET and is_log:
            found = _in_log(_rows_of_checkpoint(proof, file), values, place, active)
        elif file.suffix == _PARQUET:
            found = _in_rows(_read(proof, file), key, values, holds=place.holds)
        elif is_log:
            found = _in_log(_lines(proof, file), values, place, active)
        else:
            found = _in_bytes(proof, file, values)
    except (pa.ArrowException, ValueError):
        found = _in_bytes(proof, file, values)
    _report(proof, place, file, found)


def _in_rows(found_rows: Iterator[pa.Table], key: ErasedKey, values: ValuesToErase, *, holds: Holds) -> dict[str, int]:
    found: dict[str, int] = {}
    for rows in found_rows:
        if holds is Holds.EVENTS:
            events = b"\n".join(event for event in rows.column("event").to_pylist() if event)
            found["removed values"] = found.get("removed values", 0) + sum(text in events for text in values.texts())
            continue
        found["rows of the key"] = found.get("rows of the key", 0) + _about(rows, key).num_rows
        for leaf, count in values.count_in(rows).items():
            found[f"removed values in {leaf}"] = found.get(f"removed values in {leaf}", 0) + count
    return found


def _in_log(
    actions: Iterator[Mapping[str, Any]], values: ValuesToErase, place: ErasableTable, active: set[str]
) -> dict[str, int]:
    found: dict[str, int] = {}
    for action in actions:
        add = action.get("add") or {}
        is_active = str(place.path / str(add.get("path"))) in active
        stats = add.get("stats_parsed") or (json.loads(add["stats"], parse_float=Decimal) if add.get("stats") else {})
        for bound in ("minValues", "maxValues"):
            for path, value in _json_leaves("", stats.get(bound) or {}):
                if values.has(path, value, is_prefix=not is_active):
                    found[f"removed values in the statistics of {path}"] = 1
        parameters = (action.get("commitInfo") or {}).get("operationParameters") or {}
        conditions = " ".join(str(parameters.get(name) or "") for name in _PREDICATES)
        if any(text.decode(errors="replace") in conditions for text in values.texts()):
            found["removed values in a condition"] = 1
    return found


def _json_leaves(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for name, part in value.items():
            yield from _json_leaves(f"{path}.{name}" if path else name, part)
    elif value is not None:
        yield path, value


def _in_bytes(proof: Proof, file: Path, values: ValuesToErase) -> dict[str, int]:
    content = file.read_bytes()
    proof.files += 1
    proof.bytes += len(content)
    return {"removed values": sum(text in content for text in values.texts())}


def _report(proof: Proof, place: ErasableTable, file: Path, found: Mapping[str, int]) -> None:
    for what, count in found.items():
        if count:
            proof.leftovers.append(Leftover(place.what, str(file), f"{count:,} {what}"))


def _about(rows: pa.Table, key: ErasedKey) -> pa.Table:
    if not set(key.stored()) <= set(rows.column_names):
        return rows.slice(0, 0)
    return rows.filter(key.condition())


def _read(proof: Proof, file: Path) -> Iterator[pa.Table]:
    proof.files += 1
    proof.bytes += file.stat().st_size
    for rows in batches(file):
        proof.rows += rows.num_rows
        yield rows


def _parquet_files(place: ErasableTable) -> list[Path]:
    return sorted(path for path in place.path.rglob(f"*{_PARQUET}") if LOG not in path.relative_to(place.path).parts)


def _rows_of_checkpoint(proof: Proof, file: Path) -> Iterator[Mapping[str, Any]]:
    for rows in _read(proof, file):
        yield from rows.to_pylist()


def _lines(proof: Proof, file: Path) -> Iterator[Mapping[str, Any]]:
    proof.files += 1
    proof.bytes += file.stat().st_size
    for line in file.read_text("utf-8").splitlines():
        action = json.loads(line) if line.strip() else {}
        yield from [action] if isinstance(action, dict) else []


def _active(place: ErasableTable) -> set[str]:
    with delta_errors(place.location):
        return active_files(DeltaTable(place.location))
