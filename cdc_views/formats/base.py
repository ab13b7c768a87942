"""The interface of raw formats: decode an event's text to facts, and state what the format cannot carry."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar

from cdc_views.errors import MalformedEventError, UnsupportedError
from cdc_views.formats.redaction import EventColumns, Redacted, Redaction, marked
from cdc_views.model.config_part import ConfigPart
from cdc_views.model.schema import TableSchema
from cdc_views.rules.facts import Fact

if TYPE_CHECKING:
    from cdc_views.formats.forms import RowForm


class WriteOrder(Enum):
    """The kind of a format's write times, which decides how a raw table stores them."""

    MICROS = "micros"
    """A client's clock in µs (Cassandra): BIGINT."""
    LOG_POSITION = "log_position"
    """`order_key` of a position in a log (rule S2): DECIMAL(38, 0)."""


def order_key(position: int, *, ordinal: int = 0, epoch: int = 0) -> int:
    """Return the write time of a log position: `epoch · 2^96 + position · 2^32 + ordinal` (rule S2).

    `ordinal` orders events of one position (rule S3); a failover that restarts positions needs a higher `epoch`.
    Raises `MalformedEventError` if a part is negative or does not fit (38 decimal digits bound the epoch).

    >>> order_key(7, ordinal=1) == 7 * 2**32 + 1 < order_key(8) < order_key(0, epoch=1)
    True
    """
    if not (0 <= ordinal < 1 << 32 and 0 <= position < 1 << 64 and 0 <= epoch < 1 << 30):
        raise MalformedEventError(f"log position (epoch {epoch}, position {position}, ordinal {ordinal}) is out of range")
    return (epoch << 96) + (position << 32) + ordinal


@dataclass(frozen=True, slots=True)
class SourceLine:
    """One event in its source: text, 1-based line, byte offset. Line 0: the place does not order events (a table's row)."""

    text: str
    line: int = 1
    offset: int = 0


class Verdict(str, Enum):
    """How exact the view of a column is, best first."""

    EXACT = "EXACT"
    EXACT_IF = "EXACT-IF"
    APPROXIMATE = "APPROXIMATE"
    UNSAFE = "UNSAFE"


@dataclass(frozen=True, slots=True)
class Fidelity:
    """How exactly a format carries a column or whole rows (`*`: deletions, markers); `case`: the sample or rule that shows it."""

    column: str
    verdict: Verdict
    reason: str
    case: str = ""


class FormatOptions(ConfigPart):
    """The options of one format, `raw: {options: …}` of a project file; each format has its own model."""

    def columns(self) -> Mapping[str, Iterable[str]]:
        """Return the columns that each option names; it is an error if the table lacks one."""
        return {}


class RawFormat(ABC):
    """One raw format. It is stateless: an event always decodes to the same facts.

    With a `redaction`, it is of one table, and `redacted` comes before `decode`, whose schema is then what is stored.
    """

    name: ClassVar[str]
    options: ClassVar[type[FormatOptions] | None] = None
    """The model of `raw: {options: …}` in the project file; None: the format has no options."""
    is_positioned: ClassVar[bool] = False
    """Whether an event holds its position in the source's log; its copies then need no position in a topic."""
    order: ClassVar[WriteOrder] = WriteOrder.MICROS
    carries_node: ClassVar[bool] = False
    """Whether an event's origin names its replica, so that copies can be counted."""
    has_forms: ClassVar[bool] = False
    """Whether `row_form` may return a form, so that many events can be read at once."""
    writes_whole_rows: ClassVar[bool] = False
    """Whether an event has a row's columns as members, so that it may have one that the schema lacks."""
    redaction: Redaction | None = None
    """The policies of a table's columns; None: there are none."""

    @property
    def scaled(self) -> frozenset[str]:
        """Decimal columns whose scale is in the project file."""
        return frozenset()

    @classmethod
    def configured(cls, options: Any) -> RawFormat:
        """Return the format, configured by an instance of `cls.options`."""
        return cls()

    def redacting(self, redaction: Redaction) -> RawFormat:
        """Return the format with policies; raises `UnsupportedError` if they cannot be applied to its events."""
        if type(self).redact is RawFormat.redact:
            raise UnsupportedError(
                f"policies of columns cannot be applied to events of format {self.name}", remedy="let it implement `redact`"
            )
        found = copy(self)
        found.redaction = redaction
        return found

    @property
    def has_policies(self) -> bool:
        """Whether a column has a policy, so that nothing may keep an event as it came."""
        return self.redaction is not None and bool(self.redaction.policies.columns)

    def redacted(self, content: bytes) -> Redacted:
        """Return an event as the policies leave it, for `decode` and for all that is written of it."""
        return Redacted(content) if self.redaction is None else self.redaction.redacted(self.redact, content)

    def kept(self, content: bytes) -> bytes:
        """Return an event as it may be kept to be read again, by `redacted`."""
        found = self.redacted(content)
        return marked(found.content) if found.is_new else found.content

    def redact(self, document: Any, columns: EventColumns) -> Any:
        """Return a parsed event with policies applied, without members that `decode` does not read. Raises `UnlocatedError`."""
        return document

    def stored_schema(self, schema: TableSchema) -> TableSchema:
        """Return the schema of what is stored, given that of the source."""
        return schema if self.redaction is None else self.redaction.stored

    def source_schema(self, schema: TableSchema) -> TableSchema:
        """Return the schema that events have, given that of what is stored."""
        return schema if self.redaction is None else self.redaction.schema

    @abstractmethod
    def decode(self, event: SourceLine, schema: TableSchema) -> list[Fact]:
        """Return the facts of one event, none if it is not about rows (a transaction marker, a heartbeat).

        Raises `MalformedEventError` with the reason, also for an event of another table.
        """

    def row_form(self, contents: Sequence[bytes], schema: TableSchema) -> RowForm | None:
        """Return a form of events like these, which have members of the same names; None: read them one by one.

        The form gives the same facts as `decode`, or does not match an event. Raises like `decode`.
        """
        return None

    def happened(self, event: SourceLine) -> int | None:
        """Return the source's time of an event, in µs since the epoch; None if it has none.

        It never orders events (rule S2). It only separates events from before a key was forgotten from later ones.
        """
        return None

    @abstractmethod
    def fidelity(self, schema: TableSchema) -> list[Fidelity]:
        """Return the verdicts of `*`, then one per column, in schema order."""
