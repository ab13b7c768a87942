"""A running source as `--from` or `schema:`: one that is away, and addresses that are wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from helpers.command_line import CommandLine
from services.account import free_port

from cdc_views.errors import TransientError

if TYPE_CHECKING:
    from cassandra.cluster import Cluster
    from cdc_producers.cassandra.addresses import Account

WORD = "zqaway-pw"


@pytest.mark.parametrize("scheme", ["postgresql", "mysql", "mariadb", "cassandra"])
def test_a_source_that_is_away_exits_3_and_says_no_password(scheme: str, run: CommandLine) -> None:
    address = f"{scheme}://reader:{WORD}@127.0.0.1:{free_port()}/shop"
    table = {"name": "shop.orders", "schema": address, "raw": {"format": "debezium"}}
    Path("live.yml").write_text(json.dumps({"name": "shop", "engine": "duckdb", "tables": [table]}))
    for said in (run("init", "--from", address), run("query", "shop.orders", "--project", "live.yml")):
        assert said.code == 3, said.err
        assert (said.out, WORD in said.err, "Traceback" in said.err) == ("", False, False), said.err
    assert f"the schema is read from {scheme}://reader@127.0.0.1" in said.err
    assert "init --from" in said.err
    assert not Path("cdc_views.yml").exists()


@pytest.mark.parametrize("scheme", ["postgresql", "mysql", "cassandra"])
def test_an_address_that_is_wrong_exits_2_and_is_not_quoted(scheme: str, run: CommandLine) -> None:
    said = run("init", "--from", f"{scheme}://reader:{WORD}/x@127.0.0.1/shop")
    assert said.code in (2, 3)
    assert WORD not in said.err, said.err


@pytest.mark.parametrize(
    ("address", "account"),
    [
        ("cassandra://127.0.0.1/shop", ("reader", WORD)),
        ("cassandra://other@127.0.0.1", ("other", WORD)),
        ("cassandra://other:p%40ss@127.0.0.1:9999", ("other", "p@ss")),
    ],
)
def test_the_account_at_a_node_is_that_of_the_address_or_the_environment(
    address: str, account: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from cassandra.cluster import ExecutionProfile
    from cdc_producers.cassandra import describing, node, snapshot_reading, verifying
    from cdc_producers.cassandra.node import cluster_at

    monkeypatch.setenv("CDC_VIEWS_CASSANDRA_USER", "reader")
    monkeypatch.setenv("CDC_VIEWS_CASSANDRA_PASSWORD", WORD)
    found = []

    def connecting(host: str, port: int, who: Account, *_: object, **more: object) -> Cluster:
        found.append(who)
        return cluster_at("127.0.0.1", free_port(), who, ExecutionProfile(), **more)

    monkeypatch.setattr(node, "cluster_at", connecting)
    monkeypatch.setattr(snapshot_reading, "cluster_at", connecting)
    with pytest.raises(TransientError) as away:
        describing.described(address, [])
    with pytest.raises(TransientError), verifying.opened(address, None):  # type: ignore[arg-type]
        pytest.fail("nobody answers")
    assert [(who.user, who.password) for who in found] == [account] * 2
    cluster = cluster_at("127.0.0.1", 9042, found[0], ExecutionProfile())
    assert (cluster.auth_provider.username, cluster.auth_provider.password) == account
    cluster.shutdown()
    assert account[1] not in f"{found} {away.value}"


def test_nothing_that_is_there_is_overwritten(run: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    from cdc_producers.postgres import describing

    from cdc_views.schemas.live import Ddl, Described

    statements = {"public.t": "CREATE TABLE public.t (a int PRIMARY KEY);"}
    monkeypatch.setattr(describing, "described", lambda *_: Described("PostgreSQL 17", "postgres", Ddl.POSTGRES, statements))
    Path("schema.sql").write_text("-- mine")
    said = run("init", "--from", "postgresql://h/db")
    assert (said.code, "not overwritten" in said.err) == (2, True), said.err
    assert Path("schema.sql").read_text() == "-- mine"
    assert not Path("cdc_views.yml").exists()
    Path("schema.sql").unlink()
    assert run("init", "--from", "postgresql://h/db").code == 0
    assert statements["public.t"] in Path("schema.sql").read_text()
    assert "schema: schema.sql" in Path("cdc_views.yml").read_text()
