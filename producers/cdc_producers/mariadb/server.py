"""MariaDB as a flavour: how it is told from MySQL, what its server must be set to."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from cdc_producers.binlog.catalog import Server, check_variables, read_variables, row_image
from cdc_producers.binlog.connections import Flavour, version_of
from cdc_views.errors import UnsupportedError, UsageError
from cdc_views.landing.targets import ProducerLog

_OLDEST = (10, 5)
_VARIABLES = (
    "version", "log_bin", "binlog_format", "binlog_row_image", "binlog_row_metadata", "gtid_strict_mode", "gtid_domain_id",
    "lower_case_table_names", "server_id",
)  # fmt: skip
_EXPECTED = {
    "log_bin": ("ON", "the server writes no binlog; set log_bin in its configuration and restart it"),
    "binlog_format": ("ROW", "the binlog has statements, not rows; SET GLOBAL binlog_format = 'ROW', and in the configuration"),
    "binlog_row_metadata": (
        "FULL",
        "the binlog does not name columns; SET GLOBAL binlog_row_metadata = 'FULL', and in the configuration",
    ),
}


def check_is_mariadb(connection: Any) -> None:
    """Raise `UnsupportedError` for another server with the same protocol."""
    version = version_of(connection)
    if "mariadb" not in version.lower():
        connection.close()
        raise UnsupportedError(f"the server is not MariaDB but MySQL {version}", remedy="read it by `produce mysql`")


MARIADB = Flavour(
    name="MariaDB",
    connector="mariadb",
    prefix="CDC_VIEWS_MARIADB_",
    # net_write_timeout: the server drops a reader that is slow for longer, and ours waits while its queue is full
    settings="SET SESSION time_zone = '+00:00', sql_mode = '', max_statement_time = 0, net_write_timeout = 86400, "
    "wait_timeout = 86400, sql_select_limit = DEFAULT, group_concat_max_len = DEFAULT",
    grants="GRANT SELECT, REPLICATION SLAVE, BINLOG MONITOR ON *.* TO …",
    check=check_is_mariadb,
)


@dataclass(frozen=True, slots=True)
class MariaDbServer(Server):
    """The settings of a MariaDB; `domain` is the GTID domain that it writes in."""

    domain: int = 0


def read_server(connection: Any, *, log: ProducerLog) -> MariaDbServer:
    """Return the server's settings; raises `UsageError` if changes cannot be read with them."""
    found = read_variables(connection, _VARIABLES)
    version = found.get("version", "")
    numbers = re.match(r"(?:5\.5\.5-)?(\d+)\.(\d+)", version)
    if numbers is None or tuple(map(int, numbers.groups())) < _OLDEST:
        raise UsageError(f"MariaDB {version} is too old; 10.5 or newer was expected")
    check_variables(found, _EXPECTED)
    if found.get("gtid_strict_mode", "").upper() != "ON":
        log.warning("gtid_strict_mode is off: two servers may give out the same GTIDs; switch it on everywhere")
    image, ignores_case = row_image(found, log=log), found.get("lower_case_table_names", "0") != "0"
    return MariaDbServer(image, ignores_case, found.get("server_id", ""), domain=int(found.get("gtid_domain_id") or 0))
