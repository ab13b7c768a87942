"""MySQL as a flavour: how it is told from MariaDB, what its server must be set to."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from cdc_producers.binlog.catalog import Server, check_variables, read_variables, row_image
from cdc_producers.binlog.connections import Flavour, version_of
from cdc_views.errors import UnsupportedError, UsageError
from cdc_views.landing.targets import ProducerLog

_OLDEST = (5, 6)
_SHOWS_BINARY_LOG_STATUS = (8, 2)
_SETS_GTID_MODE = (5, 7)
_HAS_ROW_METADATA = (8, 0)
_VARIABLES = (
    "version", "log_bin", "binlog_format", "binlog_row_image", "binlog_row_metadata", "binlog_row_value_options", "gtid_mode",
    "lower_case_table_names", "innodb_native_foreign_keys", "server_uuid",
)  # fmt: skip
_EXPECTED = {
    "log_bin": ("ON", "the server writes no binlog; set log_bin in its configuration and restart it"),
    "binlog_format": ("ROW", "the binlog has statements, not rows; SET GLOBAL binlog_format = 'ROW', and in the configuration"),
}
_TURNED_ON = (
    "SET GLOBAL enforce_gtid_consistency = ON, then gtid_mode = OFF_PERMISSIVE, ON_PERMISSIVE and, once SHOW STATUS LIKE "
    "'ongoing_anonymous_transaction_count' is 0 everywhere, ON; and in the configuration"
)
_CONFIGURED = "set gtid_mode = ON, enforce_gtid_consistency = ON and log_slave_updates in the configuration, and restart it"


def check_is_mysql(connection: Any) -> None:
    """Raise `UnsupportedError` for another server with the same protocol."""
    version = version_of(connection)
    if "mariadb" in version.lower():
        connection.close()
        raise UnsupportedError(f"the server is not MySQL but MariaDB {version}", remedy="read it by `produce mariadb`")


MYSQL = Flavour(
    name="MySQL",
    connector="mysql",
    prefix="CDC_VIEWS_MYSQL_",
    # net_write_timeout: the server drops a reader that is slow for longer, and ours waits while its queue is full
    settings="SET SESSION time_zone = '+00:00', sql_mode = '', net_write_timeout = 86400, wait_timeout = 86400, "
    "sql_select_limit = DEFAULT, group_concat_max_len = DEFAULT, innodb_lock_wait_timeout = 10"
    " /*!50708 , max_execution_time = 0 */",
    grants="GRANT SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO …",
    check=check_is_mysql,
)


@dataclass(frozen=True, slots=True)
class MySqlServer(Server):
    """The settings of a MySQL; `names_columns`: whether its log does now, always, or since some time."""

    names_columns: bool = True


def read_server(connection: Any, *, log: ProducerLog) -> MySqlServer:
    """Return the server's settings; raises `UsageError` if changes cannot be read with them."""
    found = read_variables(connection, _VARIABLES)
    version = found.get("version", "")
    numbers = re.match(r"(\d+)\.(\d+)", version)
    release = tuple(map(int, numbers.groups())) if numbers else (0, 0)
    if release < _OLDEST:
        raise UsageError(f"MySQL {version} is too old; 5.6 or newer was expected")
    check_variables(found, _EXPECTED)
    check_variables(found, {"gtid_mode": ("ON", _TURNED_ON if release >= _SETS_GTID_MODE else _CONFIGURED)})
    image = row_image(found, log=log)
    if "PARTIAL_JSON" in found.get("binlog_row_value_options", "").upper() and image != "FULL":
        raise UsageError(
            f"binlog_row_value_options is PARTIAL_JSON and binlog_row_image is {image}: the log has differences of documents "
            "that it lacks; SET GLOBAL binlog_row_image = 'FULL', or SET GLOBAL binlog_row_value_options = ''"
        )
    names_columns = found.get("binlog_row_metadata", "").upper() == "FULL"
    if not names_columns:
        remedy = "; SET PERSIST binlog_row_metadata = 'FULL' mends that" if release >= _HAS_ROW_METADATA else ""
        log.warning(
            "the binlog does not name columns, so they are taken from the catalog: after DDL that comes while this producer does "
            f"not run, it ends{remedy}"
        )
    return MySqlServer(
        image,
        found.get("lower_case_table_names", "0") != "0",
        found.get("server_uuid", ""),
        "SHOW BINARY LOG STATUS" if release >= _SHOWS_BINARY_LOG_STATUS else "SHOW MASTER STATUS",
        # newer servers follow foreign keys above InnoDB, and log what they do
        logs_cascades=found.get("innodb_native_foreign_keys", "ON").upper() == "OFF",
        names_columns=names_columns,
    )
