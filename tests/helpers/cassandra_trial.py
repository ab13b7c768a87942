"""A keyspace of a cluster, an agent beside each node, random CQL on it, and what the agents must say or show."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from helpers.cassandra_views import differences, landed_everywhere, lists_waiting, mark, read_at_all, settled, witnessed_by
from helpers.cassandra_workload import Workload, create, project, project_file
from helpers.command_line import CommandLine
from helpers.producing import Producer, eventually

if TYPE_CHECKING:
    from cassandra.cluster import Session
    from services.cassandra import CassandraCluster

_WITHIN = 240.0


@dataclass
class Trial:
    """A keyspace with the project of its tables in the working directory.

    Attributes:
        replicas: Of the keyspace: with one, nobody makes up for what an agent misses.
        loads: Run statements while `loaded`.
        raws: Raw tables other than the usual ones.
        options: Of every agent, beside where its node is.
        has_cdc: Whether the tables have CDC from the start.
        hinted: Witnesses that a node missed while others kept hints: their numbers, and the node's address.
        missed: Witnesses that a node missed while nobody kept hints.
    """

    cluster: CassandraCluster
    run: CommandLine
    folder: Path
    replicas: int
    loads: list[Workload] = field(default_factory=list)
    raws: dict[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ("--snapshot-consistency", "ALL")
    has_cdc: bool = True
    hinted: list[tuple[int, str]] = field(default_factory=list)
    missed: list[tuple[int, str]] = field(default_factory=list)
    marks: int = 0
    agents: list[Producer] = field(init=False)
    session: Session = field(init=False)
    keyspace: str = field(default_factory=lambda: f"rnd{time.time_ns() % 10**9}")

    def __post_init__(self) -> None:
        self.session = self.cluster.session()
        create(self.session, self.keyspace, replicas=self.replicas, has_cdc=self.has_cdc)
        project(self.folder, self.keyspace)
        self.agents = [self._agent(node) for node in self.cluster.nodes]

    def _agent(self, node: Any) -> Producer:
        folder = self.folder / f"agent{node.index}"
        folder.mkdir()
        where = ["--host", node.address, "--port", str(node.port), "--cassandra-lib", str(node.lib)]
        work = ["--work-folder", str(folder / "work"), *self.options]
        return Producer(folder, {}, ["cassandra", "--project", str(self.folder / "cdc_views.yml"), *where, *work])

    def start(self) -> None:
        """Start the agents that do not run, and wait until each follows its node."""
        waiting = [agent for agent in self.agents if not agent.is_alive]
        for agent in waiting:
            agent.start()
        for agent in waiting:
            agent.wait_until_said("following", within=_WITHIN)

    def cql(self, *statements: str) -> None:
        """Run statements; `{ks}` is the keyspace."""
        for text in statements:
            self.session.execute(text.replace("{ks}", self.keyspace), timeout=60)

    @contextmanager
    def loaded(self, *, pause: float = 0.002) -> Iterator[None]:
        """Run the workloads meanwhile."""
        with ExitStack() as running:
            for load in self.loads:
                running.enter_context(load.running(pause=pause))
            yield

    @contextmanager
    def adding_only(self) -> Iterator[None]:
        """Let the workloads only add meanwhile: a snapshot that is taken again tells nothing else."""
        for load in self.loads:
            load.add_only(True)
        time.sleep(2)  # every agent looks at the schema once more: what it may lack begins after that
        yield
        for load in self.loads:
            load.add_only(False)

    def new_raw(self, table: str) -> None:
        """Give a table another raw table, as the agents ask for."""
        self.raws[table] = f"raw/{table}{len(self.raws)}{self.marks}"
        project_file(self.folder, self.keyspace, self.raws)
        answer = self.run("rebuild", f"{self.keyspace}.{table}", "--accept")
        assert answer.code == 0, answer.err

    def troubles(self) -> list[str]:
        """What /healthz of the agents says is wrong."""
        return [text for agent in self.agents for text in json.loads(agent.get("/healthz")[1])["troubles"].values()]

    def is_loud(self, part: str, *, by: int = 0) -> None:
        """Wait until /healthz of that many agents, all of them for 0, is 503 and has this."""

        def says(agent: Producer) -> bool:
            code, text = agent.get("/healthz")
            return code == 503 and part in text

        wanted = by or len(self.agents)
        eventually(lambda: sum(map(says, self.agents)) >= wanted, within=60, every=0.2, what=f"{part!r} in {self.troubles()}")

    def is_well(self) -> None:
        """Wait until no agent has anything to say."""
        eventually(lambda: not self.troubles(), within=_WITHIN, every=0.5, what=self.troubles())

    def land(self, *tables: str) -> None:
        """Wait until every agent has landed what its node was told by now; of these tables, or of all."""
        self.marks += 1
        nodes, spread = {node.address for node in self.cluster.nodes}, 1 if self.replicas == len(self.cluster.nodes) else 24
        mark(self.session, self.keyspace, self.marks, spread=spread, tables=tables)
        eventually(
            lambda: landed_everywhere(self.keyspace, self.marks, nodes, tables=tables), within=_WITHIN, every=1.0,
            what=f"mark {self.marks}; the agents say {[agent.said[-3:] for agent in self.agents]}",
        )  # fmt: skip

    def check(self, *more: str) -> None:
        """Wait until everything has landed and every list was read again: the views are what the cluster answers."""
        self.land()
        self._check_hints()
        self._check_read_repair()
        folders = [agent.folder for agent in self.agents]
        eventually(lambda: not any(map(lists_waiting, folders)), within=_WITHIN, every=0.5, what="lists to be read again")
        self.is_well()
        settled()
        found = differences(self.session, self.run, self.keyspace, *more)
        steps = self.folder / "steps.log"
        assert not found, "\n".join([*found[:20], steps.read_text() if steps.exists() else ""])

    def check_with_state(self) -> None:
        """Check raw, then make the state and compare that."""
        self.check("--raw-only")
        assert self.run("materialize", "--once").code == 0
        assert differences(self.session, self.run, self.keyspace) == []

    def _check_hints(self) -> None:
        """What a node missed while it was away is in its log, though nobody has read it: others kept hints for it."""
        for number, node in self.hinted:
            self._is_witnessed(number, node, within=60, by="a hint")
        self.hinted.clear()

    def _check_read_repair(self) -> None:
        """What a node missed while nobody kept hints is not in its log, until a read at ALL has repaired it."""
        for number, node in self.missed:
            assert node not in witnessed_by(self.keyspace, number)
        if self.missed:
            read_at_all(self.session, self.keyspace)
        for number, node in self.missed:
            self._is_witnessed(number, node, within=30, by="read repair")
        self.missed.clear()

    def _is_witnessed(self, number: int, node: str, *, within: float, by: str) -> None:
        what = f"witness {number} from {node} by {by}"
        eventually(lambda: node in witnessed_by(self.keyspace, number), within=within, every=0.5, what=what)

    def stop(self) -> None:
        """End every agent: none has put anything into quarantine."""
        for agent in self.agents:
            assert agent.metric("quarantined_total") == 0
            assert agent.stop() == 0

    def end(self) -> None:
        """Undo whatever a test has left behind, and keep the nodes' logs with the test's files."""
        for agent in self.agents:
            if agent.is_alive:
                agent.kill()
        for node in self.cluster.nodes:
            if not node.is_running:
                self.cluster.start(node.index)
        logs = [node.log.read_text(errors="replace") for node in self.cluster.nodes]
        (self.folder / "nodes.log").write_text("\n".join(logs))
        self.cql("DROP KEYSPACE IF EXISTS {ks}")
