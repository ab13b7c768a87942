"""Asks the node that this agent runs beside for its schema and settings by CQL."""

from __future__ import annotations

import logging
import re
import struct
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import Any, NamedTuple
from uuid import UUID

from cassandra import DriverException, InvalidRequest, OperationTimedOut
from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile, NoHostAvailable, Session
from cassandra.connection import ConnectionException
from cassandra.policies import WhiteListRoundRobinPolicy
from cassandra.query import dict_factory

from cdc_producers.cassandra.addresses import USER, Account
from cdc_producers.cassandra.node_schema import Logged, NodeColumn, NodeDrop, NodeSchema, NodeTable, NodeType, quoted, schema_of
from cdc_producers.tls import tls_of_environment
from cdc_views.errors import TransientError, UsageError

AWAY = (NoHostAvailable, DriverException, ConnectionException, OSError)
"""The driver's errors for a node that does not answer."""
_PREFIX = "CDC_VIEWS_CASSANDRA_"
TLS = "CDC_VIEWS_CASSANDRA_TLS"
_TIMEOUT = 10.0
_OWN_KEYSPACES = {
    "system", "system_auth", "system_cluster_metadata", "system_distributed", "system_metrics", "system_schema", "system_traces",
    "system_views", "system_virtual_schema",
}  # fmt: skip
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_SIZE = re.compile(r"(\d+)\s*([KMG]i?B|B)?", re.IGNORECASE)
_TRUNCATION = struct.Struct(">qiq")
"""Source: Cassandra 4.0 to 5.0, `SystemKeyspace.truncationAsMapEntry`."""
_WRITTEN = "SELECT table_name, WRITETIME({cell}) AS at FROM system_schema.{what} WHERE keyspace_name = %s"
_UNITS = {"B": 0, "K": 10, "M": 20, "G": 30}


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """A node's identity and settings.

    Attributes:
        host_id: Stays the same when the address changes.
        address: The address that other nodes use.
        cdc_folder: `cdc_raw_directory`; empty if unknown.
        total_space: `cdc_total_space` in bytes; 0 if unknown.
        has_cdc: `cdc_enabled`.
        version: The release, such as 5.0.9; empty if unknown.
        blocks_writes: `cdc_block_writes`; if False, the node deletes segments rather than refuse writes.
        logs_repair: `cdc_on_repair_enabled`; if False, no log has what a repair streams to the node.
    """

    host_id: str
    address: str
    cdc_folder: str
    total_space: int
    has_cdc: bool
    blocks_writes: bool
    version: str = ""
    logs_repair: bool = True


class Truncation(NamedTuple):
    """A TRUNCATE: the node's place in its commit log, and the time (epoch ms). No read shows anything from before it."""

    segment: int
    position: int
    at: int


@dataclass
class Node:
    """A connection to one node only; made by the first call, and again after a failure."""

    host: str
    port: int
    account: Account = field(default_factory=Account.of_environment)
    _cluster: Cluster | None = None
    _session: Session | None = None

    def facts(self) -> NodeFacts:
        """Return the node's facts; raises `TransientError` if it does not answer."""
        settings: list[dict[str, Any]] = []
        with self._errors():
            local = self._rows("SELECT host_id, broadcast_address, rpc_address, release_version FROM system.local")[0]
            with suppress(InvalidRequest):  # 4.0 has this table; earlier versions do not
                settings = self._rows("SELECT name, value FROM system_views.settings")
        found = {row["name"]: row["value"] or "" for row in settings}
        return NodeFacts(
            str(local["host_id"]),
            str(local["broadcast_address"] or local["rpc_address"]),
            found.get("cdc_raw_directory", ""),
            _bytes_of(found.get("cdc_total_space", ""), "") or _bytes_of(found.get("cdc_total_space_in_mb", ""), "M"),
            found.get("cdc_enabled", "true") == "true",
            found.get("cdc_block_writes", "true") == "true",
            str(local["release_version"]),
            found.get("cdc_on_repair_enabled", "true") == "true",
        )

    def schema_version(self) -> str:
        """Return a text that differs after any change of the schema."""
        with self._errors():
            return str(self._rows("SELECT schema_version FROM system.local")[0]["schema_version"])

    def truncated(self) -> dict[UUID, Truncation]:
        """Return each table's last TRUNCATE on this node, by table id."""
        with self._errors():
            found = self._rows("SELECT truncated_at FROM system.local")[0]["truncated_at"] or {}
        return {number: Truncation(*_TRUNCATION.unpack(record)) for number, record in found.items()}

    def keyspaces(self) -> list[str]:
        """Return the names of all keyspaces but the node's own."""
        with self._errors():
            found = [str(row["keyspace_name"]) for row in self._rows("SELECT keyspace_name FROM system_schema.keyspaces")]
        return sorted(name for name in found if name not in _OWN_KEYSPACES)

    def described(self, keyspace: str) -> list[tuple[str, str, str]]:
        """Return kind, name and CREATE statement of all in a keyspace, as DESCRIBE … WITH INTERNALS has it (from 4.0 on)."""
        with self._errors():
            found = self._rows(f"DESCRIBE KEYSPACE {quoted(keyspace)} WITH INTERNALS")
        return [(row["type"], row["name"], row["create_statement"]) for row in found]

    def schema(self, keyspaces: Iterable[str]) -> NodeSchema:
        """Return the node's current schema, with the definitions of these keyspaces."""
        wanted = sorted(set(keyspaces))
        while True:
            version = self.schema_version()
            with self._errors():
                found = self._schema(version, wanted)
            if self.schema_version() == version:
                return found

    def _schema(self, version: str, keyspaces: list[str]) -> NodeSchema:
        columns: dict[tuple[str, str], list[NodeColumn]] = defaultdict(list)
        drops: dict[tuple[str, str], list[NodeDrop]] = defaultdict(list)
        types: list[NodeType] = []
        logged: dict[tuple[str, str], Logged] = {}
        for keyspace in keyspaces:
            for row in self._rows("SELECT * FROM system_schema.columns WHERE keyspace_name = %s", keyspace):
                columns[keyspace, row["table_name"]].append(_column(row))
            for row in self._rows("SELECT * FROM system_schema.dropped_columns WHERE keyspace_name = %s", keyspace):
                drops[keyspace, row["table_name"]].append(_drop(row))
            for row in self._rows("SELECT * FROM system_schema.types WHERE keyspace_name = %s", keyspace):
                fields = zip(row["field_names"], row["field_types"], strict=True)
                types.append(NodeType(keyspace, row["type_name"], tuple(fields)))
            logged |= self._logged(keyspace)
        tables = []
        durable = {row["keyspace_name"]: row["durable_writes"] for row in self._rows("SELECT * FROM system_schema.keyspaces")}
        for row in [*self._rows("SELECT * FROM system_schema.tables"), *self._rows("SELECT * FROM system_schema.views")]:
            place = row["keyspace_name"], row.get("table_name") or row["view_name"]
            made = NodeTable(*place, row["id"], bool(row.get("cdc")), tuple(columns[place]), tuple(drops[place]))
            settings = {"is_compact": _is_compact(row.get("flags")), "is_durable": durable.get(place[0], True)}
            tables.append(replace(made, **settings, logged=logged.get(place)))
        return schema_of(version, tables, types, keyspaces)

    def _logged(self, keyspace: str) -> dict[tuple[str, str], Logged]:
        """Return when the settings that bring tables into the log were written; 0 for a setting that was never written."""
        altered: dict[str, int] = defaultdict(int)
        for what, cell in (("columns", "kind"), ("dropped_columns", "dropped_time")):
            for row in self._rows(_WRITTEN.format(what=what, cell=cell), keyspace):
                altered[row["table_name"]] = max(altered[row["table_name"]], row["at"] or 0)
        of_keyspace = "SELECT WRITETIME(durable_writes) AS at FROM system_schema.keyspaces WHERE keyspace_name = %s"
        durable_at = max((row["at"] or 0 for row in self._rows(of_keyspace, keyspace)), default=0)
        tables = {row["table_name"]: row["at"] or 0 for row in self._rows(_WRITTEN.format(what="tables", cell="cdc"), keyspace)}
        newest = max(tables.values(), default=0)
        return {(keyspace, name): Logged(at, altered[name], durable_at, newest) for name, at in tables.items()}

    def close(self) -> None:
        """Close the connection."""
        cluster, self._cluster, self._session = self._cluster, None, None
        if cluster is not None:
            with suppress(Exception):
                cluster.shutdown()

    def _rows(self, text: str, *values: str) -> list[dict[str, Any]]:
        session = self._session or self._connect()
        return list(session.execute(text, values or None))

    def _connect(self) -> Session:
        # only this node: another node's schema may be newer, and its settings differ
        profile = ExecutionProfile(
            load_balancing_policy=WhiteListRoundRobinPolicy([self.host]), row_factory=dict_factory, request_timeout=_TIMEOUT
        )
        self._cluster = cluster_at(self.host, self.port, self.account, profile, token_metadata_enabled=False)
        self._session = self._cluster.connect()
        return self._session

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except AWAY as error:
            self.close()
            raise (
                refused_by_tls(f"{self.host}:{self.port}", error)
                or TransientError(
                    f"the node at {self.host}:{self.port} does not answer: {message_of(error)}; is it up, are host, port, "
                    f"{USER} and {TLS} right?"
                )
            ) from error


def cluster_at(host: str, port: int, account: Account, profile: ExecutionProfile, **more: Any) -> Cluster:
    """Return a cluster to connect to, with TLS from the environment; raises `UsageError` for wrong values."""
    driver = logging.getLogger("cassandra")
    if driver.level == logging.NOTSET:
        driver.setLevel(logging.CRITICAL)  # what it logs of a node that does not answer, it also raises
    return Cluster(
        [host],
        port=port,
        auth_provider=PlainTextAuthProvider(account.user, account.password) if account.user else None,
        ssl_context=tls_of_environment(_PREFIX),
        execution_profiles={EXEC_PROFILE_DEFAULT: profile},
        connect_timeout=profile.request_timeout,
        schema_metadata_enabled=False,
        **more,
    )


def refused_by_tls(where: str, error: Exception) -> UsageError | None:
    """Return the error of a TLS that waiting does not mend; None for any other."""
    said = message_of(error)
    if "CERTIFICATE_VERIFY_FAILED" in said:
        return UsageError(f"{where}: {said}; set {TLS}_CA to the certificate of who signed the node's")
    if "SSL" in said or "CERTIFICATE" in said:
        return UsageError(f"{where}: {said}; do {TLS}, {TLS}_CERT and {TLS}_KEY fit the node's client_encryption_options?")
    return None


def message_of(error: Exception) -> str:
    """Return the driver's message about the first host that it asked."""
    first = error
    if isinstance(error, NoHostAvailable) and isinstance(error.errors, dict) and error.errors:
        first = next(iter(error.errors.values()))
    if isinstance(first, OperationTimedOut) and not first.errors:
        return "no answer in time"
    return str(first) or type(first).__name__


def _column(row: dict[str, Any]) -> NodeColumn:
    return NodeColumn(row["column_name"], row["type"], row["kind"], row["position"], row["clustering_order"] == "desc")


def _drop(row: dict[str, Any]) -> NodeDrop:
    # the driver reads a timestamp as a datetime without zone, in UTC; the server keeps milliseconds
    micros = (row["dropped_time"].replace(tzinfo=timezone.utc) - _EPOCH) // (datetime.resolution)
    return NodeDrop(NodeColumn(row["column_name"], row["type"], row.get("kind") or "regular"), micros)


def _bytes_of(text: str, unit: str) -> int:
    found = _SIZE.fullmatch(text.strip())
    return int(found[1]) << _UNITS[(found[2] or unit or "B")[0].upper()] if found else 0


def _is_compact(flags: Iterable[str] | None) -> bool:
    """Return whether a table has COMPACT STORAGE; a materialized view has no flags.
    Source: Apache Cassandra 5.0, schema/TableMetadata.java, Flag.isCQLTable.
    """
    return flags is not None and ("compound" not in flags or bool({"dense", "super"} & set(flags)))
