"""The options of `cdc-views produce postgres`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from cdc_views.errors import UnsupportedError, UsageError
from cdc_views.landing.producers import option, switch

PGOUTPUT, WAL2JSON = "pgoutput", "wal2json"
"""Not decoderbufs: it writes an infinite time as a number, and says a commit's position after its changes."""
_SLOT = re.compile(r"[a-z0-9_]{1,63}\Z")


class Dropped(str, Enum):
    """What to drop on the server, instead of landing."""

    NOTHING = "nothing"
    SLOT = "slot"
    ALL = "all"
    """The slot and the publications."""


class SlotFailover(str, Enum):
    """Whether standbys keep a copy of the slot."""

    OFF = "off"
    ON = "on"


class ServerRole(str, Enum):
    """The role of the server that the producer reads from."""

    PRIMARY = "primary"
    STANDBY = "standby"


@dataclass(frozen=True, slots=True)
class PostgresOptions:
    """The options of one PostgreSQL source."""

    slot: str = option(
        "--slot", "cdc_views", "NAME", computed=lambda project, _: project.name,
        help="Replication slot; default: cdc_views_ and the project's name.",
    )  # fmt: skip
    publication: str = option(
        "--publication", "cdc_views", "NAME", computed=lambda _, given: given["slot"],
        help="Publication; default: named as the slot.",
    )  # fmt: skip
    slot_failover: SlotFailover = option(
        "--slot-failover",
        SlotFailover.OFF,
        help="on: standbys keep a copy of the slot, which outlives a failover (PostgreSQL 17).",
    )
    server: ServerRole = option(
        "--server", ServerRole.PRIMARY, help="standby: read from one (PostgreSQL 16); its primary has to have the publication."
    )
    skips_snapshot: bool = switch("--skip-snapshot", help="Land only what changes from now on.")
    snapshots_again: bool = switch(
        "--snapshot-again", help="Empty the views and read the tables anew: after a lost slot. Give it once.", is_of_one_run=True
    )
    allows_unkeyed: bool = switch("--allow-unkeyed", help="Take tables whose deletions do not name their row; those do not land.")
    heartbeat_seconds: float = option("--heartbeat", 1.0, "SECONDS", help="How often an idle server is asked for a sign of life.")
    echo_seconds: float | None = option(
        "--echo", None, "SECONDS", help="Write a message into the server's log this often, and measure lag by its return."
    )
    confirm_seconds: float = option(
        "--confirm", 30.0, "SECONDS", help="How often tables without changes release the server's log; each time is a commit."
    )
    keeps_dropped_partitions: bool = switch(
        "--keep-dropped-partitions", help="Go on showing rows of partitions that were dropped or emptied."
    )
    drop: Dropped = option(
        "--drop", Dropped.NOTHING, help="Drop the slot, or slot and publication, and end: when its changes are no longer wanted."
    )
    plugin: str = option(
        "--plugin", PGOUTPUT, "NAME", help="The slot's output plug-in: pgoutput, or wal2json, which the server must have."
    )

    def __post_init__(self) -> None:
        if not _SLOT.match(self.slot):
            raise UsageError(f"--slot is {self.slot!r}; up to 63 lower-case letters, digits and _ were expected")
        if self.plugin not in (PGOUTPUT, WAL2JSON):
            raise UnsupportedError(
                f"--plugin {self.plugin}: this producer reads {PGOUTPUT} and {WAL2JSON}",
                remedy=f"leave --plugin out; every PostgreSQL from 10 on has {PGOUTPUT}",
            )
        if not self.publication:
            raise UsageError("--publication is empty; a name was expected")
        if self.skips_snapshot and self.snapshots_again:
            raise UsageError("--skip-snapshot and --snapshot-again exclude each other; give one")
        not_there = {"--slot-failover on": self.slot_failover is SlotFailover.ON, "--echo": self.echo_seconds is not None}
        for flag, is_given in not_there.items() if self.server is ServerRole.STANDBY else ():
            if is_given:
                raise UsageError(f"{flag}: a standby has no such slot and takes no message; give it without --server standby")
        periods = {"--heartbeat": self.heartbeat_seconds, "--confirm": self.confirm_seconds, "--echo": self.echo_seconds}
        for flag, seconds in periods.items():
            if seconds is not None and seconds <= 0:
                raise UsageError(f"{flag}: more than 0 seconds were expected")
