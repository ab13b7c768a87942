"""A state: the compacted raw table as a Delta table, and how far into which raw table it reaches.

A state belongs to one raw table. It records that table's id when it begins. Every commit that changes its facts records a
mark (see `identity`) under one transaction id. Delta refuses two commits of one id at once, so a commit is a
compare-and-swap, and there is no moment with rows and without their watermark. A mark counts only for the raw table, and
for the commit of it, that it names; a state that knows another one is never read beside this one, nor written over.
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
from cdc_views.state.newest_write_bound import settled_of
from cdc_views.state.tail import DROPPED
from cdc_views.state.taking import why_changed, why_taken
from cdc_views.storage.relation import LAYOUT_VERSION, Relation

_SPLIT = 3
"""How `_part` splits a state; one split in another way is not read."""
_OURS = "cdc-views:state:"
TRANSACTION = f"{_OURS}{_SPLIT}:mark"
"""The transaction id of a state's marks."""
_RAW = f"{_OURS}raw"
"""The transaction id under which a state keeps the digest of its raw table's id."""
_SOLE = f"{_OURS}sole"
"""Recorded where a state holds facts that its raw table does not have."""
_OTHER = "it is another Delta table"
_EARLIER_STEPS = 1 << 20
"""Of the marks of earlier versions, which were named after the raw table's id and knew no digest of its log."""
_MARK = "cdc-views state"
_DESCRIPTION = re.compile(rf"{_MARK}; layout (?P<layout>\d+); order (?P<order>\w+)")


@dataclass(frozen=True, slots=True)
class StateTable:
    """A state at one version.

    Attributes:
        location: Where it is.
        version: Delta's.
        mark: How far it reaches into its raw table; None where nothing says so, as before the first run.
        parts: The active files.
        columns: All that it ever had.
        settled: What `settled_of` says.
        mismatch: Why it does not belong to the raw table as that is now; empty where it does.
        changed: What somebody else did to its rows; empty for nothing.
        is_earlier: An earlier version of cdc-views kept it, and what raw holds tells whether it may be believed.
        is_sole: It holds facts that its raw table does not have.
        is_begun: It says which raw table it belongs to, and that is the one of now.
    """

    location: str
    version: int
    mark: Mark | None
    parts: Parts
    columns: tuple[str, ...] = ()
    settled: int | None = None
    mismatch: str = ""
    changed: str = ""
    is_earlier: bool = False
    is_sole: bool = False
    is_begun: bool = False

    @property
    def is_believed(self) -> bool:
        """Whether it holds what we left in it, of the raw table of now."""
        return not (self.mismatch or self.changed)

    @property
    def raw_version(self) -> int | None:
        """The version of the raw table that the state covers."""
        return None if self.mark is None else self.mark.version

    def of(self, parts: Source | Iterable[Part]) -> FileSet:
        """Return the files of some parts, with all that is known of them without reading footers."""
        return self.parts.of(parts)

    def rows(self, parts: Source | Iterable[Part]) -> int:
        """Return how many facts some parts have."""
        return self.of(parts).rows or 0


def state_schema(relation: Relation) -> pa.Schema:
    """Return the columns of a state: the raw layout's, and `_part`."""
    return relation.arrow_schema().append(pa.field(PART, pa.string()))


def create_state(location: str, relation: Relation, raw: DeltaTable) -> None:
    """Create an empty state of `raw` where there is none."""
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
    """Return the state at its newest version, None where there is none.

    Args:
        location: Where it is.
        relation: What its columns mean.
        raw: The raw table, opened at its newest version; opened anew where the state reaches further by now.

    Raises `UsageError` where the table is no state, is another table's, or has a newer layout.
    """
    if not is_delta(location):
        return None
    table = open_delta(location)
    _check(location, table, relation)
    columns = tuple(field.name for field in table.schema().fields)
    changed = why_changed(location, table.version(), ours=_OURS)
    is_sole = bool(recorded(table, _SOLE))
    found = StateTable(location, table.version(), None, _parts(location, table), columns, changed=changed, is_sole=is_sole)
    return _believed(found, table, raw)


def _parts(location: str, table: DeltaTable) -> Parts:
    """The active files of each part, with what Delta's log says of them."""
    found = dict.fromkeys(STORED, NO_FILES)
    for action in sorted(pa.table(table.get_add_actions(flatten=True)).to_pylist(), key=lambda action: str(action["path"])):
        path = f"{location.rstrip('/')}/{unquote(action['path'])}"
        for part in STORED:
            if str(action[f"partition.{PART}"]).startswith(part.value):
                known = ROWS_ALONE if part in PLAIN_OF.values() else UNKNOWN
                found[part] |= FileSet((path,), int(action["num_records"] or 0), int(action["size_bytes"]), known)
    return Parts(found)


def _believed(found: StateTable, table: DeltaTable, raw: DeltaTable) -> StateTable:
    """The state with its mark, if that is one of `raw`, or with what speaks against it."""
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
    return replace(found, mark=mark, settled=settled_of(table, TRANSACTION), mismatch=why)


def _earlier(found: StateTable, table: DeltaTable, raw: DeltaTable) -> StateTable:
    """A state that an earlier version of cdc-views kept, which could not tell raw tables apart.

    Where raw has all that ever landed, the state need not be believed, for it can be built again. Where events were
    dropped, the state alone has them.
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
    """Open `raw` anew where a state covers more of it: another run took in what landed since it was opened."""
    if raw.version() < version:
        with delta_errors(raw.table_uri):
            raw.update_incremental()


def checked(state: StateTable | None, raw: DeltaTable) -> StateTable | None:
    """Return the state, if that is to be believed.

    Raises:
        RawMismatchError: It does not belong to the raw table as that is now.
        StateChangedError: Somebody else changed its rows.
    """
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
    """Record which raw table an empty state, or one that an earlier version kept, belongs to; and what it covers of it."""
    numbers = {_RAW: id_digest(raw)}
    if state.mark is not None:
        numbers[TRANSACTION] = state.mark.number
    record(open_delta(state.location, version=state.version), numbers)


def id_of(location: str) -> str:
    """Return Delta's id of the state at `location`."""
    return str(open_delta(location).metadata().id)


def note_sole(location: str) -> None:
    """Record in a state that it holds facts which its raw table does not have."""
    record(open_delta(location), {_SOLE: 1})


def is_built(location: str) -> bool:
    """Whether the state at `location` was ever completed: a run that was killed leaves one that was not."""
    if not is_delta(location):
        return False
    table = open_delta(location)
    return recorded(table, TRANSACTION) is not None or bool(table.file_uris())


def _check(location: str, table: DeltaTable, relation: Relation) -> None:
    metadata = table.metadata()
    found = _DESCRIPTION.match(str(metadata.description or ""))
    if found is None:
        raise UsageError(f"{location}: is a Delta table, but no state of cdc-views; move it away")
    if int(found["layout"]) > LAYOUT_VERSION:
        raise UsageError(f"{location}: has layout {found['layout']}, newer than this version knows; update cdc-views")
    if metadata.name != relation.schema.full_name or found["order"] != relation.order.value:
        raise UsageError(
            f"{location}: is the state of {metadata.name} in order {found['order']}; delete it, and `cdc-views materialize`"
        )
