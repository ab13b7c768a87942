"""What `verify` reports: the cells that differ, what that means, where they were lost, and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from cdc_views.model.schema import TableSchema
from cdc_views.operations.explained import json_object
from cdc_views.rules.codec.jsontext import JsonRow, quote, to_json


class CellVerdict(str, Enum):
    """What a difference means."""

    LOSS = "loss"
    LAG = "lag"


class Lost(str, Enum):
    """The place in which a value went wrong, the first one on the way from the source to the reader."""

    TYPE = "type"
    RAW = "raw"
    STATE = "state"
    SERVING = "serving"
    VIEW = "view"


class WrongKind(str, Enum):
    """The kind of a difference."""

    MISSING_ROW = "missing row"
    MISSING_WRITE = "missing write"
    LOST_DELETION = "lost deletion"
    FALSE_DELETION = "false deletion"
    FOREIGN_WRITE = "foreign write"
    WRONG_TYPE = "wrong type"
    STALE_STATE = "wrong state"
    STALE_SERVING = "wrong serving table"
    STALE_VIEW = "stale view"
    NOT_LANDED = "not landed yet"
    WRITTEN_MEANWHILE = "written meanwhile"


_AGAIN = "read the table again with a snapshot (`produce … --snapshot-again`; Cassandra: `--snapshot only`)"
_REMEDIES = {
    WrongKind.MISSING_ROW: f"its events are not in raw: look for a skipped or deleted part of the log; {_AGAIN}",
    WrongKind.MISSING_WRITE: f"the newest write is not in raw: look for a skipped or deleted part of the log; {_AGAIN}",
    WrongKind.LOST_DELETION: f"the deletion is not in raw: look for a skipped or deleted part of the log; {_AGAIN}",
    WrongKind.FALSE_DELETION: f"raw has a deletion, and no write after it; {_AGAIN}",
    WrongKind.FOREIGN_WRITE: "raw has a write from beyond the end of the source's log: name the right server, or a new raw table",
    WrongKind.WRONG_TYPE: "the schema file's type is not the source's: correct the schema, then `replay` and `rebuild` the table",
    WrongKind.STALE_STATE: "raw is right, the state is not: `rebuild` the table",
    WrongKind.STALE_SERVING: "the view is right, the serving table is not: `materialize --full`",
    WrongKind.STALE_VIEW: "the view in the engine's catalog is not the project's: `apply`",
    WrongKind.NOT_LANDED: "wait for the producer, or start it",
    WrongKind.WRITTEN_MEANWHILE: "nothing: the next run reads it again",
}
COLUMNS = ("key", "column", "source", "view", "verdict", "place", "what", "rule", "replica", "candidates", "at", "remedy")


@dataclass(frozen=True, slots=True)
class LostCell:
    """One differing cell.

    Attributes:
        key: The row key's native values by column; empty for a finding about the whole table.
        column: The column; empty if only one of source and view has the row.
        source: The source's value as JSON; empty if it has no such row.
        view: The value of `place` as JSON; empty likewise.
        rule: The rule that chose the view's value (`explain`); empty if nothing about the cell landed.
        replica: The nodes or streams from which the view's value landed.
        candidates: How many candidates raw has for the cell.
        at: The source's position or instant.
        waiting: Events of the table in quarantine.
    """

    key: Mapping[str, Any]
    column: str
    source: str
    view: str
    outcome: CellVerdict
    kind: WrongKind
    place: Lost | None = None
    rule: str = ""
    replica: str = ""
    candidates: int = 0
    at: str = ""
    waiting: int = 0

    @property
    def remedy(self) -> str:
        """What to do."""
        if self.waiting and self.place is Lost.RAW:
            return f"{self.waiting:,} events are in quarantine: `quarantine list`, then `replay`"
        return _REMEDIES[self.kind]

    def json_row(self, schema: TableSchema) -> JsonRow:
        """Return the finding as JSON texts, by `COLUMNS`."""
        kinds = {column.name: column.type for column in schema.columns}
        return {
            "key": json_object((name, to_json(kinds[name], value)) for name, value in self.key.items()) if self.key else "null",
            "column": quote(self.column) if self.column else "null",
            "source": self.source or "null",
            "view": self.view or "null",
            "verdict": quote(self.outcome.value),
            "place": "null" if self.place is None else quote(self.place.value),
            "what": quote(self.kind.value),
            "rule": quote(self.rule) if self.rule else "null",
            "replica": quote(self.replica) if self.replica else "null",
            "candidates": str(self.candidates),
            "at": quote(self.at),
            "remedy": quote(self.remedy),
        }


@dataclass(frozen=True, slots=True)
class Verification:
    """What one run of `verify` did for one table.

    Attributes:
        compared: Rows of the source that were compared with the view.
        looked_up: Rows of the view that were looked for in the source.
        queries: Queries to the source; `read` rows came from them, in `seconds`.
        at: The source's position through which all of them are proven, empty if a loss or lag leaves some open.
        instant: When the run began, ISO 8601.
        is_whole: Whether every row was compared.
        settled: Keys that differed at first, and were equal once they were read again.
        note: What was not compared, and why; mostly empty.
    """

    table: str
    findings: tuple[LostCell, ...] = field(default_factory=tuple)
    compared: int = 0
    looked_up: int = 0
    queries: int = 0
    read: int = 0
    seconds: float = 0.0
    at: str = ""
    instant: str = ""
    is_whole: bool = False
    settled: int = 0
    note: str = ""

    @property
    def losses(self) -> int:
        """How many cells are lost."""
        return sum(found.outcome is CellVerdict.LOSS for found in self.findings)

    @property
    def lags(self) -> int:
        """How many cells are late."""
        return len(self.findings) - self.losses

    @property
    def verdict(self) -> str:
        """`loss`, `lag` or `equal`."""
        return "loss" if self.losses else "lag" if self.lags else "equal"

    def line(self) -> str:
        """Return a sentence for the log."""
        some = "all rows" if self.is_whole else "a sample"
        told = f"{self.table}: {self.verdict}, {self.losses:,} cells lost, {self.lags:,} late, {self.settled:,} rows settled; "
        told += f"{some}: {self.compared:,} rows of "
        told += f"the source compared, {self.looked_up:,} of the view looked up; {self.queries:,} queries, {self.read:,} rows in "
        told += f"{self.seconds:.1f} s" + (f"; source at {self.at}" if self.at else "")
        return f"{told}; {self.note}" if self.note else told


def text_of_origins(origins: Any) -> str:
    """Return the nodes, else the streams, of a candidate's copies."""
    return ", ".join(dict.fromkeys(origin.node or origin.segment for origin in origins if origin.node or origin.segment))
