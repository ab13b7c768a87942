"""What the command line says of the PostgreSQL source."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cdc_views.errors import UnsupportedError, UsageError

_SLOT = re.compile(r"[a-z0-9_]{1,63}\Z")


@dataclass(frozen=True, slots=True)
class Options:
    """See `cdc-views produce postgres --help`."""

    slot: str = "cdc_views"
    publication: str = "cdc_views"
    skips_snapshot: bool = False
    snapshots_again: bool = False
    allows_unkeyed: bool = False
    heartbeat_seconds: float = 1.0
    echo_seconds: float | None = None
    plugin: str = "pgoutput"
    held_bytes_warning: int = 1 << 30
    confirm_seconds: float = 30.0
    keeps_dropped_partitions: bool = False

    def __post_init__(self) -> None:
        if not _SLOT.match(self.slot):
            raise UsageError(f"--slot is {self.slot!r}; up to 63 lower-case letters, digits and _ were expected")
        if self.plugin != "pgoutput":
            raise UnsupportedError(
                f"--plugin {self.plugin}: this producer reads pgoutput, which every PostgreSQL from 10 on has",
                remedy="leave --plugin out; wal2json brings no value that pgoutput does not",
            )
        if not self.publication:
            raise UsageError("--publication is empty; a name was expected")
        if self.skips_snapshot and self.snapshots_again:
            raise UsageError("--skip-snapshot and --snapshot-again exclude each other; give one")
        if self.heartbeat_seconds <= 0:
            raise UsageError("--heartbeat: more than 0 seconds were expected")
        if self.confirm_seconds <= 0:
            raise UsageError("--confirm: more than 0 seconds were expected")
        if self.echo_seconds is not None and self.echo_seconds <= 0:
            raise UsageError("--echo: more than 0 seconds were expected")

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Options:
        """Return the options that a producer was given by name."""
        return cls(**given)
