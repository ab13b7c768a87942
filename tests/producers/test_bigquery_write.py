"""Rows by the Storage Write API: each batch once, by the real client against a server of its streams."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from helpers.histories import NOW, histories
from helpers.schemas import LOGGED, NARROW, PLAIN, WIDE, Subject
from helpers.writing import Writer

from cdc_views.errors import EngineError, SourceFileError, TransientError, UnsupportedError, UsageError
from cdc_views.landing import Position
from cdc_views.storage.relation import Relation

pytest.importorskip("google.cloud.bigquery_storage_v1")

import pyarrow as pa
from cdc_producers import bigquery_write
from cdc_producers.bigquery_write import RawWriter, RowEncoder
from google.cloud.bigquery_storage_v1.writer import AppendRowsStream
from services.bigquery_storage import StorageServer

pytestmark = pytest.mark.heavy

TABLE = "projects/p/datasets/raw/tables/orders"
AT = datetime.fromtimestamp(NOW, timezone.utc)
WRITER = Writer(NARROW.schema)


@pytest.fixture
def server() -> Iterator[StorageServer]:
    served = StorageServer(tables={TABLE: []})
    yield served
    served.stop()


def opened(server: StorageServer, folder: Path, relation: Relation = NARROW.relation, *, open_seconds: float = 3.0) -> RawWriter:
    """The server of the tests opens a stream at once or not at all."""
    record = folder / "record.json"
    return RawWriter(server.client(), table=TABLE, relation=relation, record=record, open_seconds=open_seconds)


def batch(*cases: int, at: int = NOW) -> pa.Table:
    facts = [WRITER.insert(case, 1, at=case, v=case) for case in cases]
    return NARROW.relation.rows(facts, landed_at=at * 1_000_000)


def cases(server: StorageServer) -> list[int]:
    return [int(row["case"]) for row in server.tables[TABLE]]


def spelled(value: Any, kind: pa.DataType) -> Any:
    """An Arrow value as protobuf's JSON spells it; what is null or empty is not there."""
    if pa.types.is_struct(kind):
        return {f.name: spelled(value[f.name], f.type) for f in kind if value[f.name] not in (None, [])}
    if pa.types.is_list(kind):
        return [spelled(item, kind.value_type) for item in value]
    if pa.types.is_binary(kind):
        return base64.b64encode(value).decode()
    if pa.types.is_floating(kind):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.get(str(value), value)
    if pa.types.is_timestamp(kind):
        return str(int(value.timestamp()) * 1_000_000)
    return value if pa.types.is_boolean(kind) or pa.types.is_string(kind) else str(value)


@pytest.mark.parametrize("subject", [NARROW, PLAIN, WIDE, LOGGED], ids=lambda s: s.name)
def test_rows_arrive_as_they_were(server: StorageServer, tmp_path: Path, subject: Subject) -> None:
    rows = subject.relation.rows(histories(subject, cases=6, seed=1).facts, landed_at=NOW * 1_000_000)
    writer = opened(server, tmp_path, subject.relation)
    assert writer.append(rows, through=Position(1), now=AT) == rows.num_rows
    writer.close()
    kind = pa.struct(list(rows.schema))
    assert server.tables[TABLE] == [spelled(record, kind) for record in rows.to_pylist()]


def test_a_batch_lands_once_and_its_position_is_known(server: StorageServer, tmp_path: Path) -> None:
    writer = opened(server, tmp_path)
    assert writer.position is None
    assert writer.append(batch(1, 2), through=Position(5, 1), now=AT) == 2
    assert writer.append(batch(1, 2), through=Position(5, 1), now=AT) == 0
    assert writer.append(batch(), through=Position(6), now=AT) == 0
    writer.close()
    again = opened(server, tmp_path)
    assert again.position == Position(6)
    again.append(batch(3), through=Position(7), now=AT)
    again.close()
    assert cases(server) == [1, 2, 3]


def test_a_lost_answer_makes_no_second_copy(server: StorageServer, tmp_path: Path) -> None:
    writer = opened(server, tmp_path)
    writer.append(batch(1), through=Position(1), now=AT)
    server.lose_answers = 1
    writer.append(batch(2), through=Position(2), now=AT)
    server.refuse = 2
    writer.append(batch(3), through=Position(3), now=AT)
    writer.close()
    assert cases(server) == [1, 2, 3]


def test_a_stream_that_never_opens_is_given_up(server: StorageServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the client does where a call fails while it waits for it: the clean-up wants the lock that the wait holds."""
    hangs, released = [True, True], Event()
    real = AppendRowsStream.send

    def send(self: AppendRowsStream, request: Any) -> Any:
        if hangs and hangs.pop():
            released.wait(30)
        return real(self, request)

    monkeypatch.setattr(AppendRowsStream, "send", send)
    writer = opened(server, tmp_path, open_seconds=0.3)
    assert writer.append(batch(1), through=Position(1), now=AT) == 1
    assert not hangs
    released.set()
    writer.append(batch(2), through=Position(2), now=AT)
    writer.close()
    assert cases(server) == [1, 2]


@pytest.mark.parametrize("has_landed", [True, False])
def test_a_writer_that_is_killed_is_followed_by_one_that_knows(
    server: StorageServer, tmp_path: Path, has_landed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = opened(server, tmp_path)
    writer.append(batch(1), through=Position(1), now=AT)
    monkeypatch.setattr(bigquery_write, "ATTEMPTS", 1)
    server.lose_answers, server.refuse = int(has_landed), int(not has_landed)
    with pytest.raises(TransientError):
        writer.append(batch(2), through=Position(2), now=AT)
    again = opened(server, tmp_path)
    assert again.position == (Position(2) if has_landed else Position(1))
    again.append(batch(2), through=Position(2), now=AT)
    again.close()
    assert cases(server) == [1, 2]


def test_the_check_can_fail(server: StorageServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer that took the record's word alone would land the batch twice."""
    test_record = tmp_path / "record.json"
    writer = opened(server, tmp_path)
    writer.append(batch(1), through=Position(1), now=AT)
    monkeypatch.setattr(bigquery_write, "ATTEMPTS", 1)
    server.lose_answers = 1
    with pytest.raises(TransientError):
        writer.append(batch(2), through=Position(2), now=AT)
    forgot = json.loads(test_record.read_text()) | {"stream": "", "offset": 0, "next_offset": 0}
    test_record.write_text(json.dumps(forgot))
    again = opened(server, tmp_path)
    again.append(batch(2), through=Position(2), now=AT)
    again.close()
    assert cases(server) == [1, 2, 2]


def test_a_writer_whose_stream_was_taken_over_can_append_no_more(server: StorageServer, tmp_path: Path) -> None:
    slow = opened(server, tmp_path)
    slow.append(batch(1), through=Position(1), now=AT)
    opened(server, tmp_path).close()
    with pytest.raises(EngineError, match="refuses rows") as error:
        slow.append(batch(2), through=Position(2), now=AT)
    assert "4711" not in str(error.value), "BigQuery's text may hold values of rows"
    assert cases(server) == [1]


def test_a_stream_that_is_gone_lets_the_batch_land_again(server: StorageServer, tmp_path: Path) -> None:
    writer = opened(server, tmp_path)
    writer.append(batch(1), through=Position(1), now=AT)
    writer.close()
    server.streams.clear()
    assert opened(server, tmp_path).position == Position(1)


def test_rows_that_waited_too_long_are_not_landed(server: StorageServer, tmp_path: Path) -> None:
    writer = opened(server, tmp_path)
    with pytest.raises(TransientError, match="stamp them anew"):
        writer.append(batch(1, at=NOW - 1801), through=Position(1), now=AT)
    assert writer.append(batch(1, at=NOW - 1800), through=Position(1), now=AT + timedelta()) == 1
    writer.close()


def test_what_cannot_be_is_refused(server: StorageServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bigquery_write, "MOST_BYTES", 10)
    with pytest.raises(UsageError, match="at most 10 fit into one append"):
        opened(server, tmp_path).append(batch(1), through=Position(1), now=AT)
    (tmp_path / "record.json").write_text("[]")
    with pytest.raises(SourceFileError, match="no record of a writer"):
        opened(server, tmp_path)
    nested = pa.schema([pa.field("grid", pa.list_(pa.list_(pa.int64())))])
    with pytest.raises(UnsupportedError, match="lists within lists"):
        RowEncoder(nested)
    encoder = RowEncoder(pa.schema([pa.field("some", pa.list_(pa.int64()))]))
    with pytest.raises(UnsupportedError, match="holds null"):
        list(encoder.rows(pa.table({"some": pa.array([[1, None]], pa.list_(pa.int64()))})))
    del server.tables[TABLE]
    (tmp_path / "record.json").unlink()
    monkeypatch.setattr(bigquery_write, "MOST_BYTES", 1000)
    with pytest.raises(EngineError, match="no such table"):
        opened(server, tmp_path).append(batch(1), through=Position(1), now=AT)
