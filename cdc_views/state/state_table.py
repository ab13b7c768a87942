"""A state: the compacted raw table as a Delta table, and the version of its raw table that it covers.

A state belongs to one raw table and records that table's id. Every commit that changes its facts also records a mark (see
`identity`) under one transaction id. Delta refuses two concurrent commits of one id, so a commit is a compare-and-swap, and rows
are never without their watermark. A mark is valid only for the raw table and the commit that it names. A state of another raw
table is never read or overwritten.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable

from cdc_views.errors import UsageError
from cdc_views.landing.delta import delta_errors, log_settings, open_delta, record, recorded, recording
from cdc_views.landing.raw_table import is_delta
from cdc_views.plan.compact import PART
from cdc_views.plan.parts import NO_FILES, PLAIN_OF, ROWS_ALONE, STORED, UNKNOWN, FileSet, Part, Parts, Source
from cdc_views.state.identity import (
    Mark,
    RawMismatchError,
    StateChangedError,
    entry_digest,
    id_digest,
    is_continued,
    path_of,
    why_not_continued,
)
from cdc_views.state.tail import DROPPED, why_changed, why_taken
from cdc_views.storage.conflicts import ConflictError
from cdc_views.storage.relation import LAYOUT_VERSION, Relation

_SPLIT = 3  # the version of `_part`; states of another version are not read
_OURS = "cdc-views:state:"
TRANSACTION = f"{_OURS}{_SPLIT}:mark"  # the transaction id of a state's marks
_RAW = f"{_OURS}raw"  # the transaction id with the digest of the raw table's id
_SOLE = f"{_OURS}sole"  # the transaction id that marks a state with facts that its raw table lacks
_OTHER = "it is another Delta table"
_EARLIER_STEPS = 1 << 20  # steps per raw version in marks of earlier versions of cdc-views, which have no digest of raw's log
_MARK = "cdc-views state"
_DESCRIPTION = re.compile(rf"{_MARK}; layout (?P<layout>\d+); order (?P<order>\w+)")


@dataclass(frozen=True, slots=True)
class StateTable:
    """A state at one version."""

    location: str
    version: int
    mark: Mark | None  # the raw commit that it covers; None before the first run
    parts: Parts
    columns: tuple[str, ...] = ()  # all columns that it ever had
    settled: int | None = None  # the bound on write times in base and overlay (`settled_of`)
    mismatch: str = ""  # why it does not belong to the present raw table; empty if it does
    changed: str = ""  # how somebody else changed its rows; empty if nobody did
    is_earlier: bool = False  # an earlier version of cdc-views wrote it
    is_sole: bool = False  # it holds facts that its raw table lacks
    is_begun: bool = False  # it names the present raw table as its own

    @property
    def is_believed(self) -> bool:
        """Whether it belongs to the present raw table, and nobody else changed it."""
        return not (self.mismatch or self.changed)

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


def create_state(location: str, relation: Relation, raw: DeltaTable) -> None:
    """Create an empty state of `raw` if there is none."""
    if is_delta(location):
        return
    with delta_errors(location):
        DeltaTable.create(
            location,
            state_schema(relation),
            mode="ignore",
            partition_by=[PART],
            name=relation.schema.full_name,
            description=f"{_MARK}; layout {LAYOUT_VERSION}; order {relation.order.value}",
            configuration=log_settings(checkpoint_every=10),
            commit_properties=recording({_RAW: id_digest(raw)}),
        )


def open_state(location: str, relation: Relation, *, raw: DeltaTable) -> StateTable | None:
    """Return the state at its newest version; None if there is none. Refreshes `raw` if the state covers a newer version of it.
    Raises `UsageError` if the table at `location` is not a state, is another table's state, or has a newer layout.
    """
    if not is_delta(location):
        return None
    table = open_delta(location)
    metadata = table.metadata()
    kind = _DESCRIPTION.match(str(metadata.description or ""))
    if kind is None:
        raise UsageError(f"{location}: is a Delta table, but no state of cdc-views; move it away")
    if int(kind["layout"]) > LAYOUT_VERSION:
        raise UsageError(f"{location}: has layout {kind['layout']}, newer than this version knows; update cdc-views")
    if metadata.name != relation.schema.full_name or kind["order"] != relation.order.value:
        raise UsageError(
            f"{location}: is the state of {metadata.name} in order {kind['order']}; delete it, and `cdc-views materialize`"
        )
    columns = tuple(field.name for field in table.schema().fields)
    changed = why_changed(location, table.version(), ours=_OURS)
    is_sole = bool(recorded(table, _SOLE))
    found = StateTable(location, table.version(), None, _parts(location, table), columns, changed=changed, is_sole=is_sole)
    return _believed(found, table, raw)


def _parts(location: str, table: DeltaTable) -> Parts:
    """Return the active files of each part, with rows and bytes from Delta's log."""
    found = dict.fromkeys(STORED, NO_FILES)
    for action in sorted(pa.table(table.get_add_actions(flatten=True)).to_pylist(), key=lambda action: str(action["path"])):
        path = f"{location.rstrip('/')}/{unquote(action['path'])}"
        for part in STORED:
            if str(action[f"partition.{PART}"]).startswith(part.value):
                known = ROWS_ALONE if part in PLAIN_OF.values() else UNKNOWN
                found[part] |= FileSet((path,), int(action["num_records"] or 0), int(action["size_bytes"]), known)
    return Parts(found)


def _believed(found: StateTable, table: DeltaTable, raw: DeltaTable) -> StateTable:
    """Return the state with its mark, or with the reason why it does not belong to `raw`."""
    known, number = recorded(table, _RAW), recorded(table, TRANSACTION)
    if known is None:
        return _earlier(found, table, raw)
    mark = None if number is None else Mark.of(number)
    found = replace(found, is_begun=known == id_digest(raw))
    if not found.is_begun and not (mark and is_continued(raw, mark.version, mark.entry)):
        return replace(found, mismatch=_OTHER) if mark or found.of(STORED) else found
    if mark is None:
        return found
    _catch_up(raw, mark.version)
    why = why_not_continued(raw, mark.version, mark.entry) or why_taken(path_of(raw), mark.version, raw.version())
    return replace(found, mark=mark, settled=settled_of(table), mismatch=why)


def _earlier(found: StateTable, table: DeltaTable, raw: DeltaTable) -> StateTable:
    """Return the state of an earlier version of cdc-views, which did not distinguish raw tables. It is built again (no mark),
    unless events were dropped from raw: then only the state has them, so it keeps its mark.
    """
    number = recorded(table, f"{_OURS}{_SPLIT}:{raw.metadata().id}")
    if number is None:
        return replace(found, mismatch=_OTHER) if found.of(STORED) else found
    version = number // _EARLIER_STEPS
    _catch_up(raw, version)
    why = why_not_continued(raw, version, 0)
    mark = Mark(version, entry_digest(path_of(raw), version)) if recorded(raw, DROPPED) and not why else None
    return replace(found, mark=mark, mismatch=why, is_earlier=True)


def _catch_up(raw: DeltaTable, version: int) -> None:
    """Refresh `raw` if the state covers a newer version: another run merged facts meanwhile."""
    if raw.version() < version:
        with delta_errors(raw.table_uri):
            raw.update_incremental()


def checked(state: StateTable | None, raw: DeltaTable) -> StateTable | None:
    """Return the state; raises `RawMismatchError` if `raw` is another table, `StateChangedError` if its rows were changed."""
    name = raw.metadata().name
    if state is not None and state.mismatch:
        raise RawMismatchError(
            f"{name}: its raw table {path_of(raw)} is not the one that the state in {state.location} was built from: "
            f"{state.mismatch}; put that one back. If the raw table of now is right, see what differs with `cdc-views rebuild "
            f"{name} --dry-run`, and take it with `cdc-views rebuild {name} --accept`; `--with-state` keeps what the state has"
        )
    if state is not None and state.changed:
        raise StateChangedError(
            f"{name}: the state in {state.location} is not as it was left: {state.changed}. Or build it anew: see what differs "
            f"with `cdc-views rebuild {name}`, and take it with `cdc-views rebuild {name} --accept`"
        )
    return state


def begin(state: StateTable, raw: DeltaTable) -> None:
    """Record the raw table, and the covered version if any, in a state that is empty or of an earlier version of cdc-views."""
    numbers = {_RAW: id_digest(raw)}
    if state.mark is not None:
        numbers[TRANSACTION] = state.mark.number
    record(open_delta(state.location, version=state.version), numbers)


def id_of(location: str) -> str:
    """Return Delta's id of the state at `location`."""
    return str(open_delta(location).metadata().id)


def note_sole(location: str) -> None:
    """Record in a state that it holds facts that its raw table lacks."""
    record(open_delta(location), {_SOLE: 1})


def is_built(location: str) -> bool:
    """Whether the state at `location` was ever completed. A killed run leaves an incomplete one."""
    if not is_delta(location):
        return False
    table = open_delta(location)
    return recorded(table, TRANSACTION) is not None or bool(table.file_uris())


_BOUND_DIGITS = 3
_DIGIT_BITS = 62  # a transaction's number has 64 bits with its sign; a log position has twice as many (rule S2)


def settled_of(table: DeltaTable) -> int | None:
    """Return an upper bound of the write times in base and overlay at the open version of the state; None if not recorded. With
    it, reads know when all newer facts win. It is recorded before a base or an overlay is committed, and never falls. A run that
    is killed in between, or overtaken, leaves a bound that is too high, which only makes reads slower.
    """
    digits = [recorded(table, f"{TRANSACTION}:settled:{digit}") for digit in range(_BOUND_DIGITS)]
    known = [digit << (_DIGIT_BITS * number) for number, digit in enumerate(digits) if digit is not None]
    return sum(known) if len(known) == _BOUND_DIGITS else None


def record_settled(location: str, version: int, newest: int) -> int:
    """Record in the state at `version` that base and overlay hold nothing newer than `newest`; return the version with it. Raises
    `ConflictError` if somebody else committed since `version`: the files to replace may have changed.
    """
    table = open_delta(location, version=version)
    before, bound = settled_of(table), max(newest, 0)
    if before is not None and before >= bound:
        return version
    digits = [(bound >> (_DIGIT_BITS * digit)) % (1 << _DIGIT_BITS) for digit in range(_BOUND_DIGITS)]
    record(table, {f"{TRANSACTION}:settled:{digit}": number for digit, number in enumerate(digits)})
    if table.version() != version + 1:
        raise ConflictError(f"{location}: another run committed first")
    return version + 1


def check_not_sole(state: StateTable | None, *, what: str) -> None:
    """Raise `UsageError` if the state has facts that its raw table lacks, which `what` would lose."""
    if state is not None and state.is_sole:
        raise UsageError(
            f"{state.location}: the state holds facts that raw does not have, since it was kept by `rebuild --with-state`, so "
            f"{what} would be wrong; ask what state and newer events tell, or give the state's own facts up with "
            "`cdc-views rebuild --accept`"
        )
