"""Writes rows to a raw table in BigQuery by the Storage Write API: each batch lands once, even after a crash or a lost answer.

Each writer appends to its own stream, and each batch to the offset after the batch before; BigQuery accepts an offset once.
Before an append, the writer saves in a small file (the *record*) how far the batch leads in the stream and in the source.
After a crash, the next writer finalizes that stream: its number of rows shows whether the last batch landed. An old writer
that still lives cannot append to a finalized stream.

Without its record, a source begins again and rows land twice: no view shows it (rule M1), only the bill.

Sources: BigQuery, Stream data using the Storage Write API, "Use committed type for exactly-once semantics", and
Introduction to the Storage Write API, "Supported protocol buffer and Arrow data types" (TIMESTAMP takes int64 µs, BIGNUMERIC
a string); google.cloud.bigquery.storage.v1, FinalizeWriteStreamResponse.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from cdc_views.errors import EngineError, SourceFileError, TransientError, UnsupportedError, UsageError
from cdc_views.landing import Position
from cdc_views.model.extras import needs
from cdc_views.model.whole_files import write_whole
from cdc_views.storage.relation import Relation

with needs("the Storage Write API", extra="bigquery-write"):
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory  # type: ignore[import-untyped]

if TYPE_CHECKING:
    from google.cloud.bigquery_storage_v1 import BigQueryWriteClient
    from google.cloud.bigquery_storage_v1.writer import AppendRowsStream

MOST_BYTES = 9 * 1024 * 1024
"""The limit of one append; a request takes 10 MB. Source: BigQuery, Quotas and limits, Storage Write API."""
FRESH = timedelta(minutes=30)
"""The largest age of a row's stamp: half of the time that a merge script looks back (docs/internals/bigquery-merge.md)."""
ATTEMPTS = 5
_APPEND_SECONDS = 60.0
_Field = descriptor_pb2.FieldDescriptorProto
_ROW = "Row"
_SCALARS = (
    (pa.types.is_integer, _Field.TYPE_INT64),
    (pa.types.is_floating, _Field.TYPE_DOUBLE),
    (pa.types.is_string, _Field.TYPE_STRING),
    (pa.types.is_binary, _Field.TYPE_BYTES),
    (pa.types.is_boolean, _Field.TYPE_BOOL),
    (pa.types.is_decimal, _Field.TYPE_STRING),
    (pa.types.is_timestamp, _Field.TYPE_INT64),
)


@dataclass(frozen=True, slots=True)
class StreamRecord:
    """What a writer has done and is about to do.

    Attributes:
        stream: Name of its stream; empty before the first.
        offset: Number of rows in the stream up to `position`.
        position: The last position of the source that has landed; None if nothing has.
        next_offset: Number of rows after the batch that was begun, which ends at `next_position`; `offset` if none was.
    """

    stream: str = ""
    offset: int = 0
    position: tuple[int, int] | None = None
    next_offset: int = 0
    next_position: tuple[int, int] | None = None


class RawWriter:
    """A writer to one raw table; use one per source and table, and close it when done."""

    def __init__(
        self, client: BigQueryWriteClient, *, table: str, relation: Relation, record: Path, open_seconds: float = 20.0
    ) -> None:
        """Find out what has landed in `table`, which is named `projects/P/datasets/D/tables/T` and exists.
        After `open_seconds`, opening a stream is given up. The client can hang for ten minutes there: it holds a lock while it
        opens a stream, and after a failure its clean-up waits for that lock.
        Raises `SourceFileError` if the file is not a record, `UnsupportedError` for lists within lists, `EngineError` if refused.
        """
        self._client, self._table, self._file, self._open_seconds = client, table, record, open_seconds
        self._encoder = RowEncoder(relation.arrow_schema())
        self._stream: AppendRowsStream | None = None
        self._record = _recovered(client, _read(record))
        _write(record, self._record)

    @property
    def position(self) -> Position | None:
        """The last position that has landed; None if nothing has."""
        return Position(*self._record.position) if self._record.position is not None else None

    def append(self, rows: pa.Table, *, through: Position, now: datetime) -> int:
        """Land rows of the raw layout, which hold everything up to `through`; return how many rows were written.
        Skips a batch at or before `position`: it has landed.

        Raises:
            UsageError: The batch is larger than a request may be.
            TransientError: The rows' stamps are too old, or BigQuery cannot be reached: stamp them again and retry.
            EngineError: BigQuery refuses the rows, or another writer took the stream over.
        """
        if self.position is not None and through <= self.position:
            return 0
        _check_fresh(rows, now)
        made = list(self._encoder.rows(rows))
        size = sum(map(len, made))
        if size > MOST_BYTES:
            raise UsageError(f"{self._table}: a batch of {size:,} bytes; at most {MOST_BYTES:,} fit into one append")
        begun = replace(self._record, next_offset=self._record.offset + len(made), next_position=(through.at, through.nth))
        if not begun.stream:
            begun = replace(begun, stream=_new_stream(self._client, self._table), offset=0, next_offset=len(made))
        _write(self._file, begun)
        if made:
            self._send(made, begun)
        self._record = replace(begun, offset=begun.next_offset, position=begun.next_position)
        _write(self._file, self._record)
        return len(made)

    def close(self) -> None:
        """Close the connection; the stream stays, and the next writer continues after it."""
        if self._stream is not None and self._stream.is_active:
            self._stream.close()
        self._stream = None

    def _send(self, made: list[bytes], begun: StreamRecord) -> None:
        """Append at the offset. If the offset is taken, our rows are there and only the answer was lost."""
        from google.api_core import exceptions as ex
        from google.cloud.bigquery_storage_v1 import types

        data = types.AppendRowsRequest.ProtoData(rows=types.ProtoRows(serialized_rows=made))
        request = types.AppendRowsRequest(write_stream=begun.stream, offset=begun.offset, proto_rows=data)
        for attempt in range(1, ATTEMPTS + 1):
            try:
                send = self._opened(begun.stream).send
                _within(self._open_seconds, partial(send, request)).result(timeout=_APPEND_SECONDS)
                return
            except ex.AlreadyExists:
                return
            except _HangsError:
                self._stream = None  # closing would wait for the same lock
                if attempt == ATTEMPTS:
                    raise TransientError(f"{self._table}: BigQuery opens no stream; run it again") from None
            except (ex.ServiceUnavailable, ex.Aborted, ex.Unknown, ex.InternalServerError, TimeoutError) as error:
                self.close()
                if attempt == ATTEMPTS:
                    why = type(error).__name__
                    raise TransientError(f"{self._table}: BigQuery does not answer ({why}); run it again") from error
            except ex.GoogleAPICallError as error:
                self.close()
                raise EngineError(f"{self._table}: BigQuery refuses rows of {begun.stream}: {_kind(error)}") from error

    def _opened(self, stream: str) -> AppendRowsStream:
        from google.cloud.bigquery_storage_v1 import types
        from google.cloud.bigquery_storage_v1.writer import AppendRowsStream

        if self._stream is None:
            schema = types.ProtoSchema(proto_descriptor=self._encoder.descriptor)
            data = types.AppendRowsRequest.ProtoData(writer_schema=schema)
            template = types.AppendRowsRequest(write_stream=stream, proto_rows=data)
            self._stream = AppendRowsStream(self._client, template)
        return self._stream


def _new_stream(client: BigQueryWriteClient, table: str) -> str:
    from google.cloud.bigquery_storage_v1 import types

    wanted = types.WriteStream(type_=types.WriteStream.Type.COMMITTED)
    with _client_errors(table):
        return str(client.create_write_stream(parent=table, write_stream=wanted).name)


def _recovered(client: BigQueryWriteClient, record: StreamRecord) -> StreamRecord:
    """Finalize the previous writer's stream and return the record of what landed."""
    if not record.stream:
        return record
    try:
        with _client_errors(record.stream):
            rows = int(client.finalize_write_stream(name=record.stream).row_count)
    except _GoneError:
        rows = record.offset  # the begun batch may land twice, which no view shows
    if rows >= record.next_offset and record.next_position is not None:
        return StreamRecord(position=record.next_position)
    if rows < record.offset:
        raise EngineError(f"{record.stream} has {rows:,} rows, and {record.offset:,} had landed; is the record another table's?")
    return StreamRecord(position=record.position)


class _HangsError(Exception):
    """A call did not come back."""


def _within(seconds: float, call: Callable[[], Any]) -> Any:
    """Return or raise what `call` does; raise `_HangsError` if it takes longer, and let it go on in its thread."""
    answer: Future[Any] = Future()

    def run() -> None:
        try:
            answer.set_result(call())
        except BaseException as error:
            answer.set_exception(error)

    Thread(target=run, name="append", daemon=True).start()
    if not wait([answer], timeout=seconds).done:
        raise _HangsError
    return answer.result()


class _GoneError(EngineError):
    """A stream that BigQuery no longer has."""


@contextmanager
def _client_errors(what: str) -> Iterator[None]:
    """Raise the client's errors as ours, without their texts, which may hold values of rows."""
    from google.api_core import exceptions

    try:
        yield
    except exceptions.NotFound as error:
        raise _GoneError(f"{what}: BigQuery has no such table or stream") from error
    except (exceptions.ServiceUnavailable, exceptions.DeadlineExceeded, exceptions.InternalServerError) as error:
        raise TransientError(f"{what}: BigQuery does not answer ({type(error).__name__}); run it again") from error
    except exceptions.GoogleAPICallError as error:
        raise EngineError(f"{what}: BigQuery refuses: {_kind(error)}") from error


def _kind(error: Exception) -> str:
    """Return an error's class and BigQuery's code, if it has one; never its text."""
    from google.cloud.bigquery_storage_v1 import types

    parts = (part.code for part in getattr(error, "details", ()) if hasattr(part, "code"))
    codes = [types.StorageError.StorageErrorCode(code).name for code in parts]
    return " ".join([type(error).__name__, *codes])


def _check_fresh(rows: pa.Table, now: datetime) -> None:
    oldest = pc.min(rows.column("_landed_at")).as_py() if rows.num_rows else None
    if oldest is not None and oldest < now - FRESH:
        raise TransientError(f"rows were stamped at {oldest:%Y-%m-%dT%H:%M:%SZ}, too long ago to land; stamp them anew")


def _read(file: Path) -> StreamRecord:
    if not file.exists():
        return StreamRecord()
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        pairs = {name: tuple(found[name]) if found[name] is not None else None for name in ("position", "next_position")}
        return StreamRecord(**(found | pairs))
    except (ValueError, TypeError, KeyError) as error:
        raise SourceFileError(
            f"{file}: no record of a writer; put the right one back, or remove it, and the source begins again"
        ) from error


def _write(file: Path, record: StreamRecord) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, json.dumps(asdict(record)))


class RowEncoder:
    """An encoder of Arrow rows as protocol buffers; `descriptor` is their message type."""

    def __init__(self, schema: pa.Schema) -> None:
        """Take the raw table's schema; raises `UnsupportedError` for lists within lists."""
        self.schema = schema
        self.descriptor = _message(_ROW, list(schema))
        file = descriptor_pb2.FileDescriptorProto(name="row.proto", package="cdc_views", syntax="proto2")
        file.message_type.append(self.descriptor)
        pool = descriptor_pool.DescriptorPool()
        pool.Add(file)
        self._made: Any = message_factory.GetMessageClass(pool.FindMessageTypeByName(f"cdc_views.{_ROW}"))

    def rows(self, table: pa.Table) -> Iterator[bytes]:
        """Yield each row; a null is an unset field. Raises `UnsupportedError` for a null in an array, which BigQuery refuses."""
        # timestamps as µs, exactly
        columns = [c.cast(pa.int64()) if pa.types.is_timestamp(c.type) else c for c in table.columns]
        for record in pa.table(columns, names=table.column_names).to_pylist():
            row = self._made()
            _fill(row, list(self.schema), record)
            yield row.SerializeToString(deterministic=True)


def _message(name: str, fields: list[pa.Field]) -> descriptor_pb2.DescriptorProto:
    made = descriptor_pb2.DescriptorProto(name=name)
    for number, field in enumerate(fields, start=1):
        kind, label = field.type, _Field.LABEL_OPTIONAL
        if pa.types.is_list(kind):
            kind, label = kind.value_type, _Field.LABEL_REPEATED
        added = made.field.add(name=field.name, number=number, label=label)
        if pa.types.is_struct(kind):
            nested = f"Of{number}"
            made.nested_type.append(_message(nested, list(kind)))
            added.type, added.type_name = _Field.TYPE_MESSAGE, nested
        elif pa.types.is_list(kind):
            raise UnsupportedError(
                f"column {field.name!r} holds lists within lists, and BigQuery has no ARRAY of ARRAY",
                remedy="leave the column out of the schema file",
            )
        else:
            added.type = next(of for fits, of in _SCALARS if fits(kind))
    return made


def _fill(message: Any, fields: list[pa.Field], record: dict[str, Any]) -> None:
    for field in fields:
        value = record[field.name]
        if value is None:
            continue
        if pa.types.is_list(field.type):
            _extend(message, field, value)
        elif pa.types.is_struct(field.type):
            target = getattr(message, field.name)
            target.SetInParent()
            _fill(target, list(field.type), value)
        else:
            setattr(message, field.name, _plain(field.type, value))


def _extend(message: Any, field: pa.Field, values: list[Any]) -> None:
    target, kind = getattr(message, field.name), field.type.value_type
    for value in values:
        if value is None:
            raise UnsupportedError(
                f"an array of column {field.name!r} holds null, which BigQuery stores in none",
                remedy="leave the column out of the schema file, or land into Delta tables",
            )
        if pa.types.is_struct(kind):
            _fill(target.add(), list(kind), value)
        else:
            target.append(_plain(kind, value))


def _plain(kind: pa.DataType, value: Any) -> Any:
    return str(value) if pa.types.is_decimal(kind) else value
