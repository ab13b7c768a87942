"""The options of `cdc-views produce mariadb`."""

from __future__ import annotations

from dataclasses import dataclass

from cdc_producers.binlog.options import BinlogOptions
from cdc_views.errors import UsageError
from cdc_views.landing.producers import option

_DOMAINS = range(1 << 32)


@dataclass(frozen=True, slots=True)
class MariaDbOptions(BinlogOptions):
    """The options of one MariaDB source; `gtid_domain` None: the server's own."""

    gtid_domain: int | None = option(
        "--gtid-domain", None, "N", help="GTID domain of the tables' changes; default: the server's."
    )

    def __post_init__(self) -> None:
        BinlogOptions.__post_init__(self)
        if self.gtid_domain is not None and self.gtid_domain not in _DOMAINS:
            raise UsageError(f"--gtid-domain is {self.gtid_domain}; 0 to {_DOMAINS.stop - 1} was expected")
