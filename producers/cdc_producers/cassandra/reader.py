"""The Java part as a process: sends its commands and reads its frames (see `jvm/Frames.java`)."""

from __future__ import annotations

import json
import os
import select
import struct
import subprocess
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from cdc_producers.cassandra.columns import ColumnPlan
from cdc_producers.cassandra.jars import cassandra_jars, compiled, java
from cdc_producers.cassandra.node_schema import NodeSchema
from cdc_producers.cassandra.options import CassandraOptions
from cdc_views.errors import EngineError, TransientError
from cdc_views.landing.blocks import DecodedRows
from cdc_views.landing.targets import ProducerLog

_ANSWERS_WITHIN = 120.0
_ENDS_WITHIN = 3.0
_FRAME = struct.Struct(">cI")
_EVENT = struct.Struct(">iii")
_SHOWN_LINES = 5

_SETTINGS = """\
cluster_name: reader
partitioner: org.apache.cassandra.dht.Murmur3Partitioner
endpoint_snitch: SimpleSnitch
seed_provider: [{{class_name: org.apache.cassandra.locator.SimpleSeedProvider, parameters: [{{seeds: "127.0.0.1"}}]}}]
commitlog_sync: periodic
commitlog_sync_period_in_ms: 10000
commitlog_segment_size_in_mb: 32
data_file_directories: ['{folder}/data']
commitlog_directory: '{folder}/commitlog'
saved_caches_directory: '{folder}/caches'
hints_directory: '{folder}/hints'
cdc_raw_directory: '{folder}/cdc'
"""
"""Cassandra's classes require a configuration; nothing named in it is opened."""
_LOGGING = """\
<configuration>
  <appender name="ERR" class="ch.qos.logback.core.ConsoleAppender">
    <target>System.err</target><encoder><pattern>%level %logger{0}: %msg%n%ex{short}</pattern></encoder>
  </appender>
  <root level="ERROR"><appender-ref ref="ERR"/></root>
</configuration>
"""
_OPENED = [
    f"--add-{how}=java.base/{name}=ALL-UNNAMED"
    for how, names in (
        ("exports", "jdk.internal.misc jdk.internal.ref sun.nio.ch"),
        ("opens", "java.io java.lang java.lang.reflect java.nio java.util java.util.concurrent"),
        ("opens", "jdk.internal.ref java.util.concurrent.atomic sun.nio.ch"),
    )
    for name in names.split()
]
"""The packages that Cassandra's own `jvm11-server.options` opens, as far as reading needs them."""


class ReadEvents(NamedTuple):
    """One event (the wanted table's number, its end in the segment, its JSON), or many as rows."""

    table: int
    position: int
    content: bytes | DecodedRows


class Ended(msgspec.Struct, frozen=True, rename={"content": "bytes"}):
    """The end of a range's reading, complete or not.

    Attributes:
        position: Everything up to here was read.
        mutations: Number of mutations, of all tables.
        why: Empty if all was read; `table`: an id is in no schema; `mutation`: one cannot be read; `corrupt`.
        at: End of the mutation that stopped the reading.
        table_id: The unknown table.
        content: The mutation's bytes.
    """

    position: int
    mutations: int = 0
    why: str = ""
    reason: str = ""
    at: int = 0
    table_id: UUID | None = None
    content: bytes = b""


class Bad(msgspec.Struct, frozen=True):
    """A mutation with a wrong checksum was skipped."""

    reason: str


@dataclass
class CommitLogReader:
    """The Java process; after an error it has ended, and `start` starts another."""

    options: CassandraOptions
    node: str
    log: ProducerLog
    version: str = ""
    _plans: list[ColumnPlan | None] = field(default_factory=list)
    _process: subprocess.Popen[bytes] | None = None
    _said: deque[str] = field(default_factory=lambda: deque(maxlen=_SHOWN_LINES))

    def start(self) -> None:
        """Start the process and wait until it is ready."""
        self.close()
        self._said.clear()
        folder = self.options.work_folder.resolve()
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "reader.yaml").write_text(_SETTINGS.format(folder=str(folder).replace("'", "''")))
        (folder / "logback.xml").write_text(_LOGGING)
        self._process = subprocess.Popen(
            self._command(folder), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=folder
        )
        Thread(target=self._listen, args=(self._process,), name="reader's stderr", daemon=True).start()
        self.version = str(self._ready().get("version", ""))
        self.log.info(f"reading with the classes of Cassandra {self.version}", version=self.version)

    def take(
        self,
        schema: NodeSchema,
        wanted: Sequence[UUID],
        *,
        plans: Sequence[ColumnPlan | None] = (),
        passed_over: Sequence[UUID] = (),
    ) -> None:
        """Give the process a schema. Events name tables by their index in `wanted`; tables in `passed_over` are in no schema.
        Events that fit their table's plan come as rows. Raises `EngineError` if Cassandra refuses a wanted table's definition.
        """
        self._plans = [*plans, *[None] * (len(wanted) - len(plans))]
        self._send(
            {
                "do": "schema",
                "wanted": [str(i) for i in wanted],
                "known": [str(i) for i in [*schema.ids, *passed_over]],
                "definitions": [part._asdict() for part in schema.definitions],
                "plans": [None if plan is None else plan.description for plan in self._plans],
            }
        )
        names = [schema.ids[number].full_name for number in wanted if number in schema.ids]
        for name, reason in self._ready().get("failed", {}).items():
            message = f"{name}: the reader cannot take its definition: {reason}"
            if name in names:
                raise EngineError(message)
            self.log.warning(message, table=name)

    def read(
        self, log: Path, segment: int, *, start: int, limit: int, passes_over: bool = False, as_lines: bool = False
    ) -> Iterator[ReadEvents | Bad | Ended]:
        """Yield the events of mutations that end after `start` and up to `limit`; the last item is `Ended`.
        With `passes_over`, skips a mutation with a wrong checksum instead of ending at it. With `as_lines`, ignores all plans.
        Raises `MalformedEventError` if a value in rows is not of its type; read again as lines to find its event.
        """
        command = {"path": str(log.resolve()), "segment": segment, "from": start, "limit": limit}
        self._send({"do": "read", **command, "passes_over": passes_over, "as_lines": as_lines})
        while True:
            kind, payload = self._frame()
            if kind == b"E":
                yield from _events(payload)
            elif kind == b"C":
                number = int.from_bytes(payload[:4], "big")
                plan = self._plans[number]
                if plan is None:
                    raise EngineError("the reader sent rows where lines were asked for")
                rows, last = plan.rows(payload, segment)
                yield ReadEvents(number, last, rows)
            elif kind == b"B":
                yield msgspec.json.decode(payload, type=Bad)
            else:
                yield msgspec.json.decode(payload, type=Ended)
                return

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is None:
            return
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        try:
            process.wait(_ENDS_WITHIN)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _command(self, folder: Path) -> list[str]:
        jars = cassandra_jars(self.options.cassandra_lib, self.options.cassandra_version)
        class_path = os.pathsep.join([str(compiled(jars)), *map(str, jars)])
        memory = [f"-Xmx{self.options.heap}", "-Xss1m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=4", "-Xshare:auto"]
        places = [
            f"-Dcassandra.config={(folder / 'reader.yaml').as_uri()}",
            f"-Dlogback.configurationFile={folder / 'logback.xml'}",
            f"-Dcassandra.storagedir={folder}",
        ]
        return [str(java()), *_OPENED, *memory, *places, "-cp", class_path, "cdcviews.Main", self.node]

    def _listen(self, process: subprocess.Popen[bytes]) -> None:
        """Keep the lines on stderr for messages; Java's own texts seldom help users."""
        if process.stderr is not None:
            for line in process.stderr:
                said = line.decode(errors="replace").rstrip()
                if said and not said.startswith("WARNING:"):
                    self._said.append(said)
                    self.log.warning(f"reader: {said}", part="reader")

    def _send(self, command: dict[str, Any]) -> None:
        process = self._process
        if process is None or process.stdin is None:
            raise TransientError("the reader is not running")
        try:
            process.stdin.write(json.dumps(command).encode() + b"\n")
            process.stdin.flush()
        except OSError as error:
            raise self._gone() from error

    def _ready(self) -> dict[str, Any]:
        kind, payload = self._frame()
        if kind != b"R":
            raise EngineError(f"the reader answered {kind!r} where R was expected")
        return msgspec.json.decode(payload, type=dict[str, Any])

    def _frame(self) -> tuple[bytes, bytes]:
        kind, size = _FRAME.unpack(self._exactly(_FRAME.size))
        return kind, self._exactly(size)

    def _exactly(self, size: int) -> bytes:
        process = self._process
        if process is None or process.stdout is None:
            raise TransientError("the reader is not running")
        pipe, parts = process.stdout.fileno(), bytearray()
        while len(parts) < size:
            if not select.select([pipe], [], [], _ANSWERS_WITHIN)[0]:
                self.close()
                raise TransientError(f"the reader has not answered for {_ANSWERS_WITHIN:g} s; it is started again")
            found = os.read(pipe, min(size - len(parts), 1 << 20))
            if not found:
                raise self._gone()
            parts += found
        return bytes(parts)

    def _gone(self) -> TransientError:
        process = self._process
        self.close()
        code = process.returncode if process is not None else None
        said = " | ".join(self._said)
        return TransientError(f"the reader (Java) ended with code {code} and is started again" + (f": {said}" if said else ""))


def _events(payload: bytes) -> Iterator[ReadEvents]:
    at, end = 0, len(payload)
    while at < end:
        table, position, size = _EVENT.unpack_from(payload, at)
        at += _EVENT.size
        yield ReadEvents(table, position, payload[at : at + size])
        at += size
