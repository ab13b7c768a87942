"""`verify` against a real MySQL: writes that go on are no loss, and an event that landed and is lost is one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pymysql")

from helpers.command_line import CommandLine
from helpers.comparing import lose
from helpers.mysql_tables import TABLES, MySqlWorkload
from helpers.mysql_views import wait_until_landed
from helpers.producing import Producer
from helpers.verified import Verifying

if TYPE_CHECKING:
    from services.mysql import MySql

pytestmark = pytest.mark.live

TYPES, _ = TABLES


@pytest.mark.parametrize("mysql_server", ["9.7", "5.6"], indirect=True)
def test_no_false_alarm_while_every_type_is_written_and_a_loss_is_found(
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
    verify.stays_quiet(TABLES, workload.running(pause=0.05), landed)
    assert mysql_producer.stop() == 0

    lose(run, TYPES, "id = 1")
    mysql_producer.start()
    mysql_producer.wait_until_said("following")
    mysql.sql(f"REPLACE INTO {TYPES} (id) VALUES (2)")
    wait_until_landed(mysql, *TABLES[1:])
    code, found, said = verify(TYPES, "--sample", "0")
    told = {(one["place"], one["what"], json.dumps(one["key"])) for one in found if one["verdict"] == "loss"}
    assert (code, len(told)) == (1, 1), (found, said)
    assert next(iter(told))[0] == "raw"
