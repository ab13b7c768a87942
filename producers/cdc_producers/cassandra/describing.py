"""Cassandra's tables as CQL, for `init --from cassandra://…`: what DESCRIBE … WITH INTERNALS says, so with dropped columns."""

from __future__ import annotations

from collections.abc import Sequence

from cdc_producers.cassandra.addresses import Address
from cdc_producers.cassandra.node import Node
from cdc_views.schemas.live import Ddl, Described, is_wanted


def described(address: str, tables: Sequence[str]) -> Described:
    """See `Describe`: `cassandra://HOST:PORT/KEYSPACE`, or without a keyspace for those of all but the node's own."""
    where = Address.of(address)
    node = Node(where.host, where.port, where.account)
    try:
        version = node.facts().version
        keyspaces = [name for name in node.keyspaces() if where.keyspace in ("", name)]
        parts = [(keyspace, *part) for keyspace in keyspaces for part in node.described(keyspace)]
    finally:
        node.close()
    found = {f"{keyspace}.{_bare(name)}": text for keyspace, kind, name, text in parts if kind == "table"}
    return Described(
        f"Cassandra {version}",
        "cassandra",
        Ddl.CQL,
        {name: text for name, text in found.items() if is_wanted(name, tables)},
        before="\n".join(text for _, kind, _, text in parts if kind == "type"),
        names=list(found),
    )


def _bare(name: str) -> str:
    """Return a name as it is, without the quotes that DESCRIBE gives it where CQL needs them."""
    return name[1:-1].replace('""', '"') if name.startswith('"') else name
