"""A slot that outlives its server: a standby takes over, and the producer goes on there."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.command_line import CommandLine
from helpers.postgres_tables import DDL, STORAGE, Workload, project
from helpers.postgres_views import SLOT, differences, landed_twice, wait_until_landed
from helpers.producing import Producer, eventually
from services.postgres import Postgres, running
from services.postgres_standby import NAME, standby_of

pytestmark = pytest.mark.live

_IS_COPIED = "SELECT synced AND NOT temporary AND NOT conflicting FROM pg_replication_slots WHERE slot_name = %s"


def _producer(folder: Path, *servers: Postgres) -> Producer:
    """A producer that reads whichever of the servers is the primary."""
    project(folder)
    hosts, ports = (",".join(server.environment[name] for server in servers) for name in ("PGHOST", "PGPORT"))
    where = {**servers[0].environment, "PGHOST": hosts, "PGPORT": ports, "PGTARGETSESSIONATTRS": "primary"}
    return Producer(folder, where, ["postgres", "--confirm", "0.5"])


@pytest.mark.parametrize("is_there", [False, True], ids=["a new slot", "a slot that was made without"])
def test_a_producer_goes_on_where_the_standby_took_over(is_there: bool, run: CommandLine, tmp_path: Path) -> None:
    with running(synchronized_standby_slots=NAME) as primary, standby_of(primary) as standby:
        primary.sql(DDL + STORAGE)
        producer, workload = _producer(tmp_path, primary, standby), Workload(primary, seed=3)
        workload.run(200)
        if is_there:
            producer.start().wait_until_said("following slot")
            assert producer.stop() == 0
            assert primary.sql("SELECT failover FROM pg_replication_slots WHERE slot_name = %s", (SLOT,)) == [(False,)]
        producer.start("--slot-failover", "on").wait_until_said("following slot")
        with workload.running(pause=0.02):
            eventually(lambda: standby.sql(_IS_COPIED, (SLOT,)) == [(True,)], within=90, what="the slot's copy")
        workload.run(300)
        workload.connection.close()
        primary.stop()
        producer.wait_until_said("PostgreSQL is away")
        standby.sql("SELECT pg_promote()")
        Workload(standby, seed=4).run(300)
        wait_until_landed(standby, within=90)
        assert producer.stop() == 0
        assert differences(standby, run) == []
        assert landed_twice() == 0
