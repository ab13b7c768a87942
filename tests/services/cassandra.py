"""Cassandra nodes of the tests' own, CDC on: fetched once as jars, no root, no package manager.

Each cluster takes a loopback range of its own (127.x.y.1 to .3), so that two runs do not meet. Linux only: elsewhere
the loopback has one address. Needs Java 17; releases before 5.0 get a Java 11.
"""

from __future__ import annotations

import logging
import os
import re
import secrets
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from cassandra import ConsistencyLevel, ProtocolVersion
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile, Session
from cassandra.policies import ConstantReconnectionPolicy, WhiteListRoundRobinPolicy
from cassandra.query import SimpleStatement

from services.account import free_port, launched, stop
from services.cassandra_releases import CURRENT, Release
from services.cassandra_settings import JVM_OPTIONS, LOGGING, TOKENS, configuration

_STARTS_WITHIN = 150.0
_ATTEMPTS = 3
_DISK = ("data", "commitlog", "saved_caches", "hints", "cdc_raw")
_LISTENING = "Starting listening for CQL"
logging.getLogger("cassandra").setLevel(logging.CRITICAL)  # it tells of every attempt while a node is down


def jars() -> Path:
    """The folder of the jars of the release that tests run on; fetched on the first call."""
    return CURRENT.jars()


@dataclass
class Node:
    """One node; its folders stay over `kill` and `start`."""

    index: int
    address: str
    folder: Path
    lib: Path
    port: int
    jmx_port: int
    heap: str = "384m"
    release: Release = CURRENT
    archives_classes: bool = False
    is_replacement: bool = False
    process: subprocess.Popen[bytes] | None = None
    runs: int = 0

    @property
    def cdc_raw(self) -> Path:
        return self.folder / "cdc_raw"

    @property
    def commitlog(self) -> Path:
        return self.folder / "commitlog"

    @property
    def log(self) -> Path:
        """What the last run has said."""
        return self.folder / f"out{self.runs}.log"

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def launch(self) -> None:
        """Start the process; does not wait."""
        assert not self.is_running, f"{self.address} runs already"
        self.runs += 1
        with self.log.open("wb") as said:
            self.process = launched(
                self._command(), stdin=subprocess.DEVNULL, stdout=said, stderr=said, cwd=self.folder, start_new_session=True
            )

    def wait(self, *, within: float = _STARTS_WITHIN) -> bool:
        """Wait until it listens for CQL; False where it ended instead."""
        deadline = time.monotonic() + within
        # it says so just before it does
        while _LISTENING not in self.log.read_text(errors="replace") or not _answers(self.address, self.port):
            if not self.is_running:
                return False
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self.address} did not start within {within:g} s\n{self.tail()}")
            time.sleep(0.1)
        return True

    def kill(self) -> None:
        """End it at once, as a power cut would (-9)."""
        if self.process is not None and self.is_running:
            self.process.kill()
            self.process.wait(20)

    def tail(self) -> str:
        """What it said of errors, and the end of what it said: the reason stands long before the end."""
        said = self.log.read_text(errors="replace") if self.log.exists() else ""
        return "\n".join([*re.findall(r"^.*(?:ERROR|Exception).*$", said, re.MULTILINE)[:20], said[-1000:]])

    def tool(self, *arguments: str) -> str:
        """Run `nodetool` against it; returns what it printed."""
        command = [str(self.release.java()), *JVM_OPTIONS, "-XX:TieredStopAtLevel=1", "-cp", f"{self.lib}/*"]
        command += [
            f"-Dcassandra.config=file://{self.folder}/conf/cassandra.yaml",
            f"-Dlogback.configurationFile={self._logging}",
        ]
        command += ["org.apache.cassandra.tools.NodeTool", "-h", "127.0.0.1", "-p", str(self.jmx_port), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120, cwd=self.folder).stdout

    @property
    def _logging(self) -> Path:
        return self.folder / "conf" / "logback.xml"

    def _command(self) -> list[str]:
        (agent,) = self.lib.glob("jamm-*.jar")
        class_path = os.pathsep.join(map(str, sorted(self.lib.glob("*.jar"))))
        given = {
            "cassandra.config": f"file://{self.folder}/conf/cassandra.yaml",
            "cassandra.storagedir": self.folder / "data",
            "cassandra.logdir": self.folder / "logs",
            "logback.configurationFile": self._logging,
            "cassandra.jmx.local.port": self.jmx_port,
            "cassandra.skip_wait_for_gossip_to_settle": 0,
            "cassandra.ring_delay_ms": 1000,
            "cassandra.superuser_setup_delay_ms": 0,
            # a new node asks for the schema once, then once an interval, and gives up after 30 s: under load it first takes the
            # others to be down, and does not ask
            "cassandra.schema_pull_interval_ms": 3000,
            "cassandra.consistent.rangemovement": "false",
            "cassandra.boot_without_jna": "true",
            "cassandra-foreground": "yes",
            "java.net.preferIPv4Stack": "true",
            "java.io.tmpdir": self.folder / "tmp",
        }
        if self.is_replacement:
            given["cassandra.replace_address_first_boot"] = self.address
        memory = [f"-Xms{self.heap}", f"-Xmx{self.heap}", "-Xss256k", "-XX:MaxDirectMemorySize=256m"]
        return [
            str(self.release.java()),
            *JVM_OPTIONS,
            *memory,
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            *self._class_options(),
            f"-javaagent:{agent}",
            *(f"-D{name}={value}" for name, value in given.items()),
            "-cp",
            class_path,
            "org.apache.cassandra.service.CassandraDaemon",
        ]

    def _class_options(self) -> list[str]:
        archive = self.release.class_archive()
        if archive is None:
            return []
        # a dump beside an agent (jamm) has to be allowed
        allowed = ["-XX:+UnlockDiagnosticVMOptions", "-XX:+AllowArchivingWithJavaAgent"]
        if archive.exists():
            return [*allowed, f"-XX:SharedArchiveFile={archive}", "-Xshare:auto"]
        return [*allowed, f"-XX:ArchiveClassesAtExit={self.folder / 'classes.jsa'}"] if self.archives_classes else []

    def keep_classes(self) -> None:
        """Where it is to leave its classes and nobody has before: end it as it wishes to, and keep them."""
        archive = self.release.class_archive()
        if archive is None or not self.archives_classes or self.process is None or archive.exists():
            return
        stop(self.process, signal.SIGTERM)
        if (made := self.folder / "classes.jsa").exists():
            beside = archive.with_name(f"{archive.name}.{os.getpid()}")
            shutil.move(made, beside)
            beside.rename(archive)


@dataclass
class CassandraCluster:
    """Nodes that are running; `kill` and `start` each as often as wanted."""

    folder: Path
    lib: Path
    nodes: list[Node]
    settings: dict[str, Any]
    tls: ssl.SSLContext | None = None
    """How the tests' own sessions are encrypted."""
    _clusters: list[Cluster] = field(default_factory=list)

    @property
    def addresses(self) -> list[str]:
        return [node.address for node in self.nodes]

    @property
    def environment(self) -> dict[str, str]:
        """What a client needs to find it."""
        return {"CDC_VIEWS_CASSANDRA": f"{','.join(self.addresses)}:{self.port}"}

    @property
    def port(self) -> int:
        """Of CQL, the same on every node."""
        return self.nodes[0].port

    def session(self, *, only: int | None = None, consistency: int = ConsistencyLevel.ALL, timeout: float = 30.0) -> Session:
        """A session that is closed with the cluster; `only` is the index of the one node it may talk to."""
        addresses = self.addresses if only is None else [self.nodes[only].address]
        profile = ExecutionProfile(
            load_balancing_policy=WhiteListRoundRobinPolicy(addresses), consistency_level=consistency, request_timeout=timeout
        )
        cluster = Cluster(
            addresses,
            port=self.port,
            ssl_context=self.tls,
            protocol_version=ProtocolVersion.V5,
            execution_profiles={EXEC_PROFILE_DEFAULT: profile},
            connect_timeout=20,
            idle_heartbeat_interval=5,
            reconnection_policy=ConstantReconnectionPolicy(0.5, max_attempts=None),
        )
        self._clusters.append(cluster)
        return cluster.connect()

    def kill(self, index: int) -> None:
        """End one node at once (-9)."""
        self.nodes[index].kill()

    def start(self, index: int) -> None:
        """Start one node again with what it had, and wait until it takes part."""
        self._started([self.nodes[index]])
        if len(self.nodes) > 2:
            self.wait_until_whole()
        self._wait_until_seen(self.nodes[index].address, time.monotonic() + 30)

    def wait_until_seen_down(self, index: int, *, within: float = 60.0) -> None:
        """Wait until both others know that a node is down: until then they keep what is written for it, and send it later."""
        nodes, deadline = list(self.nodes), time.monotonic() + within
        gone = re.compile(rf"^DN\s+{re.escape(nodes.pop(index).address)}\s", re.MULTILINE)
        while not all(gone.search(node.tool("status")) for node in nodes):
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self.nodes[index].address} is still up for others after {within:g} s")
            time.sleep(0.5)

    def replace(self, index: int) -> None:
        """Lose a node with its disk; a new one takes its address, its token and its host id."""
        node = self.nodes[index]
        node.kill()
        self.wait_until_seen_down(index)  # a live one is not replaced
        for name in _DISK:
            shutil.rmtree(node.folder / name)
            (node.folder / name).mkdir()
        path = node.folder / "conf" / "cassandra.yaml"
        settings = yaml.safe_load(path.read_text())
        settings.pop("initial_token", None)
        path.write_text(yaml.safe_dump({**settings, "auto_bootstrap": True}))
        node.is_replacement = True
        self.start(index)

    def _wait_until_seen(self, address: str, deadline: float) -> None:
        """Wait until the open sessions know that the node is there again."""
        for cluster in self._clusters:
            host = next((host for host in cluster.metadata.all_hosts() if host.address == address), None)
            while host is not None and not cluster.is_shutdown and not host.is_up and time.monotonic() < deadline:
                time.sleep(0.1)

    def wait_until_whole(self, *, within: float = 60.0) -> None:
        """Wait until each running node can read from all three."""
        for node in self.nodes:
            if node.is_running:
                self._reads_from_all(node, time.monotonic() + within)

    def _reads_from_all(self, node: Node, deadline: float) -> None:
        text = "SELECT * FROM system_distributed.view_build_status LIMIT 1"  # a table of RF 3 that every cluster has
        session = self.session(only=node.index, timeout=5)
        try:
            while True:
                try:
                    session.execute(SimpleStatement(text, consistency_level=ConsistencyLevel.ALL))
                    return
                except Exception:
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(0.2)
        finally:
            session.cluster.shutdown()

    def start_all(self) -> None:
        """Start the first node, which is the seed, then the others."""
        self._started(self.nodes[:1])
        self._started(self.nodes[1:])
        if len(self.nodes) > 2:
            self.wait_until_whole()

    def stop(self) -> None:
        """Stop every node; only the one that leaves its classes is asked, the others are killed."""
        for cluster in self._clusters:
            with suppress(Exception):
                cluster.shutdown()
        for node in self.nodes:
            node.keep_classes()
            node.kill()

    def _started(self, nodes: list[Node]) -> None:
        """Start nodes together; one that ends (no peer answered its gossip in time) is started again."""
        for node in nodes:
            node.launch()
        for node in nodes:
            for attempt in range(_ATTEMPTS):
                if node.wait():
                    break
                if attempt == _ATTEMPTS - 1:
                    raise RuntimeError(f"{node.address} does not start\n{node.tail()}")
                time.sleep(1)
                node.launch()


def loopback(count: int, ports: tuple[int, ...] = ()) -> list[str]:
    """Addresses of a range that nobody uses, as far as can be seen on these ports."""
    for _ in range(50):
        first, second = 16 + secrets.randbelow(200), secrets.randbelow(250)
        addresses = [f"127.{first}.{second}.{last}" for last in range(1, count + 1)]
        if all(_is_free(address, port) for address in addresses for port in ports):
            return addresses
    raise RuntimeError("no range of the loopback is free")


def _answers(address: str, port: int) -> bool:
    with suppress(OSError), socket.create_connection((address, port), timeout=1):
        return True
    return False


def _is_free(address: str, port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((address, port))
        except OSError:
            return False
        return True


def _node(
    folder: Path,
    addresses: list[str],
    index: int,
    *,
    settings: dict[str, Any],
    ports: tuple[int, int],
    heap: str,
    release: Release,
) -> Node:
    place = folder / f"node{index + 1}"
    for name in (*_DISK, "conf", "logs", "tmp"):
        (place / name).mkdir(parents=True)
    given = configuration(place, addresses, TOKENS[index], storage_port=ports[0], port=ports[1])
    (place / "conf" / "cassandra.yaml").write_text(yaml.safe_dump(release.settings({**given, **settings})))
    (place / "conf" / "logback.xml").write_text(LOGGING)
    return Node(index, addresses[index], place, release.jars(), ports[1], free_port(), heap, release, archives_classes=index == 0)


@contextmanager
def running(
    nodes: int = 3, *, heap: str = "384m", release: Release = CURRENT, at: Sequence[str] = (), **settings: Any
) -> Iterator[CassandraCluster]:
    """A cluster of 1 or 3 nodes without a keyspace of ours, gone at the end, at free addresses or at these.

    `settings` are of cassandra.yaml.
    """
    assert nodes in (1, 3), "RF 3 or none"
    folder = Path(tempfile.mkdtemp(prefix="cdc-views-cassandra-"))
    try:
        ports = (free_port(), free_port())
        addresses = [*at] or loopback(nodes, ports)
        made = [_node(folder, addresses, i, settings=settings, ports=ports, heap=heap, release=release) for i in range(nodes)]
        cluster = CassandraCluster(folder, release.jars(), made, settings)
        try:
            cluster.start_all()
            yield cluster
        finally:
            cluster.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
