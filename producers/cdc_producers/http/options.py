"""The options of `cdc-views produce http`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from cdc_views.errors import UsageError
from cdc_views.landing.producers import option, switch

LOOPBACK = ("127.0.0.1", "localhost", "::1")
"""Names of this machine that other machines cannot reach."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\Z")
_LONGEST_HOLD = 3600


class UnknownTable(str, Enum):
    """The answer to an event of a table that the project lacks."""

    REFUSE = "refuse"
    KEEP = "keep"


@dataclass(frozen=True, slots=True)
class HttpOptions:
    """The options of a receiver. `rate` None: no limit; without `tls_cert` and `tls_key` it serves plain HTTP."""

    host: str = option("--host", "127.0.0.1", "HOST", help="Address to listen on.")
    port: int = option("--port", 4444, "PORT", at_least=0, help="Port; 0: any that is free.")
    name: str = option("--name", "receiver", "NAME", help="This receiver's name: its streams are http:NAME.")
    station: tuple[str, ...] = option(
        "--station", (), "NAME[=TABLE]",
        help="A station and its table; may be repeated. Without TABLE, each event names its own.",
    )  # fmt: skip
    unknown_table: UnknownTable = option(
        "--unknown-table", UnknownTable.REFUSE,
        help="Answer 422 or 202 to events of tables that the project lacks. Both keep the events.",
    )  # fmt: skip
    no_auth: bool = switch("--no-auth", help="Take events of anybody; on a loopback address only.")
    tls_cert: str | None = option("--tls-cert", None, "FILE", help="Certificate chain, PEM.")
    tls_key: str | None = option("--tls-key", None, "FILE", help="Its key, PEM.")
    max_bytes: int = option("--max-bytes", 8 << 20, "N", at_least=1, help="A request has at most N bytes.")
    rate: int | None = option(
        "--rate", None, "N", at_least=1, help="Requests per second of each user at most; default: no limit."
    )
    waiting: int = option("--waiting", 1_000, "N", at_least=1, help="Requests that may wait at once.")
    waiting_bytes: int = option("--waiting-bytes", 128 << 20, "N", at_least=1, help="Bytes of all requests that wait.")
    linger_ms: int = option("--linger-ms", 5, "N", at_least=0, help="How long to wait for more events to commit with the first.")
    hold_seconds: float = option("--hold-seconds", 20.0, "S", help="How long to retry what cannot land, before answering 503.")

    def __post_init__(self) -> None:
        if not _NAME.match(self.name):
            raise UsageError(f"--name {self.name!r}: letters, digits, '.', '-' and '_' were expected, at most 64")
        if self.no_auth and self.host not in LOOPBACK:
            raise UsageError(f"--no-auth with --host {self.host}: others could post; leave one of them out")
        if (self.tls_cert is None) != (self.tls_key is None):
            raise UsageError("--tls-cert and --tls-key go together; give both")
        if not 0 < self.hold_seconds < _LONGEST_HOLD:
            raise UsageError(f"--hold-seconds is {self.hold_seconds:g}; a number of seconds below {_LONGEST_HOLD} was expected")

    def stations(self, tables: Sequence[str]) -> dict[str, str | None]:
        """Return the table of each station; raises `UsageError` for a table that the project lacks."""
        found: dict[str, str | None] = {}
        for text in self.station:
            name, equals, table = text.partition("=")
            if not name or (equals and table not in tables):
                what = f"no table {table!r} that can be landed into" if name else "no name"
                raise UsageError(f"--station {text}: {what}; it has {', '.join(tables)}")
            found[name] = table if equals else None
        return found
