"""A table that is truncated between the begin of a snapshot and its read is read in a new snapshot, a few times."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

pytest.importorskip("pymysql")

from cdc_producers.binlog import verifying
from cdc_producers.binlog.catalog import BinlogColumn, BinlogTable
from cdc_producers.binlog.connections import Access, TableChangedError, translated
from cdc_producers.binlog.verifying import Seen
from cdc_producers.mysql.server import MYSQL
from cdc_producers.mysql.verifying import MySqlLive
from pymysql.constants import ER
from pymysql.err import OperationalError

from cdc_views.errors import EngineError, TransientError
from cdc_views.formats.debezium.format import Debezium
from cdc_views.landing.live_sources import LiveOrder
from cdc_views.model.schema import Column, Role, TableSchema
from cdc_views.model.types import Kind, Scalar

SCHEMA = TableSchema("shop", "t", (Column("id", Scalar(Kind.INT), Role.PARTITION),))
TABLE = BinlogTable("shop", "t", "InnoDB", (BinlogColumn("id", "int", "int"),), ("id",), (frozenset({"id"}),), 1)


class Changing(MySqlLive):
    """A table without a server."""

    @contextmanager
    def seen(self) -> Iterator[Seen]:
        yield Seen(None, 7, lambda: (9, "the end"))


@pytest.fixture
def live() -> Changing:
    return Changing(Access(MYSQL, (), "", ""), TABLE, LiveOrder("shop.t", SCHEMA, Debezium()))


def raising(monkeypatch: pytest.MonkeyPatch, *errors: Exception) -> list[Exception]:
    """Let reads raise the errors, one each, and then find a row; return those that were not raised."""
    left = list(errors)

    def selected(*_: Any, **__: Any) -> Iterator[list[str]]:
        if left:
            raise left.pop(0)
        return iter([["1"]])

    monkeypatch.setattr(verifying, "selected", selected)
    return left


def test_a_new_snapshot_is_read(live: Changing, monkeypatch: pytest.MonkeyPatch) -> None:
    left = raising(monkeypatch, TableChangedError("1"), TableChangedError("2"))
    found = live.chunk("", limit=10)
    assert ([row.values for row in found.rows], found.at, left) == ([{"id": 1}], "the end", [])


def test_it_ends(live: Changing, monkeypatch: pytest.MonkeyPatch) -> None:
    raising(monkeypatch, *[TableChangedError("1")] * 99)
    with pytest.raises(TransientError, match="again and again"):
        live.chunk("", limit=10)


def test_no_other_error_is_passed_over(live: Changing, monkeypatch: pytest.MonkeyPatch) -> None:
    left = raising(monkeypatch, TransientError("away"), EngineError("no"))
    with pytest.raises(TransientError, match="away"):
        live.chunk("", limit=10)
    assert len(left) == 1


def test_the_server_tells_it() -> None:
    assert isinstance(translated(MYSQL, "reading", OperationalError(ER.TABLE_DEF_CHANGED, "changed")), TableChangedError)
