"""MariaDB's tables, for `init --from mariadb://…`."""

from __future__ import annotations

from collections.abc import Sequence

from cdc_producers.binlog import describing
from cdc_producers.mariadb.server import MARIADB
from cdc_views.schemas.live import Described


def described(address: str, tables: Sequence[str]) -> Described:
    """See `Describe`; `mariadb://` alone: as the environment says."""
    return describing.described(address, tables, flavour=MARIADB)
