"""A server of the Storage Write API's streams, on loopback, for the real client: rows are decoded as they were described.

It checks offsets as BigQuery does, and fails when it is told to. Tables are lists of rows by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import grpc
from google.api_core.client_options import ClientOptions
from google.auth.credentials import AnonymousCredentials
from google.cloud.bigquery_storage_v1 import BigQueryWriteClient, types
from google.cloud.bigquery_storage_v1.services.big_query_write.transports import BigQueryWriteGrpcTransport
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.json_format import MessageToDict

_SERVICE = "google.cloud.bigquery.storage.v1.BigQueryWrite"
_ALREADY_EXISTS, _OUT_OF_RANGE, _FAILED = 6, 11, 9


@dataclass
class Stream:
    """One stream of a table."""

    table: str
    rows: int = 0
    is_final: bool = False


@dataclass
class StorageServer:
    """Streams and the rows of tables; `lose_answers` and `refuse` are how many appends to fail after, or before, they land."""

    tables: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    streams: dict[str, Stream] = field(default_factory=dict)
    lose_answers: int = 0
    refuse: int = 0
    appends: int = 0
    port: int = 0

    def __post_init__(self) -> None:
        self._server = grpc.server(ThreadPoolExecutor(8))
        handlers = {
            "CreateWriteStream": self._unary(self._create, types.CreateWriteStreamRequest, types.WriteStream),
            "FinalizeWriteStream": self._unary(
                self._finalize, types.FinalizeWriteStreamRequest, types.FinalizeWriteStreamResponse
            ),
            "AppendRows": grpc.stream_stream_rpc_method_handler(
                self._append, types.AppendRowsRequest.deserialize, types.AppendRowsResponse.serialize
            ),
        }
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_SERVICE, handlers),))
        self.port = self._server.add_insecure_port("127.0.0.1:0")
        self._server.start()

    def client(self) -> BigQueryWriteClient:
        """Return the real client, connected to this server."""
        channel = grpc.insecure_channel(f"127.0.0.1:{self.port}")
        transport = BigQueryWriteGrpcTransport(channel=channel, credentials=AnonymousCredentials())
        return BigQueryWriteClient(transport=transport, client_options=ClientOptions())

    def stop(self) -> None:
        """Stop at once."""
        self._server.stop(None)

    @staticmethod
    def _unary(answer: Callable[..., Any], request: Any, response: Any) -> Any:
        return grpc.unary_unary_rpc_method_handler(answer, request.deserialize, response.serialize)

    def _create(self, request: Any, context: grpc.ServicerContext) -> Any:
        if request.parent not in self.tables:
            context.abort(grpc.StatusCode.NOT_FOUND, "no such table")
        assert request.write_stream.type_ == types.WriteStream.Type.COMMITTED
        name = f"{request.parent}/streams/s{len(self.streams)}"
        self.streams[name] = Stream(request.parent)
        return types.WriteStream(name=name)

    def _finalize(self, request: Any, context: grpc.ServicerContext) -> Any:
        if request.name not in self.streams:
            context.abort(grpc.StatusCode.NOT_FOUND, "no such stream")
        stream = self.streams[request.name]
        stream.is_final = True
        return types.FinalizeWriteStreamResponse(row_count=stream.rows)

    def _append(self, requests: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
        made: Any = None
        name = ""
        for request in requests:
            schema = request.proto_rows.writer_schema.proto_descriptor
            if len(schema.field):
                sent = types.ProtoSchema.pb(request.proto_rows.writer_schema)
                made, name = _message(sent.proto_descriptor), request.write_stream
            if self.refuse:
                self.refuse -= 1
                context.abort(grpc.StatusCode.UNAVAILABLE, "try again")
            stream, offset = self.streams[name], int(request.offset)
            refused = _FAILED if stream.is_final else _ALREADY_EXISTS if offset < stream.rows else _OUT_OF_RANGE
            if stream.is_final or offset != stream.rows:
                error = {"code": refused, "message": "secret value 4711"}
                yield types.AppendRowsResponse(error=error)
                continue
            rows = list(request.proto_rows.rows.serialized_rows)
            self.tables[stream.table] += [_record(made.FromString(row)) for row in rows]
            stream.rows += len(rows)
            self.appends += 1
            if self.lose_answers:
                self.lose_answers -= 1
                context.abort(grpc.StatusCode.UNAVAILABLE, "the answer is lost")
            yield types.AppendRowsResponse(append_result={"offset": offset})


def _message(descriptor: Any) -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="sent.proto", package="sent", syntax="proto2")
    file.message_type.append(descriptor)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"sent.{descriptor.name}"))


def _record(message: Any) -> dict[str, Any]:
    found: dict[str, Any] = MessageToDict(message, preserving_proto_field_name=True)
    return found
