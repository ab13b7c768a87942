"""The parts of the HTTP receiver by themselves: cutting arrays, finding tables, rates, dead letters."""

from __future__ import annotations

import asyncio
import base64
import json
from contextlib import ExitStack
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import pytest
from cdc_producers.http.answers import RefusedError
from cdc_producers.http.dead_letters import DeadLetters
from cdc_producers.http.limits import Rate, RequestRoom
from cdc_producers.http.metrics import HttpMetrics
from cdc_producers.http.options import HttpOptions
from cdc_producers.http.routing import Router
from cdc_producers.http.splitting import elements
from cdc_producers.http.table_queue import TableQueue
from helpers.http_receiver import recorded
from hypothesis import given
from hypothesis import strategies as st

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.decimals(allow_nan=False, allow_infinity=False).map(str),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


class TestElements:
    @given(found=st.lists(values), space=st.sampled_from(["", " ", "\n\t "]))
    def test_an_array_is_cut_letter_by_letter(self, found: list[Any], space: str) -> None:
        texts = [json.dumps(value, ensure_ascii=False) for value in found]
        whole = f"{space}[{space}{f'{space},{space}'.join(texts)}{space}]{space}"
        assert elements(whole.encode()) == [text.encode() for text in texts]

    def test_numbers_keep_their_letters(self) -> None:
        numbers = ["1.10", "1E+3", "-0", "9" * 5000, "0.1000000000000000000000001"]
        assert elements(f"[{','.join(numbers)}]".encode()) == [number.encode() for number in numbers]

    @pytest.mark.parametrize(
        "text", ["", "{}", "1", "[", "[1", "[1,", "[1,]", "[,1]", "[1 2]", "[1] x", "[nope]", "[" * 10**5, "]"]
    )
    def test_what_is_no_array_is_none(self, text: str) -> None:
        assert elements(text.encode()) is None

    def test_what_is_not_utf8_is_none(self) -> None:
        assert elements(b'["\xff"]') is None


def routed(event: Any, *tables: str, **headers: str) -> str | None:
    """The table found for an event."""
    named = {name.replace("_", "-", 2): text for name, text in headers.items()}
    return Router(tables, {}).event(json.dumps(event).encode(), named).table


def coded(value: Any) -> str:
    return base64.b64encode(json.dumps(value).encode()).decode()


POSTGRES = {"op": "c", "source": {"db": "lab", "schema": "public", "table": "t"}}


class TestRouting:
    @pytest.mark.parametrize(
        ("event", "table"),
        [
            (POSTGRES, "public.t"),
            (POSTGRES, "lab.public.t"),
            ({"schema": {"type": "struct"}, "payload": POSTGRES}, "public.t"),
            ({"key": {"id": 1}, "value": POSTGRES}, "public.t"),
            ({"key": None, "value": {"schema": None, "payload": POSTGRES}}, "public.t"),
            ({"op": "c", "source": {"db": "shop", "table": "t"}}, "shop.t"),
            ({"op": "c", "source": {"keyspace_name": "ks", "table_name": "t"}}, "ks.t"),
            ({"id": 1, "__table": "t", "__schema": "public"}, "public.t"),
            ({"id": 1, "__source_table": "t"}, "public.t"),
            ({"format": "cassandra-mutation/1", "keyspace": "ks", "table": "t", "partition": {}}, "ks.t"),
        ],
    )
    def test_an_event_says_its_table(self, event: Any, table: str) -> None:
        assert routed(event, table, "public.other") == table
        assert routed(event, "public.other", "other.u") is None

    def test_headers_say_it_where_the_event_does_not(self) -> None:
        plain = {"id": 1}
        assert routed(plain, "public.t", x_debezium___table=coded("t"), x_debezium___schema=coded("public")) == "public.t"
        wrapped = coded({"schema": {"type": "string"}, "payload": "t"})
        assert routed(plain, "public.t", x_debezium___table=wrapped) == "public.t"
        assert routed(plain, "public.t", x_debezium___table="t") == "public.t"

    def test_the_recorded_headers_name_no_table_and_their_bodies_do(self) -> None:
        router = Router(("public.t_types", "public.t_full"), {})
        events = [request for request in recorded() if request["path"] == "/events"]
        for request in events:
            headers = {name.lower(): text for name, text in request["headers"].items()}
            assert router.event(request["body"].encode(), headers).table in router.tables
            assert router.event(b'{"id": 1}', headers).table is None
        assert len(events) == 17

    def test_the_longest_name_wins_and_a_name_of_two_is_refused(self) -> None:
        assert routed(POSTGRES, "public.t", "lab.public.t") == "lab.public.t"
        assert routed({"id": 1, "__table": "t"}, "a.t", "b.t") is None

    def test_a_schema_change_needs_no_table(self) -> None:
        change = {"source": {"db": "lab", "table": "t"}, "ddl": "ALTER TABLE t ADD n int", "tableChanges": []}
        route = Router(("public.other",), {}).event(json.dumps(change).encode(), {})
        assert (route.is_notice, route.table, route.reason) == (True, None, "")

    def test_a_column_is_not_taken_for_the_source(self) -> None:
        assert routed({"id": 1, "table": "t", "keyspace": "public"}, "public.t") is None


def test_a_rate_lets_a_burst_through_and_then_so_many_a_second() -> None:
    now = [0.0]
    rate = Rate(2, 4, lambda: now[0])
    assert [rate.wait("a") for _ in range(5)] == [0, 0, 0, 0, 0.5]
    assert rate.wait("b") == 0
    now[0] = 0.5
    assert [rate.wait("a"), rate.wait("a")] == [0, 0.5]
    now[0] = 100
    assert rate.wait("a", count=10) == 0  # more than the burst, once it is full; owed for afterwards
    assert rate.wait("a") == 3.5


@pytest.mark.parametrize("sizes", [(1, 1, 1), (60, 41)])
def test_requests_beyond_a_number_or_bytes_are_503(sizes: tuple[int, ...]) -> None:
    room = RequestRoom(2, 100, HttpMetrics())
    with room.taken(101):
        pass  # alone it may be larger
    with ExitStack() as taken:
        for size in sizes[:-1]:
            taken.enter_context(room.taken(size))
        with pytest.raises(RefusedError) as refused:
            taken.enter_context(room.taken(sizes[-1]))
    assert refused.value.status == 503


def test_what_cannot_land_is_held_as_long_as_the_option_says(monkeypatch: pytest.MonkeyPatch) -> None:
    held = AsyncMock(side_effect=asyncio.TimeoutError)
    monkeypatch.setattr("cdc_producers.http.table_queue.asyncio.wait_for", held)
    parts: Any = SimpleNamespace(table=SimpleNamespace(name="t"))

    async def posted() -> None:
        await TableQueue(parts, HttpMetrics(), parts, parts, HttpOptions(hold_seconds=0.3)).put([b"{}"])

    with pytest.raises(RefusedError) as refused:
        asyncio.run(posted())
    assert (held.call_args.args[1], refused.value.status) == (0.3, 503)


def test_a_request_waits_for_more_as_long_as_the_option_says() -> None:
    landed: list[int] = []
    parts: Any = SimpleNamespace(table=SimpleNamespace(name="t"), land=lambda events: landed.append(len(events)))

    async def posted() -> None:
        queue = TableQueue(parts, HttpMetrics(), parts, parts, HttpOptions(linger_ms=500))
        running = asyncio.create_task(queue.run())
        first = asyncio.create_task(queue.put([b"1"]))
        await asyncio.sleep(0.05)
        await asyncio.gather(first, queue.put([b"2"]))
        running.cancel()

    asyncio.run(posted())
    assert landed == [2]


def test_a_dead_letter_is_a_line_whatever_it_holds_and_a_torn_line_does_not_spoil_the_next(tmp_path: Path) -> None:
    letters = DeadLetters(tmp_path / "some" / "letters.jsonl")
    now = datetime(2026, 11, 22, tzinfo=timezone.utc)
    contents = [b'{\n"a":\r\n 1.10}', b"\xff\n", b"", '"☃"'.encode()]
    for content in [*contents, *contents]:
        letters.keep(content, path="/events", table=None, reason="none", now=now)
    with letters.file.open("ab") as torn:
        torn.write(b'{"torn')
    assert DeadLetters(letters.file).keep(b"1", path="/", table="t", reason="none", now=now)
    lines = letters.file.read_text().splitlines()
    found = [json.loads(line, parse_float=Decimal) for line in lines if not line.startswith('{"torn')]
    assert len(lines) == 6
    assert [row.get("value") for row in found] == [{"a": Decimal("1.10")}, None, None, "☃", 1]
    assert [base64.b64decode(row["bytes"]) for row in found if "bytes" in row] == [b"\xff\n", b""]
