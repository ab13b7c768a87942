"""A state: the compacted raw table as a Delta table, and how far into the raw table it reaches.

Every commit of a state that changes its facts records one transaction id, named after the raw table's Delta id, whose number
is the raw version the state covers and a step: `version * STEPS + step`. Delta refuses two commits of one id at once, so a
commit is a compare-and-swap, and there is no moment with rows and without their watermark.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable

from cdc_views.errors import UsageError
from cdc_views.landing.delta import delta_errors, log_settings, recorded
from cdc_views.landing.raw_table import is_delta
from cdc_views.materialize.settled import settled_of
from cdc_views.plan.compact import PART
from cdc_views.relation import LAYOUT_VERSION, Relation

STEPS = 1 << 20
"""How many commits of a state may follow each other at one raw version."""
_MARK = "cdc-views state"
_SPLIT = 3
"""How `_part` splits a state; one split in another way is built anew, as that of another raw table would be."""
_DESCRIPTION = re.compile(rf"{_MARK}; layout (?P<layout>\d+); order (?P<order>\w+)")


@dataclass(frozen=True, slots=True)
class File:
    """One active file of a state: absolute path, `_part` value, bytes, facts."""

    path: str
    part: str
    size: int
    rows: int


@dataclass(frozen=True, slots=True)
class StateTable:
    """A state at one version.

    `mark` is the transaction number, None where the state holds nothing of this raw table; `columns` are all that it
    ever had.
    """

    location: str
    version: int
    mark: int | None
    files: tuple[File, ...]
    columns: tuple[str, ...] = ()
    settled: int | None = None
    """What `settled_of` says."""

    @property
    def raw_version(self) -> int | None:
        """The version of the raw table that the state covers."""
        return None if self.mark is None else self.mark // STEPS

    def of(self, prefix: str) -> tuple[File, ...]:
        """Return the files of the base or of the runs."""
        return tuple(file for file in self.files if file.part.startswith(prefix))


def state_schema(relation: Relation) -> pa.Schema:
    """Return the columns of a state: the raw layout's, and `_part`."""
    return relation.arrow_schema().append(pa.field(PART, pa.string()))


def transaction_name(raw_id: str) -> str:
    """Return the transaction id of states of the raw table whose Delta id is `raw_id`."""
    return f"cdc-views:state:{_SPLIT}:{raw_id}"


def create_state(location: str, relation: Relation) -> None:
    """Create an empty state where there is none."""
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
        )


def open_state(location: str, relation: Relation, *, raw_id: str) -> StateTable | None:
    """Return the state at its newest version, None where there is none.

    Raises `UsageError` where the table is no state, is another table's, or has a newer layout.
    """
    if not is_delta(location):
        return None
    with delta_errors(location):
        table = DeltaTable(location)
    _check(location, table, relation)
    actions = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    root = location.rstrip("/") + "/"
    files = tuple(
        File(root + unquote(a["path"]), str(a[f"partition.{PART}"]), int(a["size_bytes"]), int(a["num_records"] or 0))
        for a in sorted(actions, key=lambda a: str(a["path"]))
    )
    name, columns = transaction_name(raw_id), tuple(field.name for field in table.schema().fields)
    return StateTable(location, table.version(), recorded(table, name), files, columns, settled_of(table, name))


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
