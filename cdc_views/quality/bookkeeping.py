"""Checks from logs and footers alone, without reading a row: watermarks, files, types, lag, quarantine."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from cdc_views.engines.duckdb.types import is_same_type
from cdc_views.landing.digests import changed
from cdc_views.landing.quarantine import waiting
from cdc_views.landing.spreading import HERE, Tasks
from cdc_views.model.severity import Severity
from cdc_views.operations.lateness import lateness_seconds
from cdc_views.plan.parts import Source
from cdc_views.project.models import DataTest
from cdc_views.quality.checks import Check
from cdc_views.state.identity import Mark
from cdc_views.state.state_table import StateTable
from cdc_views.state.tail import landings, last_landed
from cdc_views.storage.data_files import DataFile
from cdc_views.storage.delta_log import LOG, contents
from cdc_views.storage.places import Place, arrow_source, local_folder, place_of
from cdc_views.storage.relation import RawTable
from cdc_views.storage.table_log import TableLog

KNOWN = Check("raw_is_the_one_known", "raw continues what landings and the state know of it", unit="raw tables")
_RISING = Check("watermark_never_goes_back", "no commit covers an earlier version of raw than one before", unit="commits")
_OURS = Check("only_our_commits", "nobody else has changed the rows of what is kept", unit="commits")
OURS_OF_STATE = replace(_OURS, name=f"{_OURS.name}.state")
FILES = "files_are_whole"
_FILES = Check(FILES, "each file of the log is there, with as many bytes and rows as the log says", unit="files")
UNCHANGED = "files_are_as_written"
_UNCHANGED = Check(UNCHANGED, "no file's bytes have changed since it was written", unit="files")
_TYPED = Check("types_as_the_schema_says", "each stored column has the type that the schema gives it", unit="columns")

_LISTS = (pa.types.is_list, pa.types.is_large_list, pa.types.is_list_view)
_TEXTS = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
_BLOBS = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view)
_REMEDIES = {
    "raw": "put this file back from a backup, or land its events anew",
    "state": "build the state anew: `cdc-views materialize --full`",
    "serving": "delete the serving table; the next `cdc-views materialize` writes it",
}
_FRESH = Check("freshness", "something landed lately", unit="seconds over the limit")
_LAG = Check("state_lag", "the state takes in what landed soon enough", unit="seconds over the limit")


def kept(location: str, raw: RawTable, *, transaction: str, schema: pa.Schema, what: str, tasks: Tasks = HERE) -> Iterator[Check]:
    """Yield the checks of the log, files and types of a state or serving table, which may have more columns than `schema`:
    dropped ones. `transaction` is the id of its current watermarks; earlier ids are ours too.
    """
    yield from _watermark(location, raw, transaction=transaction, what=what)
    yield from whole(location, what, tasks=tasks)
    yield _types(location, schema, what)


def _watermark(location: str, raw: RawTable, *, transaction: str, what: str) -> Iterator[Check]:
    ours = f"cdc-views:{what}:"
    back: list[str] = []
    foreign: list[str] = []
    highest = -1
    for version, actions in _commits(location):
        marks = [int(a["txn"]["version"]) for a in actions if a.get("txn", {}).get("appId") == transaction]
        changes = [a for a in actions for kind in ("add", "remove") if a.get(kind, {}).get("dataChange")]
        if marks and marks[0] <= highest:
            back.append(f"{what} version {version}: {Mark.of(marks[0]).version} after {Mark.of(highest).version}")
        if changes and not any(str(a.get("txn", {}).get("appId")).startswith(ours) for a in actions):
            operation = next((a["commitInfo"].get("operation") for a in actions if "commitInfo" in a), "unknown")
            foreign.append(f"{what} version {version}: {operation}")
        highest = max([highest, *marks])
    newest = TableLog.open(raw.location).version
    if highest >= 0 and (covers := Mark.of(highest).version) > newest:
        back.append(f"{what} covers raw version {covers}, and raw has {newest}")
    yield _found(_RISING, what, back)
    yield _found(_OURS, what, foreign)


def whole(location: str, what: str, *, tasks: Tasks = HERE) -> Iterator[Check]:
    """Yield whether a table's files fit its log, and whether their bytes are unchanged, which reads every file."""
    files = list(TableLog.open(location).added.values())
    sizes, looked = [file.size for file in files], partial(_misfit, location)
    misfits = tasks.each(looked, files, sizes=sizes, sees=[location])
    found = zip(files, misfits, strict=True)
    wrong = [f"{what}: {file.path} {misfit}; {_REMEDIES[what]}" for file, misfit in found if misfit]
    yield _found(_FILES, what, wrong)
    if local_folder(location) is None:
        yield replace(_UNCHANGED, name=f"{UNCHANGED}.{what}").skipped("a store has checksums of its own")
        return
    damaged, unknown = changed(location, tasks=tasks)
    places = [f"{what}: {path} has changed since it was written; {_REMEDIES[what]}" for path in damaged]
    note = f"{unknown:,} files have no digest yet; `cdc-views maintain` notes them" if unknown else ""
    yield _found(_UNCHANGED, what, places, note=note)


def _misfit(location: str, file: DataFile) -> str:
    """Return how a file differs from what the log says of it; empty if it does not."""
    path = place_of(location) / file.path
    if not path.is_file():
        return "is not there"
    if path.stat().st_size != file.size:
        return f"has {path.stat().st_size} bytes, the log says {file.size}"
    if file.told is not None and (rows := _rows(path)) != file.told:
        return f"has {rows} rows, the log says {file.told}"
    return ""


def _rows(path: Place) -> int:
    try:
        return int(pq.read_metadata(arrow_source(path)).num_rows)
    except (pa.ArrowException, OSError, ValueError):  # a damaged footer may cause any of these
        return -1


def _types(location: str, expected: pa.Schema, what: str) -> Check:
    stored = TableLog.open(location).schema
    wrong = []
    for field in expected:
        if field.name in stored.names and not _is_alike(pa.field(stored.field(field.name)).type, field.type):
            wrong.append(f"{what}: {field.name} is {stored.field(field.name).type}, expected {field.type}")
    return _found(_TYPED, what, wrong)


def _is_alike(stored: Any, expected: pa.DataType) -> bool:
    """Return whether two types are equal, except for what formats write differently: time zones, widths of texts, new fields."""
    if pa.types.is_timestamp(stored) and pa.types.is_timestamp(expected):
        return True
    if pa.types.is_struct(stored) and pa.types.is_struct(expected):
        known = {field.name: field.type for field in stored}
        return all(field.name not in known or _is_alike(known[field.name], field.type) for field in expected)
    if all(any(is_kind(one) for is_kind in _LISTS) for one in (stored, expected)):
        return _is_alike(stored.value_type, expected.value_type)
    for widths in (_TEXTS, _BLOBS):
        if any(is_kind(expected) for is_kind in widths):
            return any(is_kind(stored) for is_kind in widths)
    return is_same_type(stored, expected)


def quarantine(raw: RawTable) -> Check:
    """Return whether events wait in quarantine."""
    count, first = waiting(raw)
    rule = "no event waits in quarantine: what it says does not show"
    place = (":".join(first.split(":")[:2]),) if first else ()  # the reason may quote the event
    return Check("nothing_in_quarantine", rule, Severity.WARNING, count, "events", place)


def late(state: StateTable) -> Check:
    """Return whether facts landed after the lateness horizon."""
    rule = "nothing landed later than the lateness horizon allows (rule M2); `cdc-views late` lists it"
    return Check("nothing_too_late", rule, Severity.WARNING, state.rows(Source.LATE), "facts")


@dataclass(frozen=True, slots=True)
class Ages:
    """Seconds since facts landed last, the number of landings that the state lacks, and seconds since the oldest of them; the
    last two are 0 without a state.
    """

    landed: int
    lacking: int
    behind: int


def ages(raw: RawTable, state: StateTable | None, *, now: int) -> Ages:
    """Return the ages at `now` (epoch seconds), by the commits that raw's log still has. Commits without facts do not count: they
    note how far a source was read, and `materialize` has nothing to take in.
    """
    log, covered = TableLog.open(raw.location), None if state is None else state.raw_version
    last = last_landed(log)
    lacking = () if covered is None else landings(log, after=covered, through=log.version)
    since = [one.committed // 1000 for one in lacking if one.committed is not None]
    return Ages(0 if last is None else max(0, now - last // 1000), len(since), max(0, now - min(since)) if since else 0)


def freshness(raw: RawTable, state: StateTable | None, tests: Iterable[DataTest], *, now: int) -> Iterator[Check]:
    """Yield the age of the last landing and the lag of the state; seconds over a limit of `tests` count as broken."""
    found, tests = ages(raw, state, now=now), list(tests)
    yield from _limited(_FRESH, [(t, t.fresh_within) for t in tests], found.landed, f"last landed {found.landed:,} s ago")
    if state is not None and state.raw_version is not None:
        what = "1 landing is" if found.lacking == 1 else f"{found.lacking:,} landings are"
        note = f"{what} not in the state yet{f', the oldest for {found.behind:,} s' if found.lacking else ''}"
        yield from _limited(_LAG, [(t, t.lag_within) for t in tests], found.behind, note)


def _limited(check: Check, spans: list[tuple[DataTest, str | None]], seconds: int, note: str) -> Iterator[Check]:
    """Yield a check per limit; without limits, the figure alone."""
    limits = [(test, lateness_seconds(span)) for test, span in spans if span is not None]
    if not limits:
        yield replace(check, note=note)
    for test, limit in limits:
        over, figure = max(0, seconds - limit), f"{note}; the limit is {limit:,} s"
        called = f"{check.name}.{test.name or f'{limit}s'}" if test.name or len(limits) > 1 else check.name
        yield replace(check, name=called, severity=test.severity).found([figure] if over else [], broken=over, note=figure)


def _found(check: Check, what: str, places: list[str], *, note: str = "") -> Check:
    return replace(check, name=f"{check.name}.{what}").found(places, note=note)


def _commits(location: str) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    versions = sorted(int(path.stem) for path in (place_of(location) / LOG).glob("*.json") if path.stem.isdigit())
    for version, content in contents(location, versions):
        yield version, [json.loads(line) for line in (content or b"").splitlines() if line.strip()]
