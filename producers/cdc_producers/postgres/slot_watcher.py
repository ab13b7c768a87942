"""Watching while the slot is followed: the log the server keeps for it, how near it is to losing it, changed tables."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Event
from typing import Any

from cdc_producers.log_watcher import EVERY, LogWatcher
from cdc_producers.postgres.connections import connect, rows
from cdc_producers.postgres.slots import Slot, find_slot
from cdc_views.errors import CdcViewsError, TransientError
from cdc_views.landing.targets import ProducerLog

_NEAR_BYTES = 256 << 20
_WARN_AGAIN_AFTER = 60
"""Looks between two warnings: five minutes."""


@dataclass
class SlotWatcher(LogWatcher):
    """What was last seen of a slot; None before the first look. `saw_change` is set once `has_changed` said so."""

    slot: str
    held_bytes_warning: int
    log: ProducerLog
    has_changed: Callable[[Any], bool] = lambda _: False
    done_to: Callable[[], int] = lambda: 0
    saw_change: Event = field(default_factory=Event)
    echo_seconds: float | None = None
    behind_bytes: int | None = None
    held_bytes: int | None = None
    _quiet_looks: int = 0

    def is_over(self) -> bool:
        return self._stop.is_set() or self.saw_change.is_set()

    def look_until_stopped(self) -> None:
        connection = connect()
        looked = -EVERY
        try:
            while not self._stop.is_set():
                self._echo(connection)
                if time.monotonic() - looked >= EVERY:
                    looked = time.monotonic()
                    slot = find_slot(connection, self.slot)
                    if slot is not None:
                        self.look(slot)
                    if self.has_changed(connection):
                        self.saw_change.set()
                        return
                self._stop.wait(min(self.echo_seconds or EVERY, EVERY))
        finally:
            connection.close()

    def _echo(self, connection: Any) -> None:
        """Write the time into the log, for the stream to read: lag is known by what went all the way."""
        if self.echo_seconds is None:
            return
        text = "SELECT pg_logical_emit_message(false, %s, %s)"
        try:
            rows(connection, text, (self.slot, f"{time.time():.3f}"), doing="writing an echo")
        except TransientError:
            raise
        except CdcViewsError as error:
            self.echo_seconds = None
            self.log.warning(f"--echo does not work here: {error}; going on without")

    def look(self, slot: Slot) -> None:
        """Take note of a slot, and warn where the log kept for it grows beyond what was asked for, or is near its limit."""
        self.behind_bytes = max(0, slot.written - max(slot.confirmed, self.done_to()))
        self.held_bytes = slot.held_bytes
        is_near = slot.safe_bytes is not None and slot.safe_bytes < _NEAR_BYTES
        if not is_near and slot.held_bytes < self.held_bytes_warning:
            self._quiet_looks = 0
            return
        if self._quiet_looks == 0:
            self.log.warning(self._warning(slot, is_near=is_near), slot=self.slot, held_bytes=slot.held_bytes)
        self._quiet_looks = (self._quiet_looks + 1) % _WARN_AGAIN_AFTER

    def _warning(self, slot: Slot, *, is_near: bool) -> str:
        held = f"the server keeps {slot.held_bytes >> 20:,} MiB of log for slot {self.slot}"
        if is_near:
            rest = max(0, slot.safe_bytes or 0) >> 20
            return f"{held}, and loses the slot {rest:,} MiB on (max_slot_wal_keep_size); raise that limit or land faster"
        return f"{held}; it goes once this producer has landed it and transactions that run are over"
