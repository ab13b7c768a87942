"""The settings of a small Cassandra node: CDC on, little memory, short intervals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

TOKENS = ("-9223372036854775808", "-3074457345618258603", "3074457345618258602")
"""Each node's place in the ring."""

LOGGING = """<configuration>
  <appender name="OUT" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d{HH:mm:ss.SSS} %-5level %logger{20} %msg%n</pattern></encoder>
  </appender>
  <root level="INFO"><appender-ref ref="OUT"/></root>
</configuration>
"""

_EXPORTED = (
    "java.base/jdk.internal.misc",
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "java.base/java.lang.ref",
    "java.management.rmi/com.sun.jmx.remote.internal.rmi",
    "java.rmi/sun.rmi.registry",
    "java.rmi/sun.rmi.server",
    "java.sql/java.sql",
)
_OPENED = (
    "java.base/java.lang.module",
    "java.base/jdk.internal.loader",
    "java.base/jdk.internal.ref",
    "java.base/jdk.internal.reflect",
    "java.base/jdk.internal.math",
    "java.base/jdk.internal.module",
    "java.base/jdk.internal.util.jar",
    "jdk.management/com.sun.management.internal",
    "java.base/sun.nio.ch",
    "java.base/java.io",
    "java.base/java.nio",
    "java.base/java.net",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/java.lang",
    "java.base/java.lang.reflect",
    "java.base/java.math",
    "java.rmi/sun.rmi.transport.tcp",
    "java.rmi/sun.rmi.transport",
)
JVM_OPTIONS = (
    "-Djdk.attach.allowAttachSelf=true",
    *(f"--add-exports={package}=ALL-UNNAMED" for package in _EXPORTED),
    *(f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED),
)
"""What Cassandra 5.0 needs of Java 17, as in its jvm17-server.options."""


def configuration(folder: Path, addresses: list[str], token: str, *, storage_port: int, port: int) -> dict[str, Any]:
    """Return cassandra.yaml of the node that has this folder and token; the first address is the seed's."""
    address = addresses[int(folder.name.removeprefix("node")) - 1]
    provider = "org.apache.cassandra.locator.SimpleSeedProvider"
    seeds = {"class_name": provider, "parameters": [{"seeds": f"{addresses[0]}:{storage_port}"}]}
    return {
        "cluster_name": "cdc-views tests",
        "num_tokens": 1,
        "initial_token": token,
        "partitioner": "org.apache.cassandra.dht.Murmur3Partitioner",
        "endpoint_snitch": "SimpleSnitch",
        "seed_provider": [seeds],
        "listen_address": address,
        "rpc_address": address,
        "storage_port": storage_port,
        "native_transport_port": port,
        "start_native_transport": True,
        "auto_bootstrap": False,
        **_folders(folder),
        **_commit_log(),
        **_small(),
    }


def _folders(folder: Path) -> dict[str, Any]:
    return {
        "data_file_directories": [str(folder / "data")],
        "commitlog_directory": str(folder / "commitlog"),
        "saved_caches_directory": str(folder / "saved_caches"),
        "hints_directory": str(folder / "hints"),
        "cdc_raw_directory": str(folder / "cdc_raw"),
    }


def _commit_log() -> dict[str, Any]:
    return {
        "cdc_enabled": True,
        "cdc_total_space": "512MiB",
        "cdc_free_space_check_interval": "250ms",
        "commitlog_sync": "periodic",
        "commitlog_sync_period": "200ms",
        "commitlog_segment_size": "1MiB",
        "commitlog_total_space": "256MiB",
        "commitlog_disk_access_mode": "legacy",
    }


def _small() -> dict[str, Any]:
    return {
        "authenticator": "AllowAllAuthenticator",
        "authorizer": "AllowAllAuthorizer",
        "concurrent_reads": 4,
        "concurrent_writes": 4,
        "concurrent_counter_writes": 4,
        "concurrent_compactors": 1,
        "native_transport_max_threads": 16,
        "memtable_heap_space": "64MiB",
        "memtable_offheap_space": "64MiB",
        "file_cache_size": "32MiB",
        "networking_cache_size": "32MiB",
        "key_cache_size": "4MiB",
        "counter_cache_size": "4MiB",
        "row_cache_size": "0MiB",
        "hinted_handoff_enabled": True,
        "auto_snapshot": False,
        "disk_failure_policy": "stop",
        "commit_failure_policy": "stop",
        "user_defined_functions_enabled": False,
        "read_request_timeout": "20s",
        "write_request_timeout": "20s",
        "range_request_timeout": "30s",
        "request_timeout": "30s",
    }
