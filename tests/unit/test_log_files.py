"""Notes of positions: which log of a server they are of."""

from __future__ import annotations

import pytest

pytest.importorskip("pymysql")

from cdc_producers.binlog.log_files import LogFile, is_behind_all
from cdc_producers.binlog.marks import Mark
from cdc_producers.mariadb.gtids import Gtid, MariaDbPlace
from cdc_producers.mysql.gtids import GtidSet, MySqlPlace
from hypothesis import given
from hypothesis import strategies as st

SET = "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5:tagged:7,4e11fa47-71ca-11e1-9e33-c80aa9429562:1"


@given(
    server=st.from_regex(r"[0-9a-f-]{1,36}", fullmatch=True),
    name=st.text(st.characters(exclude_characters="\n"), min_size=1),
    began=st.integers(0, 2**32 - 1),
    gtids=st.sampled_from(["", SET]),
)
def test_a_note_has_the_log_and_the_gtids(server: str, name: str, began: int, gtids: str) -> None:
    log = LogFile(server, name, began)
    mark = MySqlPlace(GtidSet.read(gtids), log=log).mark(3)
    assert (mark.log, mark.gtids) == (log, gtids)
    assert MariaDbPlace(Gtid(0, 1, 5), log).mark(3).log == log


def test_a_note_of_an_earlier_release_names_no_log() -> None:
    mark = Mark(0, 7, note=SET)
    assert (mark.log, mark.gtids) == (None, SET)
    assert Mark(0, 7).log is None


@pytest.mark.parametrize(
    ("name", "names", "expected"),
    [
        ("binlog.000007", ["binlog.000001", "binlog.000002"], True),
        ("binlog.000007", ["binlog.000008"], False),  # purged
        ("binlog.000007", ["binlog.000006", "binlog.000008"], False),
        ("binlog.999999", ["binlog.1000000"], False),
        ("old.000007", ["binlog.000001"], False),  # renamed: nobody knows
        ("binlog.000007", [], False),
    ],
)
def test_only_a_log_begun_anew_counts_back(name: str, names: list[str], expected: bool) -> None:
    assert is_behind_all(LogFile("1", name, 0), names) is expected
