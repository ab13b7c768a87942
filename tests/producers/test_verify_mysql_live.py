"""`verify` against a real MySQL: writes that go on are no loss, and losses of thirteen kinds are found and named."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pymysql")

from helpers.command_line import CommandLine
from helpers.lost_rows import LostRows
from helpers.mariadb_tables import RETYPING
from helpers.mysql_tables import TABLES, MySqlWorkload
from helpers.mysql_views import wait_until_landed
from helpers.producing import Producer
from helpers.verified import Verifying, paced

if TYPE_CHECKING:
    from services.mysql import MySql

pytestmark = pytest.mark.live

TYPES, KEYS = TABLES


@pytest.mark.parametrize("mysql_server", ["9.7", "5.6"], indirect=True)
def test_no_false_alarm_while_every_type_is_written_and_losses_of_thirteen_kinds_are_found(
    mysql_producer: Producer, mysql: MySql, run: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in mysql.environment.items():
        monkeypatch.setenv(name, value)
    workload = MySqlWorkload(mysql, seed=3)
    workload.run(200)
    mysql_producer.start()
    mysql_producer.wait_until_said("following")

    def landed() -> None:
        mysql.sql(f"REPLACE INTO {TYPES} (id) VALUES (1), (2)")  # the last of the workload may have been a TRUNCATE
        wait_until_landed(mysql)

    verify = Verifying(run, "mysql://")
    verify.stays_quiet(TABLES, workload.running(pause=paced(0.05)), landed)
    assert mysql_producer.stop() == 0
    mysql.sql(f"DELETE FROM {KEYS}")
    LostRows(run, verify, mysql_producer, KEYS, "w", mysql.sql, partial(wait_until_landed, mysql), TYPES, RETYPING).proven()
