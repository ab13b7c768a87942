"""The agent and `verify` of a node that takes encrypted connections alone, whose certificate they check."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("cassandra")

from helpers.cassandra_tables import ORDERS, Workload, create, mark, project, wait_until_landed
from helpers.certificates import STORE_PASSWORD, self_signed
from helpers.command_line import CommandLine
from helpers.producing import Producer, ended
from services.cassandra import CassandraCluster, loopback, running

pytestmark = pytest.mark.live


@pytest.fixture
def encrypted(tmp_path: Path) -> Iterator[CassandraCluster]:
    """A node that takes no other connections; its certificate is `cert.pem`."""
    address = loopback(1)
    certificate, _ = self_signed(tmp_path, address=address[0])
    store = {"keystore": str(tmp_path / "store.p12"), "keystore_password": STORE_PASSWORD, "store_type": "PKCS12"}
    with running(1, at=address, client_encryption_options={"enabled": True, "optional": False, **store}) as cluster:
        cluster.tls = ssl.create_default_context(cafile=str(certificate))
        yield cluster


def test_agent_and_verify_over_tls(
    encrypted: CassandraCluster, run: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, node = encrypted.session(), encrypted.nodes[0]
    create(session)
    project(tmp_path)
    where = ["cassandra", "--host", node.address, "--port", str(node.port), "--cassandra-lib", str(node.lib)]
    agent = Producer(tmp_path, {}, where)
    assert "CDC_VIEWS_CASSANDRA_TLS right?" in ended(agent.start("--connect-timeout", "5"), 3)
    agent.environment["CDC_VIEWS_CASSANDRA_TLS"] = "verify"
    assert "set CDC_VIEWS_CASSANDRA_TLS_CA to" in ended(agent.start(), 2)
    agent.environment["CDC_VIEWS_CASSANDRA_TLS_CA"] = str(tmp_path / "cert.pem")
    agent.start().wait_until_said("following", within=120)
    Workload(session, 5).run(50)
    mark(session, 1)
    wait_until_landed(run, 1, within=120)
    source = f"cassandra://{node.address}:{node.port}"
    refused = run("verify", ORDERS, "--source", source, "--wait", "2")
    assert (refused.code, "CDC_VIEWS_CASSANDRA_TLS" in refused.err) == (3, True), refused
    for name, value in agent.environment.items():
        monkeypatch.setenv(name, value)
    answer = run("verify", ORDERS, "--source", source, "--wait", "30", "--rate", "0")
    assert (answer.code, "equal" in answer.err) == (0, True), answer
    assert agent.stop() == 0
