"""Workloads out of the ordinary, on one real node: the view is what SELECT JSON answers, or the agent says why not."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

pytest.importorskip("cassandra")

from helpers.cassandra_odd import TABLES, Workload, canonical, create, project
from helpers.cassandra_views import settled
from helpers.command_line import CommandLine
from helpers.comparing import only_one_has
from helpers.producing import Producer, eventually

if TYPE_CHECKING:
    from cassandra.cluster import Session
    from services.cassandra import CassandraCluster

pytestmark = pytest.mark.live
MARK = 99


@pytest.fixture(scope="module")
def node() -> Iterator[CassandraCluster]:
    """A node that knows materialized views."""
    from services.cassandra import running

    with running(1, materialized_views_enabled=True) as cluster:
        yield cluster


@dataclass
class Trial:
    """A keyspace of its own, its project in the working directory, and the node's agent."""

    session: Session
    keyspace: str
    agent: Producer
    run: CommandLine
    marks: int = 0

    def wait_until_landed(self) -> None:
        """Until the log has been read up to here."""
        self.marks += 1
        name = f"{self.keyspace}.indexed"
        self.session.execute(f"INSERT INTO {name} (k, c, w) VALUES ({MARK}, {self.marks}, 'mark')")

        def is_there() -> bool:
            answer = self.run("query", name, "--format", "jsonl", "--where", f"k = {MARK} AND c = {self.marks}")
            return answer.code == 0 and bool(answer.out.strip())

        eventually(is_there, within=120, every=0.5, what=f"mark {self.marks}; the agent says {self.agent.said[-5:]}")

    def differences(self, *more: str) -> list[str]:
        found = []
        for table in TABLES:
            rows = self.session.execute(f'SELECT JSON * FROM {self.keyspace}."{table}"')
            answer = self.run("query", f"{self.keyspace}.{table}", "--format", "jsonl", *more)
            assert answer.code == 0, answer.err
            source = [canonical(table, row[0]) for row in rows]
            found += only_one_has(table, source, [canonical(table, line) for line in answer.out.splitlines()])
        return found


@pytest.fixture
def trial(node: CassandraCluster, run: CommandLine, tmp_path: Path) -> Iterator[Trial]:
    keyspace = f"odd{time.time_ns() % 10**9}"
    session = node.session()
    create(session, keyspace)
    project(tmp_path, keyspace)
    where = ["--host", node.addresses[0], "--port", str(node.port), "--cassandra-lib", str(node.lib)]
    agent = Producer(tmp_path, {}, ["cassandra", *where])
    yield Trial(session, keyspace, agent, run)
    if agent.is_alive:
        agent.kill()
    session.execute(f"DROP KEYSPACE {keyspace}")
    session.execute(f"DROP KEYSPACE {keyspace}_other")


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_the_views_of_odd_tables_equal_the_node(trial: Trial, seed: int) -> None:
    workload = Workload(trial.session, trial.keyspace, seed)
    workload.run(400)
    trial.agent.start().wait_until_said("following", within=120)
    workload.run(600)
    trial.wait_until_landed()
    settled()
    assert trial.differences("--raw-only") == []
    assert trial.run("materialize", "--once").code == 0
    workload.run(300)
    trial.wait_until_landed()
    settled()
    assert trial.differences() == []
    assert trial.agent.metric("quarantined_total") == 0
    assert trial.agent.stop() == 0

    # the comparison can fail
    trial.session.execute(f"INSERT INTO {trial.keyspace}.one_key (a) VALUES ('unseen')")
    assert len(trial.differences()) == 1


def test_what_was_truncated_before_the_agent_came_is_not_shown(trial: Trial) -> None:
    name = f"{trial.keyspace}.lists"
    for key in (1, 2, 3):
        trial.session.execute(f"INSERT INTO {name} (k, l) VALUES ({key}, [1]) USING TIMESTAMP 2000000000000000")
    trial.session.execute(f"TRUNCATE {name}")
    trial.session.execute(f"INSERT INTO {name} (k, l) VALUES (2, [2]) USING TIMESTAMP 1")
    trial.agent.start().wait_until_said("following", within=120)
    trial.wait_until_landed()
    assert trial.differences() == []
    assert len(trial.run.query(name)) == 1
    assert trial.agent.stop() == 0


def test_a_compact_table_is_refused_and_disturbs_no_other(trial: Trial) -> None:
    """Its one column is a static one in the log."""
    name = f"{trial.keyspace}.compact"
    trial.session.execute(f"CREATE TABLE {name} (k int PRIMARY KEY, v int) WITH COMPACT STORAGE AND cdc = true")
    trial.session.execute(f"INSERT INTO {name} (k, v) VALUES (1, 1)")
    trial.agent.start().wait_until_said("following", within=120)
    trial.wait_until_landed()
    assert trial.differences() == []
    assert trial.agent.stop() == 0
    configured = yaml.safe_load(Path("cdc_views.yml").read_text())
    Path("compact.cql").write_text(f"CREATE TABLE {name} (k int PRIMARY KEY, v int);")
    configured["tables"].append({"name": name, "schema": "compact.cql", "raw": {"format": "cassandra-mutation"}})
    Path("cdc_views.yml").write_text(yaml.safe_dump(configured))
    trial.agent.start()
    assert trial.agent.running is not None
    assert trial.agent.running.wait(120) == 2
    assert f"ALTER TABLE {name} DROP COMPACT STORAGE" in trial.agent.log.read_text()


def test_a_truncated_table_is_told_of(trial: Trial) -> None:
    """No commit log has a TRUNCATE: the view keeps the rows, and says so."""
    trial.session.execute(f"INSERT INTO {trial.keyspace}.lists (k, l) VALUES (1, [1])")
    trial.agent.start().wait_until_said("following", within=120)
    trial.wait_until_landed()
    trial.session.execute(f"TRUNCATE {trial.keyspace}.lists")
    trial.agent.wait_until_said(f"{trial.keyspace}.lists was truncated")
    code, said = trial.agent.get("/healthz")
    assert code == 503
    assert "truncated" in said
    assert len(trial.run.query(f"{trial.keyspace}.lists")) == 1
    assert trial.agent.stop() == 0
    # one that happens while no agent runs, too
    trial.session.execute(f"TRUNCATE {trial.keyspace}.indexed")
    trial.agent.start().wait_until_said(f"{trial.keyspace}.indexed was truncated", within=120)
    assert trial.agent.has_said(f"{trial.keyspace}.lists was truncated"), "it still has the same raw table"


def test_a_renamed_key_column_is_told_of(trial: Trial) -> None:
    """Its table is set aside, the others go on."""
    trial.agent.start().wait_until_said("following", within=120)
    trial.session.execute(f"INSERT INTO {trial.keyspace}.statics (p, c, v) VALUES (1, 2, 3)")
    trial.wait_until_landed()
    trial.session.execute(f"ALTER TABLE {trial.keyspace}.statics RENAME c TO renamed")
    trial.agent.wait_until_said("statics is set aside")
    assert "renamed" in trial.agent.get("/healthz")[1]
    trial.wait_until_landed()
    assert trial.agent.stop() == 0
    assert "Traceback" not in trial.agent.log.read_text()
