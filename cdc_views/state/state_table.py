"""A state: the compacted raw table as a Delta table, and the version of its raw table that it covers.

A state belongs to one raw table and records that table's id. Every commit that changes its facts also records a mark (see
`identity`) under one transaction id. Delta refuses two concurrent commits of one id, so a commit is a compare-and-swap, and rows
are never without their watermark. A mark is valid only for the raw table and the commit that it names. A state of another raw
table is never read or overwritten.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
from deltalake import TableFeatures

from cdc_views.errors import UsageError
from cdc_views.landing.delta import append, delta_errors, log_settings, open_delta, record, recording, with_settings
from cdc_views.plan.compact import PART
from cdc_views.plan.parts import ROWS_ALONE, STORED, FileSet, Part, Parts, Source, Statistics
from cdc_views.state.file_statistics import FileTold, columns_digest, statistics_of, told_in
from cdc_views.state.identity import (
    Mark,
    RawMismatchError,
    StateChangedError,
    entry_digest,
    id_digest,
    is_continued,
    why_not_continued,
)
from cdc_views.state.tail import DROPPED, why_changed, why_taken
from cdc_views.storage.data_files import DataFile
from cdc_views.storage.delta_tables import created
from cdc_views.storage.relation import STATE_LAYOUT, Relation
from cdc_views.storage.table_log import TableLog
from cdc_views.storage.widening import has_columns

_SPLIT = 4  # the version of `_part`
_OURS = "cdc-views:state:"
TRANSACTION = f"{_OURS}{_SPLIT}:mark"  # the transaction id of a state's marks
_FORMER = f"{_OURS}3:mark"  # the one of states with an overlay, which are read, and turned at their next run
_RAW = f"{_OURS}raw"  # the transaction id with the digest of the raw table's id
_SOLE = f"{_OURS}sole"  # the transaction id that marks a state with facts that its raw table lacks
_OTHER = "it is another Delta table"
_EARLIER_STEPS = 1 << 20  # steps per raw version in marks of earlier versions of cdc-views, which have no digest of raw's log
_MARK = "cdc-views state"
_VECTORS = {"delta.enableDeletionVectors": "true"}
_DESCRIPTION = re.compile(rf"{_MARK}; layout (?P<layout>\d+); order (?P<order>\w+)")


@dataclass(frozen=True, slots=True)
class StateTable:
    """A state at one version."""

    log: TableLog
    mark: Mark | None  # the raw commit that it covers; None before the first run
    parts: Parts
    columns: tuple[str, ...] = ()  # all columns that it ever had
    has_layout: bool = True  # Delta's schema has every column of the layout, and every field of its structs
    files: tuple[DataFile, ...] = ()  # of all parts
    in_layout: frozenset[str] = frozenset()  # the paths of files with exactly the columns of the layout
    mismatch: str = ""  # why it does not belong to the present raw table; empty if it does
    changed: str = ""  # how somebody else changed its rows; empty if nobody did
    is_earlier: bool = False  # an earlier version of cdc-views wrote it, and it is built again
    is_sole: bool = False  # it holds facts that its raw table lacks
    is_begun: bool = False  # it names the present raw table as its own

    @property
    def location(self) -> str:
        """The path or URL of its table."""
        return self.log.location

    @property
    def version(self) -> int:
        """The version of its table."""
        return self.log.version

    @property
    def has_vectors(self) -> bool:
        """Whether its files may have deletion vectors."""
        return "deletionVectors" in self.log.writer_features

    @property
    def is_believed(self) -> bool:
        """Whether it belongs to the present raw table, and nobody else changed it."""
        return not (self.mismatch or self.changed)

    @property
    def is_former(self) -> bool:
        """Whether it has the former layout, with an overlay; its next run turns it."""
        return any(_name_in(file) not in _PARTS for file in self.files)

    @property
    def raw_version(self) -> int | None:
        """The version of the raw table that the state covers."""
        return None if self.mark is None else self.mark.version

    def of(self, parts: Source | Iterable[Part]) -> FileSet:
        """Return the files of some parts, without statistics of their footers."""
        return self.parts.of(parts)

    def rows(self, parts: Source | Iterable[Part]) -> int:
        """Return how many facts some parts have."""
        return self.of(parts).rows or 0


def state_schema(relation: Relation) -> pa.Schema:
    """Return the columns of a state: the raw layout's, and `_part`."""
    return relation.arrow_schema().append(pa.field(PART, pa.string()))


def create_state(location: str, relation: Relation, raw: TableLog) -> None:
    """Create an empty state of `raw` if there is none."""
    with delta_errors(location):
        created(
            location,
            state_schema(relation),
            mode="ignore",
            partition_by=[PART],
            name=relation.schema.full_name,
            description=_description(relation),
            configuration={**log_settings(checkpoint_every=10), **_VECTORS},
            commit_properties=recording({_RAW: id_digest(raw)}),
        )


def turn(state: StateTable, relation: Relation) -> None:
    """Let a state of the former layout have deletion vectors, which earlier versions of cdc-views refuse to read from then on."""
    location = state.location
    table = open_delta(location)
    with delta_errors(location):
        if not state.has_vectors:
            table.alter.add_feature(TableFeatures.DeletionVectors, allow_protocol_versions_increase=True)
        with_settings(table, _VECTORS)
        if str(table.metadata().description) != _description(relation):
            open_delta(location).alter.set_table_description(_description(relation))


def widen(state: StateTable, relation: Relation) -> None:
    """Add columns, and fields of structs, that the schema file gained. Without them Delta's own readers would show null for what
    the files have.
    """
    if not state.has_layout:
        append(open_delta(state.location), state_schema(relation).empty_table(), transactions={})


def _description(relation: Relation) -> str:
    return f"{_MARK}; layout {STATE_LAYOUT}; order {relation.order.value}"


def open_state(location: str, relation: Relation, *, raw: TableLog) -> StateTable | None:
    """Return the state at its newest version; None if there is none. Otherwise as `state_in`."""
    log = TableLog.find(location)
    return None if log is None else state_in(log, relation, raw=raw)


def state_in(log: TableLog, relation: Relation, *, raw: TableLog) -> StateTable:
    """Return the state at the open version of its table. Refreshes `raw` if the state covers a newer version of it. Raises
    `UsageError` if the table is not a state, is another table's state, or has a newer layout.
    """
    location, metadata = log.location, log.metadata
    kind = _DESCRIPTION.match(metadata.description)
    if kind is None:
        raise UsageError(f"{location}: is a Delta table, but no state of cdc-views; move it away")
    if int(kind["layout"]) > STATE_LAYOUT:
        raise UsageError(f"{location}: has layout {kind['layout']}, newer than this version knows; update cdc-views")
    if metadata.name != relation.schema.full_name or kind["order"] != relation.order.value:
        raise UsageError(
            f"{location}: is the state of {metadata.name} in order {kind['order']}; delete it, and `cdc-views materialize`"
        )
    digest, told = columns_digest(relation), {file.path: told_in(file.tags) for file in log.files}
    found = StateTable(
        log,
        None,
        _parts(log, told, relation),
        tuple(log.schema.names),
        has_columns(log.schema, state_schema(relation)),
        log.files,
        frozenset(log.path(path) for path, known in told.items() if known is not None and known.columns == digest),
        changed=why_changed(log, ours=_OURS),
        is_sole=bool(log.transaction(_SOLE)),
    )
    return _believed(found, raw)


_PARTS = {part.value: part for part in STORED}
_FORMER_PARTS = {"b": Part.BASE, "p": Part.PLAIN, "g": Part.PURGED, "r": Part.RUN, "q": Part.RUN, "s": Part.RUN}
"""The parts of the former layout by their letters. M1: rows of its overlay (`q`, `s`) are facts like those of runs."""


def part_of_file(file: DataFile) -> Part | None:
    """Return the part of a state's file; None for one that held no facts in the former layout."""
    name = _name_in(file)
    return _PARTS.get(name) or _FORMER_PARTS.get(name)


def _name_in(file: DataFile) -> str:
    return str(file.partition.get(PART)).rstrip("01")


def _parts(log: TableLog, told: Mapping[str, FileTold | None], relation: Relation) -> Parts:
    """Return the files of each part, with rows, bytes and statistics from Delta's log."""
    members: dict[Part, list[DataFile]] = {part: [] for part in STORED}
    for file in log.files:
        if (part := part_of_file(file)) is not None:
            members[part].append(file)
    found = dict[Part, FileSet]()
    for part, files in members.items():
        paths, statistics = tuple(file.at(log.location) for file in files), Statistics()
        for file, path in zip(files, paths, strict=True):
            known = told[file.path]
            if known is not None:
                statistics |= known.statistics
            else:
                statistics |= ROWS_ALONE if part is Part.PLAIN else statistics_of([path], relation)
        masked = frozenset(path for file, path in zip(files, paths, strict=True) if file.deleted is not None)
        rows, size = sum(file.live for file in files), sum(file.size for file in files)
        found[part] = FileSet(paths, rows, size, statistics, masked)
    return Parts(found)


def _believed(found: StateTable, raw: TableLog) -> StateTable:
    """Return the state with its mark, or with the reason why it does not belong to `raw`."""
    known, number = found.log.transaction(_RAW), _number(found.log)
    if known is None:
        return _earlier(found, raw)
    mark = None if number is None else Mark.of(number)
    found = replace(found, is_begun=known == id_digest(raw))
    if not found.is_begun and not (mark and is_continued(raw, mark.version, mark.entry)):
        return replace(found, mismatch=_OTHER) if mark or found.of(STORED) else found
    if mark is None:
        return found
    _catch_up(raw, mark.version)
    why = why_not_continued(raw, mark.version, mark.entry) or why_taken(raw, mark.version)
    return replace(found, mark=mark, mismatch=why)


def _number(log: TableLog) -> int | None:
    number = log.transaction(TRANSACTION)
    return number if number is not None else log.transaction(_FORMER)


def _earlier(found: StateTable, raw: TableLog) -> StateTable:
    """Return the state of an earlier version of cdc-views, which did not distinguish raw tables. It is built again (no mark),
    unless events were dropped from raw: then only the state has them, so it keeps its mark.
    """
    number = found.log.transaction(f"{_OURS}3:{raw.metadata.id}")
    if number is None:
        return replace(found, mismatch=_OTHER) if found.of(STORED) else found
    version = number // _EARLIER_STEPS
    _catch_up(raw, version)
    why = why_not_continued(raw, version, 0)
    mark = Mark(version, entry_digest(raw, version)) if raw.transaction(DROPPED) and not why else None
    return replace(found, mark=mark, mismatch=why, is_earlier=True)


def _catch_up(raw: TableLog, version: int) -> None:
    """Refresh `raw` if the state covers a newer version: another run merged facts meanwhile."""
    if raw.version < version:
        raw.refresh()


def checked(state: StateTable | None, raw: TableLog) -> StateTable | None:
    """Return the state; raises `RawMismatchError` if `raw` is another table, `StateChangedError` if its rows were changed."""
    name = raw.metadata.name
    if state is not None and state.mismatch:
        raise RawMismatchError(
            f"{name}: its raw table {raw.location} is not the one that the state in {state.location} was built from: "
            f"{state.mismatch}; put that one back. If the raw table of now is right, see what differs with `cdc-views rebuild "
            f"{name} --dry-run`, and take it with `cdc-views rebuild {name} --accept`; `--with-state` keeps what the state has"
        )
    if state is not None and state.changed:
        raise StateChangedError(
            f"{name}: the state in {state.location} is not as it was left: {state.changed}. Or build it anew: see what differs "
            f"with `cdc-views rebuild {name}`, and take it with `cdc-views rebuild {name} --accept`"
        )
    return state


def begin(state: StateTable, raw: TableLog) -> None:
    """Record the raw table, and the covered version if any, in a state that is empty or of an earlier version of cdc-views."""
    numbers = {_RAW: id_digest(raw)}
    if state.mark is not None:
        numbers[TRANSACTION] = state.mark.number
    record(open_delta(state.location, version=state.version), numbers)


def id_of(location: str) -> str:
    """Return Delta's id of the state at `location`."""
    return TableLog.open(location).metadata.id


def note_sole(location: str) -> None:
    """Record in a state that it holds facts that its raw table lacks."""
    record(open_delta(location), {_SOLE: 1})


def is_built(location: str) -> bool:
    """Whether the state at `location` was ever completed. A killed run leaves an incomplete one."""
    log = TableLog.find(location)
    return log is not None and (_number(log) is not None or bool(log.added))


def check_not_sole(state: StateTable | None, *, what: str) -> None:
    """Raise `UsageError` if the state has facts that its raw table lacks, which `what` would lose."""
    if state is not None and state.is_sole:
        raise UsageError(
            f"{state.location}: the state holds facts that raw does not have, since it was kept by `rebuild --with-state`, so "
            f"{what} would be wrong; ask what state and newer events tell, or give the state's own facts up with "
            "`cdc-views rebuild --accept`"
        )
