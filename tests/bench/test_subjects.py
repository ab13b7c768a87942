"""The benchmark's exact subjects give equal checksums on every engine in this process; what is naive does not."""

from __future__ import annotations

import pytest
from generate import build
from run import disagreements
from subjects import RUNNERS, peak_mib, statements

from cdc_views.storage.relation import RawTable

pytestmark = pytest.mark.heavy

EVENTS = 3000


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> RawTable:
    return build(tmp_path_factory.mktemp("bench"), events=EVENTS)


def checksum(raw: RawTable, engine: str, subject: str) -> list[int]:
    if engine == "clickhouse":
        pytest.importorskip("chdb")
    run, table, hash_of = RUNNERS[engine](raw)
    timed, checked = statements(engine, subject, raw, table, hash_of)
    assert len(run(timed)) == 1
    assert checked is not None
    return [int(value) for value in run(checked)[0]]


@pytest.fixture(scope="module")
def expected(raw: RawTable) -> list[int]:
    return checksum(raw, "duckdb", "aggregate")


@pytest.mark.parametrize("subject", ["duckdb window", "duckdb self_join", "clickhouse aggregate"])
def test_exact_subjects_agree(subject: str, raw: RawTable, expected: list[int]) -> None:
    assert expected[0] > 0
    assert checksum(raw, *subject.split()) == expected


@pytest.mark.parametrize("subject", ["duckdb row_number", "clickhouse arg_max"])
def test_naive_subjects_do_not(subject: str, raw: RawTable, expected: list[int]) -> None:
    assert checksum(raw, *subject.split()) != expected


def test_the_benchmark_names_what_differs_and_should_not_and_what_should_and_does_not() -> None:
    told = (("duckdb", "aggregate", "1"), ("spark", "window", "2"), ("duckdb", "row_number", "2"), ("spark", "row_number", "1"))
    results = [{"engine": engine, "subject": subject, "checksum": [value]} for engine, subject, value in told]
    assert disagreements(results) == ["spark window", "spark row_number"]


def test_the_peak_is_this_processs() -> None:
    before = peak_mib()
    held = b"x" * (200 << 20)
    assert peak_mib() >= before
    assert peak_mib() >= len(held) >> 20
