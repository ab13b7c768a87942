"""MySQL's tables, for `init --from mysql://…`."""

from __future__ import annotations

from collections.abc import Sequence

from cdc_producers.binlog import describing
from cdc_producers.mysql.server import MYSQL
from cdc_views.schemas.live import Described


def described(address: str, tables: Sequence[str]) -> Described:
    """See `Describe`; `mysql://` alone: as the environment says."""
    return describing.described(address, tables, flavour=MYSQL)
