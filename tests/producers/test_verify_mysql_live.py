"""`verify` against a real MySQL: writes that go on are no loss, and an event that landed and is lost is one."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pymysql")

from helpers.command_line import CommandLine
from helpers.comparing import lose
from helpers.mysql_tables import TABLES, MySqlWorkload
from helpers.mysql_views import wait_until_landed
from helpers.producing import Producer

if TYPE_CHECKING:
    from services.mysql import MySql

pytestmark = pytest.mark.live

SECONDS = float(os.environ.get("CDC_VIEWS_VERIFY_SECONDS", "40"))
TYPES, _ = TABLES


def verify(run: CommandLine, table: str, *more: str) -> tuple[int, list[dict[str, Any]], str]:
    answer = run("verify", table, "--source", "mysql://", "--format", "jsonl", "--wait", "20", "--rate", "0", *more)
    assert answer.code in (0, 1), answer.err
    return answer.code, [json.loads(line) for line in answer.out.splitlines()], answer.err


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
    runs, until = 0, time.monotonic() + SECONDS
    with workload.running(pause=0.05):
        while time.monotonic() < until:
            for table in TABLES:
                code, found, said = verify(run, table)
                assert (code, [one for one in found if one["verdict"] == "loss"]) == (0, []), (found, said)
                runs += 1
    mysql.sql(f"REPLACE INTO {TYPES} (id) VALUES (1), (2)")  # the last of the workload may have been a TRUNCATE
    wait_until_landed(mysql)
    for table in TABLES:
        code, found, said = verify(run, table)
        assert (code, found, "equal" in said) == (0, [], True), (found, said)
    assert runs > 1
    assert mysql_producer.stop() == 0

    lose(run, TYPES, "id = 1")
    mysql_producer.start()
    mysql_producer.wait_until_said("following")
    mysql.sql(f"REPLACE INTO {TYPES} (id) VALUES (2)")
    wait_until_landed(mysql, *TABLES[1:])
    code, found, said = verify(run, TYPES, "--sample", "0")
    told = {(one["place"], one["what"], json.dumps(one["key"])) for one in found if one["verdict"] == "loss"}
    assert (code, len(told)) == (1, 1), (found, said)
    assert next(iter(told))[0] == "raw"
