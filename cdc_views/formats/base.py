"""What a raw format is: how one event's text becomes facts, and what the format cannot carry."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar

from cdc_views.errors import MalformedEventError
from cdc_views.model.config_part import ConfigPart
from cdc_views.model.schema import TableSchema
from cdc_views.rules.facts import Fact

if TYPE_CHECKING:
    from cdc_views.formats.row_form import RowForm


class WriteOrder(Enum):
    """What the write times of a format are, and so how a raw table stores them."""

    MICROS = "micros"
    """A client's clock in µs (Cassandra): BIGINT."""
    LOG_POSITION = "log_position"
    """`order_key` of a position in a log (rule S2): DECIMAL(38, 0)."""


def order_key(position: int, *, ordinal: int = 0, epoch: int = 0) -> int:
    """Return the write time of a log position: `epoch · 2^96 + position · 2^32 + ordinal` (rule S2).

    `ordinal` orders events of one position (rule S3); an `epoch` precedes positions that a failover restarted.
    Raises `MalformedEventError` when a part is negative or does not fit (38 decimal digits bound the epoch).
    """
    if not (0 <= ordinal < 1 << 32 and 0 <= position < 1 << 64 and 0 <= epoch < 1 << 30):
        raise MalformedEventError(f"log position (epoch {epoch}, position {position}, ordinal {ordinal}) is out of range")
    return (epoch << 96) + (position << 32) + ordinal


@dataclass(frozen=True, slots=True)
class SourceLine:
    """One event as it stands in its source: its text, its 1-based line number and its byte offset.

    Line 0 is that of an event whose place in its source says nothing of its order: a row of a table.
    """

    text: str
    line: int = 1
    offset: int = 0


class Verdict(str, Enum):
    """How far the view of a column can be trusted, best first."""

    EXACT = "EXACT"
    EXACT_IF = "EXACT-IF"
    APPROXIMATE = "APPROXIMATE"
    UNSAFE = "UNSAFE"


@dataclass(frozen=True, slots=True)
class Fidelity:
    """What a format can carry of one column of one table, and why.

    `column` is `*` for what concerns whole rows (deletions, markers). `case` names the sample or rule that shows it.
    """

    column: str
    verdict: Verdict
    reason: str
    case: str = ""


class FormatOptions(ConfigPart):
    """What a project file says of one format under `raw: {options: …}`; each format has a model of its own."""

    def columns(self) -> Mapping[str, Iterable[str]]:
        """Return the options that name columns of the table, and which; a name that the table lacks is refused."""
        return {}


class RawFormat(ABC):
    """One raw format. Stateless: an event decodes to the same facts whatever came before it."""

    name: ClassVar[str]
    options: ClassVar[type[FormatOptions] | None] = None
    """What the project file may say under `raw: {options: …}`; None: nothing."""
    is_positioned: ClassVar[bool] = False
    """Whether an event says where it stood in its source's log, so that a copy of it need not say where it stood in a topic."""
    order: ClassVar[WriteOrder] = WriteOrder.MICROS
    carries_node: ClassVar[bool] = False
    """Whether an event's origin names the replica that it was read on, so that copies can be counted."""
    has_forms: ClassVar[bool] = False
    """Whether `row_form` knows any, so that reading many events at once is worth it."""

    @property
    def scaled(self) -> frozenset[str]:
        """Columns whose decimals have as many digits after the point as the project file says."""
        return frozenset()

    @classmethod
    def configured(cls, options: Any) -> RawFormat:
        """Return the format as `options`, an instance of `cls.options`, configures it."""
        return cls()

    @abstractmethod
    def decode(self, event: SourceLine, schema: TableSchema) -> list[Fact]:
        """Return the facts of one event; raises `MalformedEventError` with the reason.

        An event of another table is malformed here. An event that says nothing about rows (a transaction
        marker, a heartbeat) gives no facts.
        """

    def row_form(self, contents: Sequence[bytes], schema: TableSchema) -> RowForm | None:
        """Return how events of the form of some are read many at once; None: one by one.

        A form reads an event just as `decode` does, or does not match it. These have members of the same names. May
        raise whatever `decode` does.
        """
        return None

    def happened(self, event: SourceLine) -> int | None:
        """Return when the source says that an event happened, in µs since the epoch; None where it does not say.

        Never an order (rule S2): it only tells events from before a key was forgotten from later ones.
        """
        return None

    @abstractmethod
    def fidelity(self, schema: TableSchema) -> list[Fidelity]:
        """Return one verdict a column, in schema order, preceded by those of `*`."""
