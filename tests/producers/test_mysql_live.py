"""MySQL, real servers, through a producer that is killed, to a view that equals the source's own SELECT."""

from __future__ import annotations

import os
import random
import time
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pymysql")

from helpers.command_line import CommandLine
from helpers.comparing import lose
from helpers.mysql_tables import TABLES, MySqlWorkload
from helpers.mysql_views import differences, wait_until_landed
from helpers.producing import Producer

if TYPE_CHECKING:
    from services.mysql import MySql

pytestmark = pytest.mark.live

KILLS = int(os.environ.get("CDC_VIEWS_KILLS", "6"))
TYPES, KEYS = TABLES
FOLLOWING = "following the binlog"
both = pytest.mark.parametrize("mysql_server", ["9.7", "5.6"], indirect=True)


@both
def test_the_view_equals_the_source_after_kills(mysql_producer: Producer, mysql: MySql, run: CommandLine) -> None:
    producer, chance = mysql_producer, random.Random(1)
    workload = MySqlWorkload(mysql, seed=1)
    workload.run(150)
    producer.start()
    with workload.running():
        for wait in ("snapshot at", *[FOLLOWING] * KILLS):
            producer.wait_until_said(wait, within=150)
            time.sleep(chance.random() * 2)
            producer.kill()
            producer.start()
        producer.wait_until_said(FOLLOWING, within=150)
    mysql.sql(f"REPLACE INTO {TYPES} (id) VALUES (1), (2)")  # the last of the workload may have been a TRUNCATE
    wait_until_landed(mysql, within=200)
    assert workload.transactions > 300
    assert producer.metric("quarantined_total") == 0
    assert producer.stop() == 0
    assert differences(mysql, run) == []

    # the comparison can fail: by an event that landed and is lost, and by a change that nobody landed
    (lost,), (changed,) = mysql.sql(f"SELECT id FROM {TYPES} ORDER BY id LIMIT 2")
    lose(run, TYPES, f"id = {lost}")
    mysql.sql(f"UPDATE {TYPES} SET t = 'other' WHERE id = {changed}")
    assert len(differences(mysql, run, TYPES)) == 3
