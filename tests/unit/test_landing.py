"""Landing: each event once, whatever a file is called, however it grew, wherever a run stopped."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import threading
from datetime import datetime, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from deltalake import DeltaTable
from helpers.tiers import often
from helpers.tiny_project import SCHEMA, append_lines, event, landed_ids, quarantined, raw_table, write_lines

from cdc_views.engines.base import RawTable
from cdc_views.errors import SourceFileError, TransientError, UsageError
from cdc_views.formats.cassandra_mutation import CassandraMutation
from cdc_views.landing import LandingReport, create_raw, pipeline, replay, sources
from cdc_views.landing import land as land_files
from cdc_views.landing.report import FileReport
from cdc_views.model.schema import Column, TableSchema
from cdc_views.model.types import Kind, Scalar
from cdc_views.storage.conflicts import ConflictError
from cdc_views.storage.relation import Relation

NOW = datetime(2026, 11, 21, 9, 30, 0, 123456, tzinfo=timezone.utc)
FORMAT = CassandraMutation()


def land(raw: RawTable, *files: Path | str, **options: Any) -> LandingReport:
    return land_files(raw, FORMAT, files, now=NOW, **options)


def version(raw: RawTable) -> int:
    return int(DeltaTable(raw.location).version())


@pytest.fixture
def raw(tmp_path: Path) -> RawTable:
    return raw_table(tmp_path)


def test_events_become_rows_with_origin_and_landing_time(raw: RawTable, tmp_path: Path) -> None:
    cleared = {"kind": "row", "clustering": {"line": 0}, "cells": [{"column": "note", "written": 2, "deleted_at": 1}]}
    bounds = {"start": {"clustering": {"line": 7}, "inclusive": True}, "end": {"clustering": {}, "inclusive": False}}
    rest = {"kind": "range_deletion", "deletion": {"written": 3, "deleted_at": 1}, **bounds}
    gone = event(4, rows=[], partition_deletion={"written": 4, "deleted_at": 1})
    report = land(raw, write_lines(tmp_path / "a.jsonl", event(1), event(2, rows=[cleared]), event(3, rows=[rest]), gone))
    assert (report.events, report.facts, report.quarantined, report.skipped_bytes) == (4, 4, 0, 0)
    first, second, third, fourth = DeltaTable(raw.location).to_pyarrow_table().sort_by("id").to_pylist()
    assert first["_origin"] == {"node": "n1", "segment": "1", "position": 1}
    assert first["_landed_at"] == NOW
    assert first["state"]["value"] == "open"
    assert first["note"] is None, "absent"
    assert (second["note"]["value"], second["note"]["rank"] >= 0) == (None, True), "a tombstone"
    assert (first["_live"]["written"], second["_live"], third["_live"]) == (1, None, None)
    assert (first["_deleted"], third["_deleted"]["written"], fourth["_deleted"]["written"]) == (None, 3, 4)
    assert [fact["_kind"] for fact in (first, third, fourth)] == ["row", "range", "partition"]
    assert [fact["line"] for fact in (first, third, fourth)] == [0, None, None], "rows alone have clustering columns"
    assert third["_from"]["line"] == 7
    assert [(third[name]["size"], third[name]["inclusive"]) for name in ("_from", "_to")] == [(1, True), (0, False)]


def test_landing_again_commits_nothing(raw: RawTable, tmp_path: Path) -> None:
    file = write_lines(tmp_path / "a.jsonl", event(1), event(2))
    land(raw, file)
    before = version(raw)
    report = land(raw, file)
    assert (report.events, report.skipped_bytes) == (0, file.stat().st_size)
    assert (version(raw), landed_ids(raw)) == (before, [1, 2])


def test_a_grown_file_lands_its_new_lines(raw: RawTable, tmp_path: Path) -> None:
    file = write_lines(tmp_path / "a.jsonl", event(1))
    land(raw, file)
    assert land(raw, append_lines(file, event(2), event(3))).events == 2
    assert land(raw, append_lines(file, event(4))).events == 1
    assert landed_ids(raw) == [1, 2, 3, 4]


def test_the_same_content_under_another_name_adds_nothing(raw: RawTable, tmp_path: Path) -> None:
    file = write_lines(tmp_path / "a.jsonl", event(1), event(2))
    land(raw, file)
    copy = tmp_path / "b.jsonl"
    copy.write_bytes(file.read_bytes())
    packed = tmp_path / "c.jsonl.gz"
    packed.write_bytes(gzip.compress(file.read_bytes()))
    assert land(raw, copy, packed).events == 0
    assert land(raw, append_lines(copy, event(3))).events == 1
    assert landed_ids(raw) == [1, 2, 3]


def test_the_same_name_with_other_content_lands(raw: RawTable, tmp_path: Path) -> None:
    file = write_lines(tmp_path / "a.jsonl", event(1), event(2))
    land(raw, file)
    assert land(raw, write_lines(file, event(3))).events == 1
    assert landed_ids(raw) == [1, 2, 3]


def test_files_that_share_their_first_line_both_land_and_both_grow(raw: RawTable, tmp_path: Path) -> None:
    one = write_lines(tmp_path / "a.jsonl", event(1), event(2))
    two = write_lines(tmp_path / "b.jsonl", event(1), event(3), event(4))
    assert land(raw, one, two).events == 5
    append_lines(one, event(5))
    append_lines(two, event(6))
    report = land(raw, two, one)
    assert [file.events for file in report.files] == [1, 1]
    assert landed_ids(raw) == [1, 1, 2, 3, 4, 5, 6]
    assert land(raw, one, two).events == 0


def test_blank_lines_carriage_returns_and_a_byte_order_mark_are_no_events(raw: RawTable, tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_bytes(b"\xef\xbb\xbf" + event(1).encode() + b"\r\n\r\n  \n" + event(2).encode() + b"\r\n\n")
    report = land(raw, file)
    assert (report.events, report.quarantined) == (2, 0)


def test_a_whole_event_without_a_newline_lands_once(raw: RawTable, tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text(event(1) + "\n" + event(2))
    assert land(raw, file).events == 2
    assert land(raw, file).events == 0
    file.write_text(event(1) + "\n" + event(2) + "\n" + event(3))
    assert land(raw, file).events == 1
    assert landed_ids(raw) == [1, 2, 3]


def test_a_cut_off_line_is_quarantined_once_and_lands_when_the_file_has_grown(raw: RawTable, tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    whole = event(1) + "\n" + event(2) + "\n"
    file.write_text(whole[:-20])
    first = land(raw, file)
    assert (first.events, first.quarantined) == (1, 1)
    assert "ends inside this event" in quarantined(raw)[0]["reason"]
    assert quarantined(raw)[0]["event"] == event(2).encode()[:-19]
    again = land(raw, file)
    assert (again.events, again.quarantined, len(quarantined(raw))) == (0, 0, 1)
    file.write_text(whole)
    grown = land(raw, file)
    assert (grown.events, grown.quarantined) == (1, 0)
    assert landed_ids(raw) == [1, 2]
    assert [row["replay"] for row in quarantined(raw)] == [0]
    assert replay(raw, FORMAT, now=NOW).waiting == 0


def test_a_cut_off_only_line_lands_when_the_file_has_grown(raw: RawTable, tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text(event(1)[:30])
    assert land(raw, file).quarantined == 1
    assert DeltaTable.is_deltatable(raw.location)
    file.write_text(event(1) + "\n")
    assert land(raw, file).events == 1


def test_bad_events_go_to_quarantine_with_reason_bytes_and_place(raw: RawTable, tmp_path: Path) -> None:
    bad = [b"{not json", b'\xff\xfe{"a":1}', event(9, table="other").encode(), b"[]", b"null"]
    file = write_lines(tmp_path / "a.jsonl", event(1), *bad, event(2))
    report = land(raw, file)
    assert (report.events, report.quarantined) == (2, 5)
    rows = quarantined(raw)
    assert [row["event"] for row in rows] == bad
    assert [row["line"] for row in rows] == [2, 3, 4, 5, 6]
    assert rows[0]["offset"] == len(event(1)) + 1
    assert "not JSON" in rows[0]["reason"]
    assert "UTF-8" in rows[1]["reason"]
    assert "shop.other" in rows[2]["reason"]
    assert {row["format"] for row in rows} == {"cassandra-mutation"}
    assert {row["source"] for row in rows} == {str(file)}
    assert report.files[0].rejections[0].line == 2
    assert land(raw, file).quarantined == 0
    assert len(quarantined(raw)) == 5


def test_odd_file_names_and_lone_surrogates_are_kept_readable(raw: RawTable, tmp_path: Path) -> None:
    file = tmp_path / "odd\udcff.jsonl"
    write_lines(file, event(1, state="x").replace('"x"', r'"\ud800"'), event(2, node="x").replace('"x"', r'"\udc00"'), event(3))
    report = land(raw, file)
    assert (report.events, report.quarantined) == (1, 2)
    assert {row["source"] for row in quarantined(raw)} == {f"{tmp_path}/odd\\udcff.jsonl"}


def test_a_file_of_bad_events_only_makes_an_empty_table_and_is_not_read_twice(raw: RawTable, tmp_path: Path) -> None:
    file = write_lines(tmp_path / "a.jsonl", "nonsense")
    assert land(raw, file).quarantined == 1
    assert landed_ids(raw) == []
    assert land(raw, file).skipped_bytes == file.stat().st_size


def test_an_empty_file_makes_an_empty_table(raw: RawTable, tmp_path: Path) -> None:
    assert land(raw, write_lines(tmp_path / "a.jsonl")).events == 0
    assert landed_ids(raw) == []


def test_an_event_that_fits_no_column_costs_only_itself(raw: RawTable, tmp_path: Path) -> None:
    class TooWide(CassandraMutation):
        def decode(self, event: Any, schema: TableSchema) -> Any:
            facts = super().decode(event, schema)
            if '"position": 2,' in event.text:
                object.__setattr__(facts[0], "partition", (1 << 40,))
            return facts

    file = write_lines(tmp_path / "a.jsonl", event(1), event(2), event(3))
    report = land_files(raw, TooWide(), [file], now=NOW)
    assert (report.events, report.quarantined, landed_ids(raw)) == (2, 1, [1, 3])
    assert "does not fit the raw table" in quarantined(raw)[0]["reason"]


def test_a_hole_in_a_decoder_costs_only_the_event(raw: RawTable, tmp_path: Path) -> None:
    class Broken(CassandraMutation):
        def decode(self, event: Any, schema: TableSchema) -> Any:
            if '"position": 2,' in event.text:
                raise KeyError("oops")
            return super().decode(event, schema)

    report = land_files(raw, Broken(), [write_lines(tmp_path / "a.jsonl", event(1), event(2))], now=NOW)
    assert (report.events, report.quarantined) == (1, 1)
    assert "KeyError" in quarantined(raw)[0]["reason"]


@pytest.mark.parametrize("batch_rows", [1, 2, 3, 100])
def test_batches_of_any_size_land_everything_once(raw: RawTable, tmp_path: Path, batch_rows: int) -> None:
    lines = [event(n) if n % 3 else f"bad {n}" for n in range(1, 12)]
    file = write_lines(tmp_path / "a.jsonl", *lines)
    seen: list[int | None] = []

    def progress(file: FileReport, *, done_bytes: int, total_bytes: int | None) -> None:
        seen.append(done_bytes)

    report = land(raw, file, batch_rows=batch_rows, progress=progress)
    assert (report.events, report.quarantined) == (8, 3)
    assert landed_ids(raw) == [n for n in range(1, 12) if n % 3]
    assert seen[-1] == file.stat().st_size
    assert land(raw, file, batch_rows=4).events == 0


def test_standard_input_is_known_by_content_too(raw: RawTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write_lines(tmp_path / "a.jsonl", event(1), event(2))
    monkeypatch.setattr(sources.sys, "stdin", SimpleNamespace(buffer=io.BytesIO(file.read_bytes())))
    assert land(raw, "-").events == 2
    assert land(raw, file).events == 0


def test_a_missing_file_is_found_before_anything_lands(raw: RawTable, tmp_path: Path) -> None:
    with pytest.raises(SourceFileError, match="no such file"):
        land(raw, write_lines(tmp_path / "a.jsonl", event(1)), tmp_path / "missing.jsonl")
    with pytest.raises(SourceFileError, match="is a directory"):
        land(raw, tmp_path)
    assert not DeltaTable.is_deltatable(raw.location)


def test_a_broken_gzip_file_is_an_error_not_a_traceback(raw: RawTable, tmp_path: Path) -> None:
    file = tmp_path / "a.gz"
    file.write_bytes(gzip.compress(event(1).encode() * 100)[:-20])
    with pytest.raises(SourceFileError, match="cannot be read"):
        land(raw, file)


class Crash(Exception):
    """The process dies here."""


@pytest.mark.parametrize("batch_rows", often([2, 1, 100], 2))
@pytest.mark.parametrize("step", range(18))
def test_a_crash_at_any_commit_loses_and_doubles_nothing(
    raw: RawTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int, batch_rows: int
) -> None:
    file = write_lines(tmp_path / "a.jsonl", event(1), "bad 2", event(3), "bad 4", "bad 5", event(6))
    other = write_lines(tmp_path / "b.jsonl", event(1), "bad 2", event(7), "bad 8")
    commits = 0
    for module, name in (("pipeline", "appended"), ("quarantine", "append")):
        real = getattr(__import__(f"cdc_views.landing.{module}", fromlist=[name]), name)

        def dying(*args: Any, _real: Any = real, **options: Any) -> Any:
            nonlocal commits
            commits += 1
            if commits == step // 2 + 1 and step % 2 == 0:
                raise Crash
            done = _real(*args, **options)
            if commits == step // 2 + 1:
                raise Crash
            return done

        monkeypatch.setattr(f"cdc_views.landing.{module}.{name}", dying)
    with contextlib.suppress(Crash):
        land(raw, file, other, batch_rows=batch_rows)
    monkeypatch.undo()
    append_lines(file, event(9), "bad 10")
    land(raw, other, file, batch_rows=3)
    assert landed_ids(raw) == [1, 1, 3, 6, 7, 9]
    assert sorted(row["event"] for row in quarantined(raw)) == [b"bad 10", b"bad 2", b"bad 2", b"bad 4", b"bad 5", b"bad 8"] or (
        # the two files are one as far as their second line, and so is the event there
        sorted(row["event"] for row in quarantined(raw)) == [b"bad 10", b"bad 2", b"bad 4", b"bad 5", b"bad 8"]
    )


def test_landers_side_by_side_land_each_event_once(raw: RawTable, tmp_path: Path) -> None:
    shared = write_lines(tmp_path / "a.jsonl", *(event(n) if n % 5 else f"bad {n}" for n in range(1, 41)))
    own = [write_lines(tmp_path / f"own{i}.jsonl", event(1), event(100 + i)) for i in range(3)]
    failures: list[BaseException] = []

    def run(index: int) -> None:
        try:
            land(raw, shared, own[index], batch_rows=7)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert landed_ids(raw) == sorted([n for n in range(1, 41) if n % 5] + [1, 1, 1, 100, 101, 102])
    assert len(quarantined(raw)) == 8


def test_a_lander_that_always_loses_gives_up_with_advice(raw: RawTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def losing(*args: Any, **options: Any) -> None:
        raise ConflictError("lost")

    monkeypatch.setattr(pipeline, "appended", losing)
    with pytest.raises(TransientError, match="run it again"):
        land(raw, write_lines(tmp_path / "a.jsonl", event(1)))


def test_a_raw_table_of_another_table_format_or_version_is_refused(raw: RawTable, tmp_path: Path) -> None:
    land(raw, write_lines(tmp_path / "a.jsonl", event(1)))
    other = TableSchema("shop", "other", SCHEMA.columns)
    with pytest.raises(UsageError, match=r"events of shop\.orders, not of shop\.other"):
        create_raw(RawTable(raw.location, Relation(other)), format_name="cassandra-mutation")
    with pytest.raises(UsageError, match="landed as cassandra-mutation, not as key-value"):
        create_raw(raw, format_name="key-value")
    monkey = tmp_path / "newer"
    DeltaTable.create(
        str(monkey),
        raw.relation.arrow_schema(),
        name="shop.orders",
        description="cdc-views raw table; layout 99; order micros; format cassandra-mutation",
    )
    with pytest.raises(UsageError, match="newer than"):
        create_raw(RawTable(str(monkey), raw.relation), format_name="cassandra-mutation")
    strange = tmp_path / "strange"
    DeltaTable.create(str(strange), raw.relation.arrow_schema())
    with pytest.raises(UsageError, match="no raw table of cdc-views"):
        create_raw(RawTable(str(strange), raw.relation), format_name="cassandra-mutation")


def test_a_new_column_is_added_and_a_changed_type_refused(raw: RawTable, tmp_path: Path) -> None:
    file = write_lines(tmp_path / "a.jsonl", event(1))
    land(raw, file)
    wider = TableSchema("shop", "orders", (*SCHEMA.columns, Column("price", Scalar(Kind.DECIMAL))))
    priced = json.loads(event(2))
    priced["rows"][0]["cells"].append({"column": "price", "written": 2, "value": 1.5})
    land(RawTable(raw.location, Relation(wider)), append_lines(file, json.dumps(priced)))
    assert landed_ids(raw) == [1, 2]
    land(raw, append_lines(file, event(3)))  # the old schema still lands
    changed = TableSchema("shop", "orders", (*SCHEMA.columns[:2], Column("state", Scalar(Kind.INT)), SCHEMA.columns[3]))
    with pytest.raises(UsageError, match="column state is stored as"):
        land(RawTable(raw.location, Relation(changed)), append_lines(file, event(4)))


def test_a_progress_that_asks_for_it_is_told_of_the_reading(raw: RawTable, tmp_path: Path) -> None:
    """A bar moves while a batch is read; what is told never goes back, and commits are told as to any other."""
    events = write_lines(tmp_path / "events.jsonl", *(event(n, state="x" * 5_000) for n in range(700)))
    seen: list[tuple[str, int]] = []

    class Bar:
        """Takes both."""

        def __call__(self, file: FileReport, *, done_bytes: int, total_bytes: int | None) -> None:
            seen.append(("landed", done_bytes))

        def read(self, file: FileReport, *, done_bytes: int, total_bytes: int | None) -> None:
            assert total_bytes == events.stat().st_size
            seen.append(("read", done_bytes))

    land(raw, events, progress=Bar())
    assert [what for what, _ in seen] == ["read"] * 4 + ["landed"]
    assert [done for _, done in seen] == sorted(done for _, done in seen)
