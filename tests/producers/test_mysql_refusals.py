"""What the MySQL source refuses, and how it says so: before anything is read."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pymysql")

from cdc_producers.binlog import connections
from cdc_producers.binlog.connections import Access, connect
from cdc_producers.mysql import PRODUCER
from cdc_producers.mysql.server import MYSQL, read_server
from helpers.captured import Said

from cdc_views.errors import UnsupportedError, UsageError
from cdc_views.landing.targets import ProducerProject

GOOD = {
    "version": "9.7.4", "log_bin": "ON", "binlog_format": "ROW", "binlog_row_image": "FULL", "binlog_row_metadata": "FULL",
    "gtid_mode": "ON", "lower_case_table_names": "0", "innodb_native_foreign_keys": "OFF", "binlog_row_value_options": "",
}  # fmt: skip


class Server:
    """A connection to a server with these variables."""

    flavour = MYSQL
    description = True

    def __init__(self, variables: dict[str, str]) -> None:
        self.variables = variables

    def cursor(self) -> Any:
        return self

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def execute(self, text: str) -> None:
        return None

    def fetchall(self) -> list[tuple[str, str]]:
        return list(self.variables.items())

    def get_server_info(self) -> str:
        return self.variables["version"]

    def close(self) -> None:
        return None


def test_mariadb_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "_connect", lambda *_: Server({"version": "5.5.5-10.11.6-MariaDB"}))
    with pytest.raises(UnsupportedError, match=r"not MySQL but MariaDB.*`produce mariadb`") as told:
        connect(Access.of_environment(MYSQL))
    assert told.value.exit_code == 2


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"version": "5.5.62"}, "too old; 5.6 or newer"),
        ({"binlog_format": "MIXED"}, "binlog_format is MIXED where ROW was expected"),
        ({"gtid_mode": "OFF"}, "gtid_mode is OFF where ON was expected: SET GLOBAL enforce_gtid_consistency = ON, then"),
        ({"gtid_mode": "OFF", "version": "5.6.14"}, "ON and log_slave_updates in the configuration, and restart it"),
        ({"binlog_row_value_options": "PARTIAL_JSON", "binlog_row_image": "MINIMAL"}, "binlog_row_value_options is PARTIAL_JSON"),
    ],
)
def test_a_server_whose_log_lacks_something_is_refused(changed: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        read_server(Server({**GOOD, **changed}), log=Said())


def test_what_a_server_is_set_to_is_told_and_known() -> None:
    server, log = read_server(Server(GOOD), log=Said()), Said()
    assert (server.names_columns, server.logs_cascades, server.asks_end_by) == (True, True, "SHOW BINARY LOG STATUS")
    given = {**GOOD, "version": "5.6.14"}
    old = read_server(Server({name: given[name] for name in given if name[:8] not in ("innodb_n",)}), log=log)
    assert (old.logs_cascades, old.asks_end_by) == (False, "SHOW MASTER STATUS")
    minimal = read_server(Server({**GOOD, "binlog_row_metadata": "MINIMAL"}), log=log)
    assert not minimal.names_columns
    assert "SET PERSIST binlog_row_metadata = 'FULL'" in log.lines[-1]


@pytest.mark.parametrize(("options", "said"), [({"name": ""}, "--name is empty"), ({"heartbeat_seconds": 0}, "--heartbeat is 0")])
def test_options_that_cannot_be_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        PRODUCER.chosen(ProducerProject(), options)
