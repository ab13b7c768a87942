"""Partitions that went without a trace in the log: told, kept in mind until somebody decides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from cdc_producers.postgres.connections import current_lsn
from cdc_producers.postgres.shapes import Difference
from cdc_views.landing.targets import ProducerLog


@dataclass
class Partitions:
    """Judges what differs of partitions, look by look.

    A TRUNCATE of the whole table is in the log and empties each partition as well: whether there was one is known once
    the log has been read to where the partition was seen empty.

    Attributes:
        keeps: Whether rows of partitions that went are to stay shown.
        troubles: What is wrong, by table, until it is read anew.
        read_to: How far the log has been read.
    """

    keeps: bool
    log: ProducerLog
    troubles: dict[str, str] = field(default_factory=dict)
    read_to: Callable[[], int] = lambda: 0
    _seen: dict[str, int] = field(default_factory=dict)
    _truncated: set[str] = field(default_factory=set)
    _accepted: set[str] = field(default_factory=set)

    def truncated(self, name: str) -> None:
        """Hear that the log had a TRUNCATE of the whole table."""
        self._truncated.add(name)

    def accepts(self, name: str) -> bool:
        """Whether partitions of a table that were emptied are nothing to be told any more."""
        return self.keeps or name in self._accepted

    def is_to_be_noted(self, name: str, found: Difference, connection: Any) -> bool:
        """Look at what differs of a table while its log is read; returns whether it is to be noted as it is now."""
        gone = list(found.emptied)
        if gone and name not in self._accepted and not self.keeps:
            seen = self._seen.setdefault(name, current_lsn(connection))
            if self.read_to() < seen:
                return False
            if name in self._truncated:
                self._accepted.add(name)
                gone = []
        if not self.keeps and (gone or found.has_gone) and name not in self._accepted:
            self._tell(name, gone)
        return bool(found.rewritten) or (bool(found.emptied or found.has_gone) and self.accepts(name))

    def noted(self, name: str, found: Difference) -> None:
        """Hear that what differed is noted."""
        for each in found.rewritten:
            self.log.warning(
                f"{name}: partition {each} has been rewritten: VACUUM FULL and CLUSTER leave its rows, but if it was emptied "
                "by a TRUNCATE of its own, start once with --snapshot-again",
                table=name,
            )
        self._accepted.discard(name)
        self._truncated.discard(name)
        self._seen.pop(name, None)

    def _tell(self, name: str, emptied: list[str]) -> None:
        what = f"{', '.join(emptied)} emptied" if emptied else "dropped or detached"
        trouble = (
            f"{name}: partitions were {what} at the source, and its log says nothing of the rows that went: the view still shows "
            "them. Start once with --snapshot-again, or with --keep-dropped-partitions to go on showing them"
        )
        if self.troubles.get(name) != trouble:
            self.troubles[name] = trouble
            self.log.warning(trouble, table=name)
