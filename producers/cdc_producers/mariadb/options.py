"""What the command line says of the MariaDB source."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cdc_views.errors import UsageError

_SERVER_IDS = range(1, 1 << 32)
_DOMAINS = range(1 << 32)
_OURS = 1 << 30
"""Server ids made of a name start here, where nobody numbers servers by hand."""


@dataclass(frozen=True, slots=True)
class Options:
    """See `cdc-views produce mariadb --help`; `server_id` 0: one made of the name; `gtid_domain` None: the server's own."""

    name: str = "cdc_views"
    server_id: int = 0
    gtid_domain: int | None = None
    skips_snapshot: bool = False
    snapshots_again: bool = False
    allows_unkeyed: bool = False
    nulls_zero_dates: bool = False
    heartbeat_seconds: float = 1.0

    def __post_init__(self) -> None:
        if not self.name:
            raise UsageError("--name is empty; a name was expected, that no other producer of the same tables has")
        if self.server_id and self.server_id not in _SERVER_IDS:
            raise UsageError(f"--server-id is {self.server_id}; 1 to {_SERVER_IDS.stop - 1} was expected")
        if self.gtid_domain is not None and self.gtid_domain not in _DOMAINS:
            raise UsageError(f"--gtid-domain is {self.gtid_domain}; 0 to {_DOMAINS.stop - 1} was expected")
        if self.skips_snapshot and self.snapshots_again:
            raise UsageError("--skip-snapshot and --snapshot-again exclude each other; give one")
        if not 0.001 <= self.heartbeat_seconds <= 60:
            raise UsageError(f"--heartbeat is {self.heartbeat_seconds:g}; 0.001 to 60 seconds were expected")

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Options:
        """Return the options that a producer was given by name."""
        return cls(**given)

    @property
    def replica_number(self) -> int:
        """The server id it reads as: no two readers of one server may have the same."""
        return self.server_id or _OURS + zlib.crc32(self.name.encode()) % _OURS
