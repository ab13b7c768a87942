"""The options that `produce mariadb` and `produce mysql` share."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

from cdc_views.errors import UsageError
from cdc_views.landing.producers import option, switch

_SERVER_IDS = range(1, 1 << 32)
_OURS = 1 << 30
"""Server ids made of a name start here, where nobody numbers servers by hand."""


@dataclass(frozen=True, slots=True)
class BinlogOptions:
    """The options of one source that is read by its binlog; `server_id` 0: made of the name."""

    name: str = option(
        "--name", "cdc_views", "NAME", computed=lambda project, _: project.name,
        help="Name of the stored positions; default: cdc_views_ and the project's name.",
    )  # fmt: skip
    server_id: int = option("--server-id", 0, "N", help="Server id to read as, unique among replicas; 0: made from the name.")
    skips_snapshot: bool = switch("--skip-snapshot", help="Land only what changes from now on.")
    snapshots_again: bool = switch(
        "--snapshot-again", help="Empty the views and read the tables anew: after a purge. Give it once.", is_of_one_run=True
    )
    allows_unkeyed: bool = switch("--allow-unkeyed", help="Take tables whose key names several rows; they show as one.")
    nulls_zero_dates: bool = switch("--null-zero-dates", help="Land 0000-00-00 and similar dates as null, not in quarantine.")
    heartbeat_seconds: float = option("--heartbeat", 1.0, "SECONDS", help="How often an idle server gives a sign of life.")

    def __post_init__(self) -> None:
        if not self.name:
            raise UsageError("--name is empty; a name was expected, that no other producer of the same tables has")
        if self.server_id and self.server_id not in _SERVER_IDS:
            raise UsageError(f"--server-id is {self.server_id}; 1 to {_SERVER_IDS.stop - 1} was expected")
        if self.skips_snapshot and self.snapshots_again:
            raise UsageError("--skip-snapshot and --snapshot-again exclude each other; give one")
        if not 0.001 <= self.heartbeat_seconds <= 60:
            raise UsageError(f"--heartbeat is {self.heartbeat_seconds:g}; 0.001 to 60 seconds were expected")

    @property
    def replica_number(self) -> int:
        """The server id it reads as: no two readers of one server may have the same."""
        return self.server_id or _OURS + zlib.crc32(self.name.encode()) % _OURS
