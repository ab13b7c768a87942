"""What a log leaves out is asked of the source, as of the transaction that the log tells of: it may be sent before it is seen."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import Any

import pytest
from cdc_producers.binlog import catalog, snapshots
from cdc_producers.binlog.connections import Access
from cdc_producers.binlog.connections import connect as connect_mariadb
from cdc_producers.mariadb.server import MARIADB
from cdc_producers.mariadb.source import MariaDbSource
from cdc_producers.postgres.connections import connect as connect_postgres
from cdc_producers.postgres.messages import Relation, RelationColumn
from cdc_producers.postgres.snapshots import reread as reread_postgres
from services.mariadb import MariaDb
from services.postgres import Postgres

pytestmark = pytest.mark.heavy

_TEXT = 25
LOCK = MariaDbSource.locking
RELATION = Relation(1, "public", "moved", "d", (RelationColumn("id", 23, -1), RelationColumn("v", _TEXT, -1)))


def assert_waits(answer: Future[Any], *, seconds: float = 0.4) -> None:
    """Fail where it is answered before the transaction ends."""
    time.sleep(seconds)
    assert not answer.done(), answer.result()


@contextmanager
def open_transaction(connection: Any) -> Iterator[Any]:
    """A cursor, whose transaction ends with it whatever happens: else the next test waits for its locks."""
    with closing(connection), connection.cursor() as cursor:
        yield cursor


@pytest.fixture
def moved(mariadb: MariaDb, monkeypatch: pytest.MonkeyPatch) -> MariaDb:
    for name, value in mariadb.environment.items():
        monkeypatch.setenv(name, value)
    mariadb.sql("CREATE TABLE shop.moved (id int PRIMARY KEY, v text, n int)", "INSERT INTO shop.moved VALUES (1, 'is', 7)")
    return mariadb


def test_mariadb_is_asked_again_once_the_transaction_is_seen(moved: MariaDb) -> None:
    mine, theirs = connect_mariadb(Access.of_environment(MARIADB)), moved.connect(autocommit=False)
    table = catalog.read_table(mine, "shop.moved")
    with ThreadPoolExecutor(1) as pool, open_transaction(theirs) as cursor, closing(mine):
        cursor.execute("UPDATE shop.moved SET id = 2 WHERE id = 1")
        answer = pool.submit(snapshots.reread, mine, table, {"id": "2"}, ["v"], lock=LOCK)
        assert_waits(answer)
        theirs.commit()
        assert answer.result(10) == {"v": '"is"'}
        assert snapshots.reread(mine, table, {"id": "1"}, ["v"], lock=LOCK) == {}


def test_mariadb_is_not_waited_for_where_somebody_keeps_the_row(moved: MariaDb) -> None:
    mine, theirs = connect_mariadb(Access.of_environment(MARIADB)), moved.connect(autocommit=False)
    table = catalog.read_table(mine, "shop.moved")
    with open_transaction(theirs) as cursor, closing(mine):
        cursor.execute("UPDATE shop.moved SET v = 'later' WHERE id = 1")
        begun = time.monotonic()
        assert snapshots.reread(mine, table, {"id": "1"}, ["v"], lock=LOCK.replace("10", "1")) == {"v": '"is"'}
        assert 0.5 < time.monotonic() - begun < 5


def test_postgres_is_asked_again_once_the_transaction_is_seen(postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in postgres.environment.items():
        monkeypatch.setenv(name, value)
    postgres.sql("CREATE TABLE public.moved (id int PRIMARY KEY, v text); INSERT INTO public.moved VALUES (1, 'is')")
    mine, theirs = connect_postgres(), postgres.connect()
    theirs.autocommit = False
    with ThreadPoolExecutor(1) as pool, open_transaction(theirs) as cursor, closing(mine):
        cursor.execute("UPDATE public.moved SET id = 2 WHERE id = 1")
        cursor.execute("SELECT txid_current() % (1::bigint << 32)")
        ((number,),) = cursor.fetchall()
        assert reread_postgres(mine, RELATION, {"id": "2"}, ["v"], transaction=0) == {}, "it was seen before its end"
        answer = pool.submit(reread_postgres, mine, RELATION, {"id": "2"}, ["v"], transaction=int(number))
        assert_waits(answer)
        theirs.commit()
        assert answer.result(10) == {"v": "is"}
        assert reread_postgres(mine, RELATION, {"id": "1"}, ["v"], transaction=int(number)) == {}
